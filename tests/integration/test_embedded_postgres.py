"""Our own Postgres: as root and as a user, after crashes, and never two on one folder."""

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg2
import pytest

import zerofleet
from tests.processes import wait_ended
from zerofleet.errors import ConfigError
from zerofleet.local.data_folder import full_disk_named
from zerofleet.local.postgres import USERS, EmbeddedPostgres
from zerofleet.local.postgres_cluster import PostgresLog, find_programs, is_reachable
from zerofleet.local.processes import Account, free_port, start_child, stop_child

UNSYNCED = {"fsync": "off"}
LIBPQ_ENVIRONMENT = {
    "PGPASSWORD": "other",
    "PGHOSTADDR": "10.255.255.1",
    "PGSERVICE": "work",
    "PGCHANNELBINDING": "require",
    "PGTARGETSESSIONATTRS": "standby",
    "PGREQUIREAUTH": "password",
    "PGSSLNEGOTIATION": "direct",
    "PGGSSENCMODE": "require",
    "PGLOADBALANCEHOSTS": "invalid",
    "PGOPTIONS": "-c search_path=nowhere",
    "PG_COLOR": "always",
}
"""Variables for another database. All but the last two would prevent a connection."""
NOBODY = 65534
UNNAMED = 1_000_660_000  # OpenShift assigns such numbers
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root (run the tests as root)")


def run(url: str, statement: str) -> list[tuple]:
    connection = psycopg2.connect(url)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(statement)
        rows = cursor.fetchall() if cursor.description else []
    connection.close()
    return rows


def until(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.01)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def runner(cluster: Path) -> Account | None:
    """Account that may run the cluster's server; None: the current user."""
    owner = cluster.stat()
    return Account(owner.st_uid, owner.st_gid) if os.geteuid() == 0 else None


def others_python() -> str:
    """A Python that other users may run: ours, or the system's if it has the same version."""
    ours = Path(sys.executable)
    system = Path(f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}")
    for python in (ours, system):
        if python.exists() and is_reachable(python, Account(NOBODY, NOBODY)):
            return str(python)
    pytest.skip("needs a Python that every user can run (Debian: apt-get install python3)")


@pytest.fixture
def folder(store_folder: Path, request: pytest.FixtureRequest) -> Path:
    return store_folder / request.node.name


@pytest.fixture(scope="module")
def stopped_once(store_folder: Path) -> Path:
    folder = store_folder / "stopped"
    with EmbeddedPostgres(folder, UNSYNCED):
        pass
    return folder


@pytest.fixture
def stopped(stopped_once: Path, folder: Path) -> Path:
    """Folder of a cluster that ran and was stopped."""
    subprocess.run(["cp", "-a", stopped_once, folder], check=True)
    return folder


def test_each_role_has_its_own_password(postgres: EmbeddedPostgres) -> None:
    passwords = set()
    for role, user in USERS.items():
        url = postgres.url(role)
        assert run(url, "SELECT current_user, inet_server_addr()::text") == [(user, "127.0.0.1/32")]
        file = postgres.folder / "passwords" / user
        assert mode(file) == 0o600
        password = file.read_text().strip().rpartition(":")[2]
        assert len(password) >= 24
        assert password not in url
        passwords.add(password)
    assert len(passwords) == len(USERS)
    assert run(postgres.url("owner", "postgres"), "SELECT usesuper FROM pg_user WHERE usename = "
               "'zerofleet'") == [(False,)]  # fmt: skip


def test_nobody_gets_in_without_a_password(postgres: EmbeddedPostgres) -> None:
    for password in ("", "wrong"):
        with pytest.raises(psycopg2.OperationalError, match=r"password"):
            psycopg2.connect(
                host="127.0.0.1", port=postgres.port, user="postgres", dbname="postgres",
                password=password, passfile="/nonexistent", sslmode="disable",
            )  # fmt: skip
    assert run(postgres.url("superuser"), "SHOW max_wal_size") == [("256MB",)]
    rows = run(postgres.url("superuser"), "SHOW unix_socket_directories")
    assert rows == [("",)]


@pytest.mark.slow
def test_it_resumes_after_a_clean_stop_and_after_a_crash(folder: Path) -> None:
    server = EmbeddedPostgres(folder)
    url = server.start()
    run(url, "CREATE TABLE t AS SELECT generate_series(1, 1000) AS a")
    server.stop()
    server.stop()  # a second stop does nothing

    url = server.start()
    assert run(url, "SELECT count(*) FROM t") == [(1000,)]
    run(url, "INSERT INTO t SELECT generate_series(1, 1000)")
    assert server.process is not None
    server.process.kill()
    server.process.wait()
    server.process = None
    server.stop()  # only the folder's lock is left to release

    with EmbeddedPostgres(folder) as server:
        assert run(server.url(), "SELECT count(*) FROM t") == [(2000,)]


