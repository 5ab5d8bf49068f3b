"""The data folder of a local run: its run, the process that holds it, and its running services.

::

    DATA/zerofleet.json     {"format": 1, "run": ..., "game": ...}: written once; its lock is
                            shared by the commands that use another's stores
    DATA/run.toml           the run file of the last start, with the values from --set and
                            ZEROFLEET_SET
    DATA/run-1.0.toml       run.toml as zerofleet 1.0 wrote it, in a folder that 1.0 made
    DATA/lock               held with flock by the command that runs the stores
    DATA/running.json       where the holder's stores and services listen
    DATA/usage.json         wall and CPU seconds of the run since its first game
    DATA/page.json          {"port": ...}: the port of the dashboard, the same on each start
    DATA/NAME.before        one of these files before a start that has not succeeded yet
    DATA/postgres, valkey, models, checkpoints, logs
"""

from __future__ import annotations

import contextlib
import fcntl
import filecmp
import json
import os
import resource
import shlex
import stat
import time
import tomllib
from collections.abc import Callable, Generator
from dataclasses import asdict, dataclass
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from zerofleet.config.renamed import MARKER, OF_1_0, is_of_1_0
from zerofleet.errors import ConfigError, ZerofleetError, is_disk_full, shared_memory_full
from zerofleet.fleet.usage import Usage, read_usage
from zerofleet.printable import printable

if TYPE_CHECKING:
    from zerofleet.config import Overrides, RunConfig


FORMAT = 1
REPLACED = ("run.toml", "stores.json", "page.json")
"""Files that a start replaces, and that a failed start restores."""
_PRIVATE = (MARKER, "lock", *REPLACED, OF_1_0, "models", "checkpoints", "logs", "engines", "valkey")
OLD = ".before"
"""Suffix of a replaced file until the start has succeeded."""
_PORTS = range(1, 65_536)
_LOCK_SECONDS = 0.5

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")
_MOST_CURVE_POINTS = 250


def narrow(path: Path, *, passing: bool = True) -> None:
    """Remove the rights of other users to a file or folder of ours.

    Args:
        path: nothing happens if it does not exist or is a link.
        passing: if we are root, others may still pass through a folder, because Postgres runs as
            another user.
    """
    with contextlib.suppress(OSError):  # missing, or not ours
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            return
        is_way = passing and os.geteuid() == 0 and stat.S_ISDIR(mode)
        taken = mode & (0o066 if is_way else 0o077)
        if taken:
            path.chmod(stat.S_IMODE(mode) & ~taken)


def lock_holder(path: Path) -> int | None:
    """Return the process that holds a file's lock; None if the system does not say."""
    with contextlib.suppress(OSError, ValueError):
        status = path.stat()
        device, inode = (os.major(status.st_dev), os.minor(status.st_dev)), status.st_ino
        for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            _, kind, _, _, pid, place, *_ = line.split()
            major, minor, number = place.split(":")
            if kind == "FLOCK" and ((int(major, 16), int(minor, 16)), int(number)) == (
                device,
                inode,
            ):
                return int(pid) if int(pid) > 0 else None  # a process outside our PID namespace
    return None


