"""Programs that die, hang, refuse or leave: what the supervisor makes of each."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.processes import wait_ended
from tests.support.random_records import target_record
from zerofleet.cli.local_run import LocalRun, Until
from zerofleet.config import load_run, run_from_values
from zerofleet.database import Database
from zerofleet.errors import ConfigError
from zerofleet.fleet.figures import SelfplayFigures
from zerofleet.fleet.heartbeat import Heartbeat, Heartbeats
from zerofleet.local import supervisor as supervisor_module
from zerofleet.local.data_folder import DataFolder
from zerofleet.local.monitor import Monitor
from zerofleet.local.processes import PROCESS_LOG_BYTES, limit_log
from zerofleet.local.programs import LocalPrograms
from zerofleet.local.start import Start
from zerofleet.local.stores import StoreUrls
from zerofleet.local.supervisor import Program, ProgramFailedError, Supervisor

SLEEPER = "import signal; signal.pause()"
STUBBORN = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
while True:
    signal.pause()
"""
LOSER = """
import signal, sys
from zerofleet.service import tell_lost_games
signal.signal(signal.SIGTERM, lambda *_: (tell_lost_games(13_187), sys.exit()))
print("up", flush=True)
signal.pause()
"""
TELLER = """
import signal
from zerofleet.service import tell_lost_games
signal.signal(signal.SIGTERM, lambda *_: tell_lost_games(0))
print("up", flush=True)
while True:
    signal.pause()
"""
LATE = """
import dataclasses, datetime, signal, sys
from zerofleet.database import Database, Submission
from zerofleet.records import game_uid_of
from tests.support.random_records import target_record
now = datetime.datetime.now(datetime.timezone.utc)
record = dataclasses.replace(target_record(1), game_uid=game_uid_of(now, 1))
def leave(*_):
    with Database(sys.argv[1]) as database:
        print(database.submit_games("test", "late", [Submission(record)]), flush=True)
    sys.exit()
signal.signal(signal.SIGTERM, leave)
print("up", flush=True)
signal.pause()
"""
TOGETHER = """
import pathlib, signal, sys, time
mine, other = map(pathlib.Path, sys.argv[1:])
def leave(*_):
    mine.touch()
    while not other.exists():
        time.sleep(0.01)
    time.sleep(0.2)
    mine.with_suffix(".gone").touch()
    sys.exit()
signal.signal(signal.SIGTERM, leave)
print("up", flush=True)
signal.pause()
"""

LAST = """
import pathlib, signal, sys
def leave(*_):
    print(all(pathlib.Path(name).exists() for name in sys.argv[1:]), flush=True)
    sys.exit()
signal.signal(signal.SIGTERM, leave)
print("up", flush=True)
signal.pause()
"""

LISTENER = """
import socket, sys
host, port = sys.argv[1].split(":")
try:
    server = socket.create_server((host, int(port)))
except OSError as error:
    sys.exit(print(f"cannot listen on {sys.argv[1]}: {error}", flush=True) or 2)
print("up", flush=True)
server.accept()
"""


def program(tmp_path: Path, name: str, code: str, stop_seconds: float = 5.0) -> Program:
    return Program(name, (sys.executable, "-c", code), {}, tmp_path / f"{name}.log", stop_seconds)


async def until(condition: Callable[[], object], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.02)


