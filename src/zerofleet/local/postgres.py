"""A real Postgres inside a data folder, started, resumed and stopped without an administrator.

    FOLDER/cluster          the cluster, or a link to it (see postgres_cluster)
    FOLDER/passwords/NAME   a password for each user, in libpq's password file format, mode 0600
    FOLDER/server.log       log of this start; server.log.1 of the one before
    FOLDER/lock             held while a server runs

It listens on 127.0.0.1 only, has no socket in the file system, and always requires a password.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Self
from urllib.parse import quote

import psycopg2
from psycopg2 import sql

from zerofleet.database.schema import script
from zerofleet.errors import ConfigError
from zerofleet.fleet.disk import LOG_BYTES
from zerofleet.local.data_folder import (
    FolderLock,
    full_disk_named,
    read_private,
    write_private,
)
from zerofleet.local.postgres_cluster import (
    SUPERUSER,
    Cluster,
    PostgresLog,
    PostgresPrograms,
    dropped_to,
)
from zerofleet.local.processes import Account, free_port, start_child, stop_child

_DATABASE = "zerofleet"
_SUPERUSER = "postgres"
_OWNER = "zerofleet"

SHARED = Path("/var/lib/zerofleet")
USERS = MappingProxyType(
    {
        "superuser": SUPERUSER,
        "owner": "zerofleet",
        "worker": "zerofleet_worker",
        "trainer": "zerofleet_trainer",
        "evaluator": "zerofleet_evaluator",
        "console": "zerofleet_console",
        "visitor": "zerofleet_visitor",
    }
)
_SETTINGS = MappingProxyType(
    {
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": "",
        "shared_buffers": "64MB",
        "max_connections": "60",
        "jit": "off",
        "wal_level": "minimal",
        "max_wal_senders": "0",
        "max_wal_size": f"{LOG_BYTES >> 20}MB",
        "max_logical_replication_workers": "0",
        "password_encryption": "scram-sha-256",
        "idle_in_transaction_session_timeout": "60s",
        "log_checkpoints": "off",
        "log_timezone": "UTC",
        "TimeZone": "UTC",
    }
)
# Memory of one session in addition to the shared buffers. Postgres itself does not limit what an
# expression builds. A submission takes 110 MB, a page of the trainer's window up to 600 MB.
_SESSION_BYTES = 768 << 20
_START_ATTEMPTS = 3
_POLL_SECONDS = 0.005


def bootstrap(port: int, passwords: Mapping[str, str], log: Path) -> None:
    """Make the missing roles and the database, and forbid what would burden others.

    The owner makes the other roles and may therefore change them in migrations; it is not a
    superuser. A cluster of an older zerofleet gets its missing roles and limits.

    Args:
        port: port of the server on 127.0.0.1.
        log: log of the server, for errors.

    Raises:
        ConfigError: the server refuses our login, or has ended again.
    """
    try:
        _make_what_is_missing(port, passwords)
    except psycopg2.Error as error:
        is_login = "password authentication failed" in str(error)
        hint = (
            "the folder passwords/ next to its cluster belongs to it: restore both or neither"
            if is_login
            else f"see {log}"
        )
        raise ConfigError(
            f"Postgres has started but cannot be used: {str(error).strip()} ({hint})"
        ) from error


def _make_what_is_missing(port: int, passwords: Mapping[str, str]) -> None:
    # A migration cannot do this, because its role is not a superuser.
    forbid = sql.SQL("SET zerofleet.owner = {}; ").format(sql.Literal(_OWNER))
    forbid += sql.SQL(script("rights/server.sql"))
    with _Session(port, _SUPERUSER, passwords) as session:
        # The database comes last, so it marks that everything exists.
        is_new = not session.holds("SELECT 1 FROM pg_database WHERE datname = %s", _DATABASE)
        if is_new:
            session.make_role(_OWNER, "LOGIN CREATEROLE")
        made = set(passwords) if is_new else {r for r in passwords if not session.has_role(r)}
    with _Session(port, _OWNER, passwords) as owner:
        for role in made - {_SUPERUSER, _OWNER}:
            owner.make_role(role, "LOGIN")
    if is_new:
        with _Session(port, _SUPERUSER, passwords, "template1") as session:
            session.run(forbid)
        with _Session(port, _SUPERUSER, passwords) as session:
            create = sql.SQL("CREATE DATABASE {} OWNER {}")
            session.run(create.format(sql.Identifier(_DATABASE), sql.Identifier(_OWNER)))
    with _Session(port, _SUPERUSER, passwords, _DATABASE) as session:
        session.run(forbid)


class _Session:
    def __init__(
        self, port: int, user: str, passwords: Mapping[str, str], database: str = "postgres"
    ) -> None:
        self._passwords = passwords
        self._connection = psycopg2.connect(
            host="127.0.0.1",
            port=port,
            user=user,
            password=passwords[user],
            dbname=database,
            sslmode="disable",
            connect_timeout=10,
        )
        self._connection.autocommit = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._connection.close()

    def run(self, statement: sql.Composable) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)

    def holds(self, question: str, name: str) -> bool:
        with self._connection.cursor() as cursor:
            cursor.execute(question, (name,))
            return cursor.fetchone() is not None

    def has_role(self, role: str) -> bool:
        return self.holds("SELECT 1 FROM pg_roles WHERE rolname = %s", role)

    def make_role(self, role: str, options: str) -> None:
        # an earlier start may have got this far
        verb = "ALTER" if self.has_role(role) else "CREATE"
        statement = sql.SQL(f"{verb} ROLE {{}} {options} PASSWORD {{}}")
        self.run(statement.format(sql.Identifier(role), sql.Literal(self._passwords[role])))


def ignore_libpq_environment() -> None:
    """Remove libpq's variables from the environment of this process and of its later children.

    They select another server, user or kind of login, and some, such as ``PGSERVICE``, cannot be
    overridden by a URL. Call this only with an embedded Postgres: for an outside one they are the
    user's settings.
    """
    for name in [name for name in os.environ if name.startswith("PG")]:
        os.environ.pop(name, None)


class EmbeddedPostgres:
    """One server over one folder.

    Args:
        folder: made if absent; a folder that was used before resumes.
        settings: settings of the server, which override our own.
        shared: folder for the cluster of a private ``folder`` when this process is root.
        leave_seconds: how long to wait for a server that is still stopping.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str] = MappingProxyType({}),
        *,
        shared: Path = SHARED,
        leave_seconds: float = 5.0,
    ) -> None:
        self.folder = folder.resolve()
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None
        self._cluster = Cluster(self.folder, shared)
        self._log = PostgresLog(self.folder / "server.log")
        self._settings = {**_SETTINGS, **settings}
        self._leave_seconds = leave_seconds
        self._lock: FolderLock | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def check(self) -> None:
        """Check, without a change, that this user can make the database if it is missing.

        Raises:
            ConfigError: the user cannot; the message says why.
        """
        self._cluster.check()

    def start(self) -> str:
        """Start, after recovery from a crash if necessary, and return the owner's URL.

        The thread that calls this must live as long as the server (see ``start_child``). Removes
        libpq's variables from the environment.

        Raises:
            ConfigError: the folder is in use, belongs to another user, or no Postgres fits it.
        """
        ignore_libpq_environment()
        try:
            with full_disk_named(self.folder):
                lock = self._lock = FolderLock(self.folder, self._leave_seconds)
                passwords = self._passwords()
                account = self._cluster.account()
                programs = self._cluster.programs(account)
                if not self._cluster.path.exists():
                    password, synced = passwords[SUPERUSER], self._settings.get("fsync") != "off"
                    self._cluster.make(programs, account, password, self._log, synced=synced)
                self._wait_for_leaving_server()
                self._start_server(programs, account, lock)
                bootstrap(self.port, passwords, self._log.path)
        except BaseException:
            self.stop()
            raise
        return self.url("owner")

    def url(self, role: str = "owner", database: str = "zerofleet") -> str:
        """Return the URL for ``superuser``, ``owner``, ``worker``, ``trainer``, ..."""
        user = USERS[role]
        return (
            f"postgresql://{user}@127.0.0.1:{self.port}/{database}"
            f"?passfile={quote(str(self._password_file(user)), safe='/')}&sslmode=disable"
        )

    def stop(self) -> None:
        """Stop cleanly: open transactions are rolled back, everything committed is on disk."""
        if self.process is not None:
            stop_child(self.process, signal.SIGINT, patience=60.0)
            self.process = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def is_gone(self) -> bool:
        """Return whether it has died, or somebody sent it SIGTERM.

        After SIGTERM it refuses new connections for as long as any old one lasts, in a fleet
        forever.
        """
        if self.process is None or self.process.poll() is not None:
            return True
        with contextlib.suppress(OSError, IndexError):
            return self._status_lines()[7].strip() == "stopping"
        return False

    def _password_file(self, user: str) -> Path:
        return self.folder / "passwords" / user

    def _passwords(self) -> dict[str, str]:
        """Return a password for each user, made once."""
        passwords: dict[str, str] = {}
        for user in USERS.values():
            path = self._password_file(user)
            path.parent.mkdir(mode=0o700, exist_ok=True)
            if not path.exists():
                write_private(path, f"127.0.0.1:*:*:{user}:{secrets.token_urlsafe(24)}\n")
            passwords[user] = read_private(path).strip().rpartition(":")[2]
        return passwords

    def _wait_for_leaving_server(self) -> None:
        """Wait for a server that does not hold our lock, such as one that ``pg_ctl`` started."""
        self._check_copy()
        deadline = time.monotonic() + self._leave_seconds
        while (pid := self._running_pid()) is not None:
            if time.monotonic() > deadline:
                raise ConfigError(
                    f"a Postgres server (process {pid}) is already running on {self.folder}: "
                    f"stop it first (kill -INT {pid})"
                )
            time.sleep(_POLL_SECONDS)
        # After a crash another process may have the PID of the dead server, and Postgres takes it
        # for that server. A server of ours would hold our lock, so none runs.
        if self._noted_pid() is not None:
            self._status_path.unlink()

    def _check_copy(self) -> None:
        """Refuse a cluster that was copied while its server ran, which may have damaged the copy.

        Raises:
            ConfigError: the cluster names a server of another folder.
        """
        with contextlib.suppress(OSError, IndexError):
            noted = Path(self._status_lines()[1].strip())
            if noted.resolve() != self._cluster.path.resolve():
                raise ConfigError(
                    f"{self._cluster.path} was copied while its server ran in {noted}, so it may "
                    "be damaged: stop the run there and copy the data folder again (if nothing "
                    f"ran while it was copied, remove {self._status_path} and start again)"
                )

    def _running_pid(self) -> int | None:
        """Return the server that runs on this cluster, if there is one."""
        pid = self._noted_pid()
        if pid is None:
            return None
        process = Path(f"/proc/{pid}")
        with contextlib.suppress(OSError):
            if not process.exists() or (
                (process / "comm").read_text().strip() == "postgres"
                and (process / "cwd").resolve() == self._cluster.path.resolve()
            ):
                return pid
        return None

    def _noted_pid(self) -> int | None:
        """Return the PID in ``postmaster.pid``, if there is such a process."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            pid = int(self._status_lines()[0])
            os.kill(pid, 0)
            return pid
        return None

    def _start_server(self, programs: PostgresPrograms, account: Account, lock: FolderLock) -> None:
        settings = dict(self._settings)
        # NOTIFY cannot be forbidden; its queue could otherwise grow to 8 GB
        if programs.major >= 17:
            settings.setdefault("max_notify_queue_pages", "1024")
        if programs.major >= 18:  # saves three processes
            settings.setdefault("io_method", "sync")
        for attempt in range(1, _START_ATTEMPTS + 1):
            # a restarted server keeps its port, where clients expect it
            if attempt > 1 or not self.port:
                self.port = free_port()
            self._log.begin()
            flags = [f"-c{name}={value}" for name, value in settings.items()]
            place = [f"-D{self._cluster.path.resolve()}", f"-p{self.port}"]
            self.process = start_child(
                [programs.folder / "postgres", *place, *flags],
                log=self._log.path,
                account=dropped_to(account),
                death_signal=signal.SIGINT,
                keep_open=[lock.fileno()],
                data_bytes=_SESSION_BYTES,
            )
            if self._is_ready(self.process):
                return
            if not self._log.has_taken_port() or attempt == _START_ATTEMPTS:
                raise ConfigError(
                    f"Postgres does not start in {self.folder}: {self._log.complaint()}"
                )

    def _is_ready(self, server: subprocess.Popen[bytes]) -> bool:
        """Wait until it accepts connections, however long recovery takes. False: it died."""
        while server.poll() is None:
            with contextlib.suppress(OSError, IndexError):
                lines = self._status_lines()
                if lines[0] == str(server.pid) and lines[7].strip() == "ready":
                    return True
            time.sleep(_POLL_SECONDS)
        return False

    def _status_lines(self) -> list[str]:
        return self._status_path.read_text(encoding="utf-8", errors="replace").splitlines()

    @property
    def _status_path(self) -> Path:
        return self._cluster.path / "postmaster.pid"