def test_a_folder_in_use_is_refused(postgres: EmbeddedPostgres) -> None:
    second = EmbeddedPostgres(postgres.folder, leave_seconds=0.1)
    with pytest.raises(ConfigError, match=f"a server is already running in {postgres.folder}"):
        second.start()
    assert run(postgres.url("owner", "postgres"), "SELECT 1") == [(1,)]


@pytest.mark.slow
def test_a_server_that_others_started_is_named(stopped: Path) -> None:
    cluster = stopped / "cluster"
    programs = find_programs(int((cluster / "PG_VERSION").read_text()))
    stranger = start_child(
        [programs.folder / "postgres", "-D", cluster, "-p", str(free_port()), "-k", ""],
        log=stopped / "stranger.log",
        account=runner(cluster),
    )
    lock = cluster / "postmaster.pid"  # the file is made first and written later
    until(lambda: lock.exists() and str(stranger.pid) in lock.read_text())
    try:
        with pytest.raises(ConfigError, match=rf"process {stranger.pid}\) is already running on"):
            EmbeddedPostgres(stopped, leave_seconds=0.1).start()
    finally:
        stop_child(stranger, signal.SIGINT)


@pytest.mark.slow
def test_a_cluster_of_a_version_that_is_not_here(stopped: Path) -> None:
    (stopped / "cluster" / "PG_VERSION").write_text("99\n")
    with pytest.raises(ConfigError, match="the data folder needs Postgres 99, but here are only"):
        EmbeddedPostgres(stopped).start()


def test_a_server_that_cannot_start_says_why(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"nonsense.*server\.log"):
        EmbeddedPostgres(folder, {**UNSYNCED, "nonsense": "1"}).start()
    # The cluster exists, and the next start, without the invalid setting, uses it.
    with EmbeddedPostgres(folder, UNSYNCED) as server:
        assert run(server.url(), "SELECT 1") == [(1,)]


@pytest.mark.slow
def test_the_cause_is_shown_and_not_what_follows_from_it(
    stopped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port: int = other.getsockname()[1]
        with monkeypatch.context() as patch:
            patch.setattr("zerofleet.local.postgres.free_port", lambda: port)
            with pytest.raises(ConfigError, match=r"could not bind .*: Address already in use"):
                EmbeddedPostgres(stopped, UNSYNCED).start()
        server = EmbeddedPostgres(stopped, UNSYNCED)
        server.port = port  # chosen earlier, and taken while the server was down
        with server:
            assert server.port != port
    control = (stopped / "cluster" / "global" / "pg_control").resolve()
    control.write_bytes(b"x" * control.stat().st_size)
    with pytest.raises(ConfigError, match=r"incompatible with server: The database cluster was "):
        EmbeddedPostgres(stopped, UNSYNCED).start()


def test_the_first_line_of_initdb_has_the_cause(tmp_path: Path) -> None:
    log = PostgresLog(tmp_path / "server.log")
    log.path.write_text(
        "running bootstrap script ... 2026-11-28 02:19:24.284 UTC [16819] FATAL:  could not resize "
        'shared memory segment "/PostgreSQL.1" to 11176 bytes: No space left on device\n'
        "child process exited with exit code 1\n"
        "initdb: removing contents of data directory\n"
        "cannot be reached\n"
    )
    assert log.complaint().startswith("FATAL:  could not resize shared memory segment")
    with (
        pytest.raises(ConfigError, match="make /dev/shm larger") as caught,
        full_disk_named(tmp_path),
    ):
        raise ConfigError(log.complaint())
    assert "make room" not in str(caught.value)


def test_what_clients_are_told_during_the_start_is_no_cause(tmp_path: Path) -> None:
    log = PostgresLog(tmp_path / "server.log")
    log.path.write_text(
        "2026-11-28 UTC [1] FATAL:  the database system is starting up\n"
        "2026-11-28 UTC [2] PANIC:  could not locate a valid checkpoint record at 0/1\n"
    )
    assert log.complaint().startswith("PANIC:  could not locate a valid checkpoint record")


def test_a_postgres_that_does_not_run_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "postgres"
    broken.write_text(
        "#!/bin/sh\necho error while loading shared libraries: libx.so.63 >&2\nexit 1"
    )
    broken.chmod(0o755)
    monkeypatch.setattr("zerofleet.local.postgres_cluster._folders", lambda: iter([tmp_path]))
    with pytest.raises(ConfigError, match=r"does not run here: error while loading .*libx\.so"):
        find_programs()


def test_a_folder_that_cannot_be_made() -> None:
    with pytest.raises(ConfigError, match="cannot use the folder /proc/nowhere"):
        EmbeddedPostgres(Path("/proc/nowhere/postgres")).start()


@pytest.fixture
def strict_umask() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.fixture
def private_home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="zerofleet-private-") as home:
        yield Path(home)  # mode 0700, like /root