def test_a_module_in_the_working_directory_replaces_none_of_a_services(tmp_path: Path) -> None:
    for name in ("services", "json", "logging", "redis", "psycopg2", "numpy", "zerofleet"):
        (tmp_path / f"{name}.py").write_text("x = 1\n")
    folder = DataFolder.for_run(
        tmp_path / "data", run_from_values({"name": "test", "game": {"name": "tic_tac_toe"}})
    )
    programs = LocalPrograms(folder, StoreUrls(defaultdict(str), ""), "127.0.0.1:1", "127.0.0.1:1")
    for each in programs.loop(1):
        assert "-P" in each.arguments
    done = subprocess.run(
        programs.inference().arguments, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr  # there is no run file
    assert str(folder.run_file) in done.stderr


async def test_children_are_stopped_in_reverse_order(tmp_path: Path) -> None:
    said: list[str] = []
    programs = [program(tmp_path, name, SLEEPER) for name in ("inference", "trainer", "selfplay")]
    async with Supervisor(programs, said.append) as supervisor:
        await until(lambda: all(child.process for child in supervisor.children))
    assert said == ["stopping selfplay", "stopping trainer", "stopping inference"]
    for child in supervisor.children:
        assert child.process is not None
        assert child.process.returncode is not None


async def test_programs_of_one_service_stop_at_once(tmp_path: Path) -> None:
    """Each waits for the other's signal, and the service before them for both to be gone."""
    names = ("selfplay-1", "selfplay-2")
    files = [str(tmp_path / name) for name in names]
    workers = [
        replace(each, arguments=(*each.arguments, *order))
        for each, order in zip(
            (program(tmp_path, name, TOGETHER, 60.0) for name in names),
            (files, files[::-1]),
            strict=True,
        )
    ]
    said: list[str] = []
    inference = program(tmp_path, "inference", LAST)
    gone = (f"{file}.gone" for file in files)
    inference = replace(inference, arguments=(*inference.arguments, *gone))
    programs = [inference, *workers]
    async with Supervisor(programs, said.append) as supervisor:
        await until(lambda: all(each.last_log_lines(1) == ["up"] for each in programs))
    assert said == ["stopping selfplay-2", "stopping selfplay-1", "stopping inference"]
    assert not any(child.killed for child in supervisor.children)
    assert inference.last_log_lines(1) == ["True"]


async def test_a_child_says_how_many_games_it_lost_by_no_file(tmp_path: Path) -> None:
    """As on a full disk, which takes no line of a log."""
    programs = [program(tmp_path, "selfplay", LOSER), program(tmp_path, "trainer", SLEEPER)]
    async with Supervisor(programs, lambda _: None) as supervisor:
        await until(lambda: programs[0].log.exists() and programs[0].log.read_text() == "up\n")
    assert [child.lost_games for child in supervisor.children] == [13_187, 0]
    assert [child.has_reported for child in supervisor.children] == [True, False]


async def test_a_killed_child_may_have_said_that_it_lost_no_games(tmp_path: Path) -> None:
    teller = program(tmp_path, "selfplay", TELLER, stop_seconds=1.0)
    async with Supervisor([teller], lambda _: None) as supervisor:
        await until(lambda: teller.last_log_lines(1) == ["up"])
    [child] = supervisor.children
    assert (child.killed, child.has_reported, child.lost_games) == (True, True, 0)


async def test_logs_of_programs_and_stores_are_kept_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zerofleet.local.supervisor._LOG_SECONDS", 0.01)
    grows = f"import os; os.ftruncate(1, {PROCESS_LOG_BYTES + 1}); {SLEEPER}"
    worker, store = program(tmp_path, "worker", grows), tmp_path / "server.log"
    with store.open("wb") as file:
        file.truncate(PROCESS_LOG_BYTES + 1)
    async with Supervisor([worker], lambda _: None, logs=[store]):
        for log in (worker.log, store):
            old = log.with_name(f"{log.name}.1")
            await until(lambda log=log, old=old: old.exists() and not log.stat().st_size)


async def test_the_end_of_a_log_that_was_just_moved_is_still_found(tmp_path: Path) -> None:
    worker = program(tmp_path, "worker", "")
    worker.log.write_text("earlier\nwhy\nit died\n")
    limit_log(worker.log, 12)
    assert worker.log.read_text() == ""
    assert worker.last_log_lines(2) == ["why", "it died"]


async def test_a_killed_child_is_started_again(tmp_path: Path) -> None:
    said: list[str] = []
    ended: list[int] = []
    programs = [program(tmp_path, "worker", SLEEPER)]
    async with Supervisor(programs, said.append, ended.append) as supervisor:
        (child,) = supervisor.children
        await until(lambda: child.process is not None)
        assert child.process is not None
        first = child.process.pid
        os.kill(first, signal.SIGKILL)
        await until(lambda: child.process is not None and child.process.pid != first)
        assert child.restarts == 1
        assert ended == [first]
        assert "was ended by SIGKILL. Restarting in 0.5 s" in said[0]


def test_the_heartbeats_of_a_process_that_has_ended_are_forgotten(
    database: Database, role_url: Callable[[str], str], valkey_url: str
) -> None:
    del database  # has the run
    run = run_from_values({"name": "test", "game": "tic_tac_toe"})
    with (
        contextlib.closing(Heartbeats(valkey_url, "test")) as heartbeats,
        Monitor(run, role_url("console"), valkey_url) as monitor,
    ):
        for pid in (12, 112):
            heartbeats.beat(Heartbeat(f"host-{pid}", 1, "", SelfplayFigures()), ttl=600.0)
        monitor.forget(12)
        deadline = time.monotonic() + 120
        while [beat.worker for beat in heartbeats.read()] != ["host-112"]:
            assert time.monotonic() < deadline


async def test_five_quick_deaths_are_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_module, "_FIRST_PAUSE_SECONDS", 0.01)
    crash = program(tmp_path, "trainer", "raise SystemExit('out of ideas')")
    async with Supervisor([crash], lambda _: None) as supervisor:
        with pytest.raises(ProgramFailedError, match="died 5 times in a row") as failure:
            await supervisor.failed()
    assert "out of ideas" in str(failure.value)
    assert str(crash.log) in str(failure.value)