class FolderLock:
    """A lock on a folder, held by us and by the children that we hand ``fileno()`` to.

    A server that briefly outlives its parent to shut down cleanly still holds it.
    """

    def __init__(self, folder: Path, patience: float) -> None:
        """Take the lock.

        Args:
            folder: made if absent.
            patience: seconds to wait for a server that is shutting down.

        Raises:
            ConfigError: another process holds it, or the folder cannot be written.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / "lock"
            path.touch(0o600)
            self._file = path.open("a+", encoding="utf-8")
            for each in (folder, path):
                narrow(each)
        except OSError as error:
            raise ConfigError(f"cannot use the folder {folder}: {error.strerror}") from error
        deadline = time.monotonic() + patience
        while not self._taken():
            if time.monotonic() > deadline:
                self._file.close()
                pid = lock_holder(folder / "lock")
                process = "" if pid is None else f" (process {pid})"
                raise ConfigError(
                    f"a server is already running in {folder}{process}: stop it first"
                )
            time.sleep(0.02)

    def fileno(self) -> int:
        """The descriptor of the open file with the lock."""
        return self._file.fileno()

    def release(self) -> None:
        """Release the lock here; children that hold it keep it until they end."""
        self._file.close()

    def _taken(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@dataclass(frozen=True, slots=True)
class DataFolder:
    """A folder that belongs to one run."""

    root: Path
    run: str
    game: str

    @classmethod
    def open(cls, root: Path) -> Self:
        """Return an existing data folder.

        Raises:
            ConfigError: it does not exist, is something else, or a newer zerofleet made it.
        """
        _require_utf8(root)
        marker = root / MARKER
        if not _exists(marker):
            raise ConfigError(
                f"{root} is not a data folder (no {MARKER} in it): "
                "start a run there with `zerofleet up RUN.toml --data DIR`"
            )
        if not os.access(marker, os.R_OK, effective_ids=os.access in os.supports_effective_ids):
            raise ConfigError(
                f"cannot use {root}: it belongs to user ID {root.stat().st_uid}, and this is user "
                f"ID {os.geteuid()}"
            )
        content = read_json(marker)
        made_by = content.get("format")
        if not isinstance(made_by, int):
            raise ConfigError(f"{marker} is damaged: it names no format")
        if made_by > FORMAT:
            raise ConfigError(
                f"{root} was made by a newer zerofleet (format {made_by}, this one knows "
                f"{FORMAT}): update zerofleet or give another --data"
            )
        return cls(root.resolve(), str(content.get("run")), str(content.get("game")))

    @classmethod
    def for_run(cls, root: Path, run: RunConfig) -> Self:
        """Return the folder of this run; make it if there is none yet.

        Raises:
            ConfigError: the folder belongs to another run or game, or holds other things.
        """
        _require_utf8(root)
        if not _exists(root / MARKER):
            marker = {"format": FORMAT, "run": run.name, "game": run.game.name}
            with full_disk_named(root):
                write_json(_made(root) / MARKER, marker)
        folder = cls.open(root)
        if (folder.run, folder.game) != (run.name, run.game.name):
            raise ConfigError(
                f"{root} belongs to the run '{folder.run}' of {folder.game}, not to "
                f"'{run.name}' of {run.game.name}: give another --data"
            )
        return folder

    def keep_run_file(
        self, run_file: Path, run: RunConfig, overrides: Overrides | None = None
    ) -> None:
        """Write the run file into the folder: services and later commands read it there.

        It includes the values from ``--set`` and ``ZEROFLEET_SET``, because later commands do not
        get them. It also includes the disk limit, whose default depends on where the database is.

        Raises:
            ConfigError: the run file cannot be read again, or its copy cannot be written.
        """
        from zerofleet.config import run_file_text

        if not run_file.is_file():  # a shell's <(...), which load_run has consumed
            raise ConfigError(f"cannot copy {run_file}: give a run file that is a plain file")
        text = run_file_text(run_file, run, {"retention": {"max_disk_gb": None}}, overrides)
        try:
            with full_disk_named(self.root):
                if self.is_of_1_0():
                    write_private(self.root / OF_1_0, self.run_file.read_text(encoding="utf-8"))
                write_private(self.run_file, text)
        except OSError as error:
            raise ConfigError(
                f"cannot write {self.run_file}: {error.strerror}: give a data folder that can be "
                "written to"
            ) from error

    @property
    def run_file(self) -> Path:
        """The run file that the services of this folder read."""
        return self.root / "run.toml"

    def read_run(self) -> RunConfig:
        """Read the run of the last start; ``ZEROFLEET_SET`` does not change it.

        Raises:
            ConfigError: the run file cannot be read, or has a mistake.
        """
        from zerofleet.config import Overrides, load_run

        return load_run(self.run_file, Overrides())

    def is_of_1_0(self) -> bool:
        """Return whether the folder's run file is one that zerofleet 1.0 kept."""
        try:
            values = tomllib.loads(self.run_file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False  # a new folder, or a damaged file, which whoever loads it reports
        return is_of_1_0(self.run_file, values)

    @property
    def usage_file(self) -> Path:
        """File with the duration and the CPU time of the run, see ``UsageMeter``."""
        return self.root / "usage.json"

    @property
    def logs(self) -> Path:
        """Logs of the services, ``NAME.log``."""
        return self.root / "logs"

    @property
    def store_logs(self) -> tuple[Path, ...]:
        """Logs of the embedded stores."""
        return self.root / "postgres" / "server.log", self.root / "valkey" / "server.log"

    @property
    def models(self) -> Path:
        """Published models."""
        return self.root / "models"

    @property
    def checkpoints(self) -> Path:
        """The trainer's checkpoints."""
        return self.root / "checkpoints"

    def page_port(self) -> int | None:
        """Return the port of the dashboard of this run; None: it has none yet."""
        with contextlib.suppress(ConfigError):
            port = read_json(self.root / "page.json").get("port")
            if type(port) is int and port in _PORTS:
                return port
        return None

    def keep_page_port(self, port: int) -> None:
        """Save the port of the dashboard, so that a bookmark still works after the next start."""
        if port != self.page_port():
            with full_disk_named(self.root):
                write_json(self.root / "page.json", {"port": port})

    @contextlib.contextmanager
    def hold(self, command: str) -> Generator[None]:
        """Be the only process that runs stores here; the kernel releases the lock when it ends.

        Undoes a start that was killed before it succeeded.

        Raises:
            ConfigError: another process holds the folder.
        """
        with self._lock_file().open("r+b", buffering=0) as lock:
            if not _locked(lock, patience=_LOCK_SECONDS):
                raise ConfigError(
                    f"{self.root} is in use by {self._holder_words()}: stop it first, or give "
                    "another --data"
                )
            self._protect()
            # Overwrite the line of the last holder: a full disk may have no room for another.
            with full_disk_named(self.root):
                lock.truncate(lock.write(f"{os.getpid()} zerofleet {command}".encode()))
            self.give_back()
            yield

    def give_back(self) -> list[str]:
        """Restore the files that a start has replaced; call it only while holding the folder.

        A ``run-1.0.toml`` that is only a copy of the restored run file is removed.

        Returns:
            The names of the files that were restored.
        """
        replaced = [name for name in REPLACED if (self.root / f"{name}{OLD}").exists()]
        before, original = self.root / f"{self.run_file.name}{OLD}", self.root / OF_1_0
        if before.exists() and original.exists() and filecmp.cmp(before, original, shallow=False):
            original.unlink()
        for name in replaced:
            (self.root / f"{name}{OLD}").replace(self.root / name)  # needs no free space
        return replaced

    def undo_killed_start(self) -> None:
        """Restore the files that a killed start has replaced, before a command reads them."""
        if any((self.root / f"{name}{OLD}").exists() for name in REPLACED):
            with self._lock_file().open("r+b", buffering=0) as lock:
                if _locked(lock, patience=0.0):  # otherwise a start is in progress
                    self.give_back()

    @contextlib.contextmanager
    def guest(self) -> Generator[None]:
        """Keep the process that runs stores here from stopping them, for the time of this block."""
        with (self.root / MARKER).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
            yield

    @contextlib.contextmanager
    def emptied(self, say: Callable[[], None]) -> Generator[None]:
        """Wait until there is no guest, and admit none during this block.

        Args:
            say: called once if there is a guest.
        """
        with (self.root / MARKER).open("rb", buffering=0) as lock:
            if not _locked(lock, patience=_LOCK_SECONDS):
                say()
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def is_held(self) -> bool:
        """Return whether a process runs stores here now."""
        with self._lock_file().open("r+b", buffering=0) as lock:
            return not _locked(lock, patience=0.0)

    def holder_pid(self) -> int:
        """Return the process that holds the folder, or held it last."""
        return self._holder()[0]

    def _holder(self) -> tuple[int, str]:
        number, _, command = self._lock_file().read_text(encoding="utf-8").partition(" ")
        return int(number) if number.isdigit() else 0, command or "zerofleet"

    def _holder_words(self) -> str:
        """Describe the holder of the lock, which may also be another program."""
        pid, name = self._holder()
        holder = lock_holder(self.root / "lock")
        if holder is None and Path("/proc/self").exists() and not Path(f"/proc/{pid}").exists():
            return f"another process (`fuser -v {shlex.quote(str(self.root / 'lock'))}` names it)"
        if holder in (None, pid):
            return f"`{name}` (process {pid})"
        program, user = "a program", ""
        with contextlib.suppress(OSError):
            process = Path(f"/proc/{holder}")
            program = f"`{printable((process / 'comm').read_text().strip())}`"
            user = f" of user ID {process.stat().st_uid}"
        return f"{program} (process {holder}{user})"

    def _protect(self) -> None:
        """Keep other users out, also of a folder made by an earlier version."""
        narrow(self.root)
        for name in _PRIVATE:
            narrow(self.root / name, passing=False)

    def _lock_file(self) -> Path:
        path = self.root / "lock"
        try:
            path.touch(0o600)
        except OSError as error:
            raise ConfigError(
                f"cannot write to {self.root}: {error.strerror}; it belongs to user ID "
                f"{self.root.stat().st_uid}, and this is user ID {os.geteuid()}"
            ) from error
        return path


def is_log(name: str) -> bool:
    """Return whether a file name is the name of a log, from the last start or the one before."""
    return name.endswith((".log", ".log.1"))


@contextlib.contextmanager
def full_disk_named(folder: Path) -> Generator[None]:
    """Raise errors of a full disk or shared memory with the folder and a remedy.

    Raises:
        ConfigError: the disk or this machine's shared memory is full.
    """
    try:
        yield
    except (OSError, ZerofleetError) as error:
        if (shared := shared_memory_full(str(error))) is not None:
            raise ConfigError(f"{error}: {shared}") from error
        if not is_disk_full(str(error)):
            raise
        raise ConfigError(
            f"the disk of {folder} is full: make room there, then start again ({error})"
        ) from error


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a small file of mode 0600 in one step: readers see the old content or the new."""
    write_private(path, json.dumps(content, indent=2) + "\n")


def _locked(lock: FileIO, *, patience: float) -> bool:
    """Take the lock; wait a moment for a command that holds it only to check."""
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.02)
        else:
            return True


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:
        raise ConfigError(f"cannot look into {path.parent}: {error.strerror}") from error


def _require_utf8(root: Path) -> None:
    """Refuse a folder name that is not UTF-8, which Postgres' client cannot use."""
    try:
        str(root.absolute()).encode()
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"the data folder {root.absolute()} has a name that is not UTF-8: rename it, or give "
            "another --data"
        ) from error