@as_root
@pytest.mark.slow
@pytest.mark.usefixtures("strict_umask")
def test_a_private_folder_stays_private(private_home: Path, store_folder: Path) -> None:
    folder, shared = private_home / "data" / "postgres", store_folder / "shared"
    with EmbeddedPostgres(folder, UNSYNCED, shared=shared) as server:
        run(server.url(), "CREATE TABLE t AS SELECT 1 AS a")
        cluster = (folder / "cluster").resolve()
        assert cluster.parent.parent == shared.resolve()
        assert cluster.stat().st_uid == NOBODY
        assert (cluster.parent.stat().st_uid, mode(cluster.parent)) == (0, 0o755)
        assert (cluster.parent / "origin").read_text().strip() == str(folder.resolve())
    with EmbeddedPostgres(folder, UNSYNCED, shared=shared) as server:
        assert run(server.url(), "SELECT a FROM t") == [(1,)]
        assert (folder / "cluster").resolve() == cluster
    assert mode(private_home) == 0o700
    shutil.rmtree(cluster.parent)
    with pytest.raises(ConfigError, match="which does not exist"):
        EmbeddedPostgres(folder, shared=shared).start()


@as_root
@pytest.mark.slow
def test_shared_folders_that_were_left_closed_are_opened(
    private_home: Path, store_folder: Path
) -> None:
    folder, shared = private_home / "postgres", store_folder / "left-closed"
    shared.mkdir(0o700)
    with EmbeddedPostgres(folder, UNSYNCED, shared=shared):
        home = (folder / "cluster").resolve().parent
    home.chmod(0o700)
    shared.chmod(0o750)
    with EmbeddedPostgres(folder, UNSYNCED, shared=shared):
        assert (mode(shared), mode(home)) == (0o755, 0o755)
        assert (folder / "cluster").resolve().parent == home  # the cluster was not moved


@as_root
def test_a_folder_above_the_shared_one_that_is_closed_is_named(private_home: Path) -> None:
    server = EmbeddedPostgres(private_home / "postgres", UNSYNCED, shared=private_home / "shared")
    with pytest.raises(ConfigError, match=rf"may not enter {private_home} .* chmod o\+x .*--data"):
        server.start()
    assert mode(private_home) == 0o700