@pytest.fixture
def fail_beside(
    tmp_path: Path, database_url: str, valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., None]:
    """Start a run whose trainer fails once the other programs are up."""

    def fail(game: str, *others: Program) -> None:
        logs = [str(other.log) for other in others]
        until_all_are_up = f"""
import pathlib, time
for log in map(pathlib.Path, {logs!r}):
    while not log.exists() or "up" not in log.read_text():
        time.sleep(0.02)
raise SystemExit("out of ideas")
"""
        trainer = program(tmp_path, "trainer", until_all_are_up)
        monkeypatch.setattr(supervisor_module, "_FIRST_PAUSE_SECONDS", 0.001)
        monkeypatch.setattr(LocalPrograms, "loop", lambda *_: [*others, trainer])
        run_file = tmp_path / "run.toml"
        run_file.write_text(f'name = "test"\ngame = "{game}"\n')
        run, forever = load_run(run_file), Until.parse("forever")

        def go() -> None:
            with Start(tmp_path / "data", run, run_file) as start:
                folder = start.folder
                local = LocalRun(
                    run, folder, workers=2, port=None, page=False, page_port=None, until=forever
                )
                local.go(database_url, valkey_url, start)

        with pytest.raises(ProgramFailedError, match="trainer died 5 times"):
            go()

    return fail


def test_lost_games_are_told_where_a_service_cannot_be_kept_running(
    tmp_path: Path, fail_beside: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    loser = program(tmp_path, "selfplay-1", LOSER)
    stubborn = program(tmp_path, "selfplay-2", STUBBORN, stop_seconds=0.1)
    fail_beside("tic_tac_toe", loser, stubborn)
    assert not (tmp_path / "data").exists()
    said = capsys.readouterr().out
    assert "\n13,187 finished games were not stored" in said
    assert "\nselfplay-2 had to be killed and did not report whether" in said


def test_a_new_folder_is_kept_if_games_were_stored_while_its_services_failed(
    tmp_path: Path, fail_beside: Callable[..., None], database_url: str
) -> None:
    late = program(tmp_path, "selfplay", LATE, stop_seconds=60.0)
    late = replace(late, arguments=(*late.arguments, database_url))
    fail_beside(target_record(1).game, late)
    assert "stored" in late.last_log_lines(1)[0]
    assert (tmp_path / "data" / "run.toml").exists()


async def test_the_others_go_on_without_an_optional_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_module, "_FIRST_PAUSE_SECONDS", 0.001)
    said: list[str] = []
    page = replace(program(tmp_path, "dashboard", "raise SystemExit('no page')"), optional=True)
    worker = program(tmp_path, "worker", SLEEPER)
    async with Supervisor([page, worker], said.append) as supervisor:
        await until(lambda: "Stopped: ended with" in supervisor.children[0].note)
        assert supervisor.children[1].process is not None
    assert any("The run continues without dashboard." in line for line in said)


def test_a_list_of_mistakes_is_shown_as_a_whole(tmp_path: Path) -> None:
    each = program(tmp_path, "trainer", "")
    each.log.write_text("{}\n2 mistakes:\n  one\n  two\n")
    assert each.last_words() == "2 mistakes:\n  one\n  two"
    each.log.write_text("{}\n  indented\n")
    assert each.last_words() == "  indented"
    each.log.write_text('{"event": "model_not_loaded", "reason": "it does not fit"}\n')
    assert each.last_words() == "it does not fit"