def _made(root: Path) -> Path:
    try:
        root.mkdir(parents=True, exist_ok=True)
        names = (name for _, _, names in os.walk(root) for name in names)
        if not all(map(is_log, names)):  # a first start that failed leaves its logs
            raise ConfigError(f"{root} is not empty and not a data folder: give another --data")
    except OSError as error:
        raise ConfigError(f"cannot make the data folder {root}: {error.strerror}") from error
    return root


def read_json(path: Path) -> dict[str, Any]:
    """Read a file written by ``write_json``.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"cannot read {path}: it holds no JSON object")
    return cast("dict[str, Any]", content)


def write_private(path: Path, content: str) -> None:
    """Write a file of mode 0600 in one step; no other user can read it at any moment."""
    temporary = path.with_name(f"{path.name}.new")
    temporary.unlink(missing_ok=True)
    try:
        temporary.touch(0o600)
        temporary.chmod(0o600)
        temporary.write_text(content, encoding="utf-8")
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_private(path: Path) -> str:
    """Read a file of ``write_private``, and restore its mode if a copy has widened it."""
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)
    return path.read_text(encoding="utf-8")


class UsageMeter:
    """Counts from the first game on, and saves the total so that a resumed run continues it.

    The file also has the curve that ``read_usage`` returns. The dashboard plots figures over it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._before, self._curve = read_usage(path)
        self._start = _now()
        self.usage = self._before

    def read(self, *, games: int) -> Usage:
        """Return the cost up to now; it starts again with each reading until there is a game."""
        now = _now()
        if games == 0:
            self._start = now
        self.usage = Usage(
            self._before.wall_seconds + now.wall_seconds - self._start.wall_seconds,
            self._before.cpu_seconds + now.cpu_seconds - self._start.cpu_seconds,
        )
        if games > 0:
            self._add_to_curve(time.time())
            with contextlib.suppress(OSError):  # the disk is full: keep the last one
                write_json(self._path, asdict(self.usage) | {"curve": self._curve})
        return self.usage

    def _add_to_curve(self, now: float) -> None:
        """Append the current point, or replace the last one if the one before it is close."""
        curve, usage = self._curve, self.usage
        apart = usage.cpu_seconds / _MOST_CURVE_POINTS
        if len(curve) > 1 and curve[-1][1] - curve[-2][1] < apart:
            curve.pop()
        curve.append((round(now, 1), round(usage.cpu_seconds, 2)))
        if len(curve) > 2 * _MOST_CURVE_POINTS:
            self._curve = [*curve[:-1:2], curve[-1]]


def tree_cpu_seconds(root: int) -> float:
    """Return the CPU seconds of a process and all its descendants, ended ones included.

    Linux adds an ended child to its parent once it is waited for, so the sum over the living tree
    is complete. Elsewhere only this process and its ended children are counted.
    """
    if not _PROC.is_dir():
        spent = [
            resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        ]
        return sum(usage.ru_utime + usage.ru_stime for usage in spent)
    ticks: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (fields := _stat_fields(entry)):
            pid, parent = int(entry.name), int(fields[1])
            ticks[pid] = sum(int(field) for field in fields[11:15])  # utime stime cutime cstime
            children.setdefault(parent, []).append(pid)
    total, pending = 0, [root]
    while pending:
        pid = pending.pop()
        total += ticks.get(pid, 0)
        pending += children.get(pid, [])
    return total / _TICKS_PER_SECOND


def _stat_fields(process: Path) -> list[str]:
    """Return the fields after the command's name, which may hold spaces; empty if it has ended."""
    try:
        line = (process / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return line.rpartition(")")[2].split()


def _now() -> Usage:
    return Usage(time.monotonic(), tree_cpu_seconds(os.getpid()))