@as_root
@pytest.mark.slow
@pytest.mark.usefixtures("strict_umask")
def test_private_programs_are_copied_once(
    private_home: Path, store_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The virtual environment may lie below /root.
    installed = find_programs().folder.parent.parent
    shutil.copytree(installed, private_home / "site" / installed.name, symlinks=True)
    libraries = installed.with_name(f"{installed.name}.libs")
    shutil.copytree(libraries, private_home / "site" / libraries.name)
    monkeypatch.syspath_prepend(str(private_home / "site"))
    shared = store_folder / "programs-shared"
    for number in range(2):
        with EmbeddedPostgres(store_folder / f"copied-{number}", UNSYNCED, shared=shared) as server:
            assert run(server.url(), "SELECT 1") == [(1,)]
            assert server.process is not None
            program = Path(f"/proc/{server.process.pid}/exe").readlink()
            assert program.is_relative_to(shared)
    assert len(list(shared.glob("postgres-*"))) == 1


START_AND_ANSWER = """
import os, sys
from pathlib import Path
import psycopg2
from zerofleet.local.postgres import EmbeddedPostgres
with EmbeddedPostgres(Path(sys.argv[1]), {"fsync": "off"}) as server:
    connection = psycopg2.connect(server.url())
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE IF NOT EXISTS t (a int)")
    cursor.execute("INSERT INTO t VALUES (1)")
    cursor.execute("SELECT count(*) FROM t")
    connection.commit()
    print(os.geteuid(), cursor.fetchone()[0], Path(f"/proc/{server.process.pid}").stat().st_uid)
    connection.close()
"""


def import_path() -> str:
    """Return our import path with the source folder: an editable install has none."""
    return os.pathsep.join([str(Path(zerofleet.__file__).parents[1]), *sys.path])


@as_root
@pytest.mark.slow
def test_another_user_runs_it_as_themselves(folder: Path) -> None:
    folder.mkdir()
    os.chown(folder, NOBODY, NOBODY)

    def answer() -> str:
        return subprocess.run(
            [others_python(), "-c", START_AND_ANSWER, str(folder / "postgres")],
            user=NOBODY, group=NOBODY, extra_groups=[], check=True, capture_output=True, text=True,
            env={"PYTHONPATH": import_path()},
        ).stdout  # fmt: skip

    assert answer() == f"{NOBODY} 1 {NOBODY}\n"
    assert answer() == f"{NOBODY} 2 {NOBODY}\n"
    # Root uses the cluster and keeps its owner.
    with EmbeddedPostgres(folder / "postgres", UNSYNCED) as server:
        assert run(server.url(), "SELECT count(*) FROM t") == [(2,)]
    assert answer() == f"{NOBODY} 3 {NOBODY}\n"


@as_root
@pytest.mark.slow
@pytest.mark.parametrize("method", ["check", "start"])
def test_a_user_without_a_name_is_told_the_way_out(folder: Path, method: str) -> None:
    folder.mkdir()
    os.chown(folder, UNNAMED, 0)
    code = "import sys; from pathlib import Path; from zerofleet.errors import ConfigError\n"
    code += "from zerofleet.local.postgres import EmbeddedPostgres\n"
    code += "try: getattr(EmbeddedPostgres(Path(sys.argv[1])), sys.argv[2])()\n"
    code += "except ConfigError as e: print(e)"
    answer = subprocess.run(
        [others_python(), "-c", code, str(folder / "postgres"), method],
        user=UNNAMED, group=0, extra_groups=[], check=True, capture_output=True, text=True,
        env={"PYTHONPATH": import_path()},
    ).stdout  # fmt: skip
    assert f"user ID {UNNAMED} has no name here" in answer
    assert f"'zerofleet:x:{UNNAMED}:0::/tmp:/bin/false' to /etc/passwd" in answer
    assert "--database-url" in answer
    assert method == "start" or not list(folder.iterdir())


@as_root
@pytest.mark.slow
def test_another_users_cluster_is_refused(stopped: Path) -> None:
    cluster = (stopped / "cluster").resolve()
    for path in (stopped, stopped / "lock", stopped / "passwords"):
        os.chown(path, 1, 1)
    for path in (stopped / "passwords").iterdir():
        os.chown(path, 1, 1)
    code = "import sys; from pathlib import Path; from zerofleet.errors import ConfigError\n"
    code += "from zerofleet.local.postgres import EmbeddedPostgres\n"
    code += "try: EmbeddedPostgres(Path(sys.argv[1])).start()\nexcept ConfigError as e: print(e)"
    answer = subprocess.run(
        [others_python(), "-c", code, str(stopped)],
        user=1, group=1, extra_groups=[], check=True, capture_output=True, text=True,
        env={"PYTHONPATH": import_path()},
    )  # fmt: skip
    assert f"belongs to user ID {cluster.stat().st_uid}: start as that user" in answer.stdout


SUPERVISOR = """
import sys, time
from pathlib import Path
from zerofleet.local.postgres import EmbeddedPostgres
from zerofleet.local.valkey import EmbeddedValkey
folder = Path(sys.argv[1])
postgres, valkey = EmbeddedPostgres(folder / "postgres"), EmbeddedValkey(folder / "valkey")
postgres.start(), valkey.start()
print(postgres.process.pid, valkey.process.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.slow
def test_a_killed_parent_leaves_no_orphan(folder: Path) -> None:
    folder.mkdir()
    for _ in range(2):  # the second round starts with the files of the first one
        parent = subprocess.Popen(
            [sys.executable, "-c", SUPERVISOR, str(folder)], stdout=subprocess.PIPE, text=True
        )
        assert parent.stdout is not None
        stores = [int(pid) for pid in parent.stdout.readline().split()]
        parent.kill()
        parent.wait()
        parent.stdout.close()
        wait_ended(stores)
    with EmbeddedPostgres(folder / "postgres") as server:
        assert run(server.url(), "SELECT 1") == [(1,)]


@pytest.mark.slow
def test_a_number_that_another_process_has_got_is_no_server(folder: Path) -> None:
    """After a crash of the machine, process numbers begin again."""
    with EmbeddedPostgres(folder, UNSYNCED) as server:
        status = (folder / "cluster" / "postmaster.pid").read_text().splitlines()
    cluster = folder / "cluster"
    sleeper = start_child(
        ["sleep", "600"],
        log=folder / "sleeper.log",
        account=runner(cluster),
    )
    try:
        left = cluster / "postmaster.pid"
        left.write_text("\n".join([str(sleeper.pid), *status[1:]]) + "\n")
        with EmbeddedPostgres(folder, UNSYNCED) as server:
            assert run(server.url(), "SELECT 1") == [(1,)]
    finally:
        stop_child(sleeper, signal.SIGTERM)


@pytest.mark.slow
def test_libpqs_environment_is_that_of_other_databases(
    stopped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in LIBPQ_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with EmbeddedPostgres(stopped, UNSYNCED) as server:
        assert run(server.url("console"), "SELECT current_user") == [("zerofleet_console",)]
        psql = find_programs().folder / "psql"  # a child process, as the services are
        subprocess.run([psql, server.url("worker"), "--command=SELECT"], check=True)


@pytest.mark.slow
def test_only_a_refused_password_advises_to_restore_passwords(folder: Path) -> None:
    read_only = {**UNSYNCED, "default_transaction_read_only": "on"}
    with pytest.raises(ConfigError, match=r"read-only transaction.*server\.log\)") as refused:
        EmbeddedPostgres(folder, read_only).start()
    assert "restore both" not in str(refused.value)


@pytest.mark.slow
def test_a_cluster_without_its_passwords_says_so(stopped: Path) -> None:
    shutil.rmtree(stopped / "passwords")
    with pytest.raises(ConfigError, match=r"password authentication failed.*restore both"):
        EmbeddedPostgres(stopped, UNSYNCED).start()


@as_root
@pytest.mark.slow
def test_a_copy_that_root_made_starts(stopped: Path, folder: Path) -> None:
    """The copy is made as by ``cp -r``, with the modes of another file system."""
    copy = folder.with_name(f"{folder.name}-copy")
    subprocess.run(["cp", "-r", stopped, copy], check=True)
    assert (copy / "cluster").stat().st_uid == 0
    for path in (copy / "cluster", *(copy / "passwords").iterdir()):
        path.chmod(0o755)
    with EmbeddedPostgres(copy, UNSYNCED) as server:
        assert run(server.url(), "SELECT 1") == [(1,)]
    assert ((copy / "cluster").stat().st_uid, mode(copy / "cluster")) == (NOBODY, 0o700)
    assert {mode(path) for path in (copy / "passwords").iterdir()} == {0o600}
    os.chown(copy / "cluster" / "global" / "pg_control", 0, 0)
    with EmbeddedPostgres(copy, UNSYNCED) as server:
        assert run(server.url(), "SELECT 1") == [(1,)]


@pytest.mark.slow
def test_a_copy_of_a_running_cluster_is_refused(stopped: Path, folder: Path) -> None:
    copy = folder.with_name(f"{folder.name}-copy")
    with EmbeddedPostgres(stopped, UNSYNCED):
        subprocess.run(["cp", "-a", stopped, copy], check=True)
    with pytest.raises(ConfigError, match=rf"was copied while its server ran in {stopped}/cluster"):
        EmbeddedPostgres(copy, UNSYNCED).start()
    shutil.rmtree(copy)
    subprocess.run(["cp", "-a", stopped, copy], check=True)
    with EmbeddedPostgres(copy, UNSYNCED) as server:
        assert run(server.url(), "SELECT 1") == [(1,)]


@as_root
@pytest.mark.slow
def test_a_copied_link_to_a_cluster_is_refused(private_home: Path, store_folder: Path) -> None:
    shared, first = store_folder / "shared-by-copies", private_home / "first" / "postgres"
    with EmbeddedPostgres(first, UNSYNCED, shared=shared) as server:
        run(server.url(), "CREATE TABLE t AS SELECT 1 AS a")
    copy = private_home / "copy" / "postgres"
    subprocess.run(["cp", "-a", first.parent, copy.parent], check=True)
    with pytest.raises(
        ConfigError, match=rf"without its database.*cp -aL {first.parent} {copy.parent}"
    ):
        EmbeddedPostgres(copy, UNSYNCED, shared=shared).start()
    shutil.rmtree(copy.parent)
    subprocess.run(["cp", "-aL", first.parent, copy.parent], check=True)
    moved = private_home / "moved" / "postgres"
    first.parent.rename(moved.parent)
    for folder in (moved, copy):
        with EmbeddedPostgres(folder, UNSYNCED, shared=shared) as server:
            assert run(server.url(), "INSERT INTO t SELECT 1 RETURNING a") == [(1,)]
            assert run(server.url(), "SELECT count(*) FROM t") == [(2,)]
    clusters = {(folder / "cluster").resolve() for folder in (moved, copy)}
    assert {cluster.parent.parent for cluster in clusters} == {shared.resolve()}
    assert len(clusters) == 2