async def test_bad_input_is_not_tried_again(tmp_path: Path) -> None:
    refuse = program(
        tmp_path, "inference", "import sys; print('port 1 is in use', file=sys.stderr); sys.exit(2)"
    )
    async with Supervisor([refuse], lambda _: None) as supervisor:
        with pytest.raises(ConfigError, match="inference stopped: port 1 is in use"):
            await supervisor.failed()
    assert supervisor.children[0].restarts == 0


def test_a_port_that_somebody_took_between_choice_and_bind_is_chosen_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Be it one of the page, without which the run would otherwise go on."""
    folder = DataFolder(tmp_path / "data", "test", "tic_tac_toe")
    run = run_from_values({"name": "test", "game": {"name": "tic_tac_toe"}})
    taken: list[socket.socket] = []
    bound: list[str] = []

    async def supervise(
        self: LocalRun, stores: object, monitor: object, figures: str, start: object
    ) -> str:
        del stores, monitor, start
        address = str(self._page if taken else self._address)
        if len(taken) < 2:
            place = address.rpartition(":")
            taken.append(socket.create_server((place[0], int(place[2]))))
        page = replace(program(tmp_path, f"page-{len(taken)}", LISTENER), optional=True)
        page = replace(page, arguments=(*page.arguments, address))
        async with Supervisor([page], lambda _: None) as supervisor:
            failed = asyncio.ensure_future(supervisor.failed())
            await until(lambda: failed.done() or page.last_log_lines(1) == ["up"])
            if failed.done():
                failed.result()
            failed.cancel()
        bound.append(address)
        return figures

    folder.root.mkdir()
    monkeypatch.setattr(LocalRun, "_supervise", supervise)
    local = LocalRun(
        run, folder, workers=1, port=None, page=True, page_port=None, until=Until.parse("forever")
    )
    stores: Any = SimpleNamespace(urls=StoreUrls({}, ""))
    nothing: Any = "figures"
    try:
        assert local._supervise_where_it_can_listen(stores, nothing, nothing, nothing) == "figures"
    finally:
        for each in taken:
            each.close()
    assert len(taken) == 2
    assert bound == [local._page]


async def test_a_child_that_does_not_leave_is_killed(tmp_path: Path) -> None:
    said: list[str] = []
    stubborn = program(tmp_path, "stubborn", STUBBORN, stop_seconds=0.3)
    async with Supervisor([stubborn], said.append) as supervisor:
        await until(lambda: stubborn.last_log_lines(1) == ["up"])
    assert "killing stubborn: it did not stop within 0.3 s" in said
    process = supervisor.children[0].process
    assert process is not None
    assert process.returncode == -signal.SIGKILL


async def test_an_error_while_a_child_stops_is_told(tmp_path: Path) -> None:
    code = (
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(print('no space') or 1))\n"
        "print('up', flush=True)\n"
        "signal.pause()"
    )
    said: list[str] = []
    failing = program(tmp_path, "trainer", code)
    async with Supervisor([failing], said.append):
        await until(lambda: failing.last_log_lines(1) == ["up"])
    [words] = [line for line in said if "while it stopped" in line]
    assert words.startswith("trainer ended with exit status 1 while it stopped: no space (log: ")


async def test_hurry_does_not_wait(tmp_path: Path) -> None:
    stubborn = program(tmp_path, "stubborn", STUBBORN, stop_seconds=3600.0)
    async with Supervisor([stubborn], lambda _: None) as supervisor:
        await until(lambda: stubborn.last_log_lines(1) == ["up"])
        supervisor.hurry()


async def test_stopping_while_a_restart_is_due(tmp_path: Path) -> None:
    crash = program(tmp_path, "crash", "raise SystemExit(1)")
    async with Supervisor([crash], lambda _: None) as supervisor:
        await until(lambda: "Restarting in" in supervisor.children[0].note)


@pytest.mark.slow
def test_nothing_survives_the_supervisor(tmp_path: Path) -> None:
    """SIGKILL cannot be handled, so the kernel must be the one who ends the children."""
    code = f"""
import asyncio, sys
from pathlib import Path
from zerofleet.local.supervisor import Program, Supervisor
async def main():
    log = Path({str(tmp_path)!r}) / "log"
    program = Program("child", (sys.executable, "-c", {SLEEPER!r}), {{}}, log)
    async with Supervisor([program], print) as supervisor:
        while supervisor.children[0].process is None:
            await asyncio.sleep(0.01)
        print(supervisor.children[0].process.pid, flush=True)
        await supervisor.failed()
asyncio.run(main())
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_ended([pid])
