"""Children that die with us, log where we say, and are stopped in time."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.processes import wait_ended
from zerofleet.local.processes import PROCESS_LOG_BYTES, Account, limit_log, start_child, stop_child

SLEEP = "import time; print('up', flush=True); time.sleep(600)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEP


def wait_for(path: Path, content: str) -> None:
    deadline = time.monotonic() + 120
    while not path.exists() or content not in path.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_child_has_its_own_session_log_and_environment(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = (
        "import os, sys; print(os.getsid(0) == os.getpid(), os.environ['COLOUR'], file=sys.stderr)"
    )
    child = start_child([sys.executable, "-c", code], {"COLOUR": "red"}, log)
    assert child.wait() == 0
    assert log.read_text() == "True red\n"
    assert start_child([sys.executable, "-c", "print(2)"], log=log).wait() == 0
    assert log.read_text() == "True red\n2\n"


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert start_child(["/nonexistent/program"], log=log).wait() == 126
    assert log.read_text() == "cannot execute /nonexistent/program: No such file or directory\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root (run the tests as root)")
def test_a_child_becomes_another_user(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = ["/bin/sh", "-c", "id -u; id -g; id -G"]
    assert start_child(command, log=log, account=Account(65534, 65534)).wait() == 0
    assert log.read_text().split() == ["65534"] * 3


def test_a_child_that_will_not_leave_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = start_child([sys.executable, "-c", SLEEP], log=log)
    assert stop_child(child) == -signal.SIGTERM
    assert stop_child(child) == -signal.SIGTERM  # twice is once
    deaf = start_child([sys.executable, "-c", DEAF], log=tmp_path / "deaf")
    wait_for(tmp_path / "deaf", "up")
    assert stop_child(deaf, patience=0.1) == -signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_a_child_dies_with_its_parent(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = (
        "import sys, time; from pathlib import Path\n"
        "from zerofleet.local.processes import start_child\n"
        f"child = start_child([sys.executable, '-c', {DEAF!r}], log=Path({str(log)!r}))\n"
        "print(child.pid, flush=True); time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    wait_for(log, "up")
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_ended([pid])


def test_a_log_that_is_too_large_is_moved_and_its_program_goes_on(tmp_path: Path) -> None:
    log, old = tmp_path / "a.log", tmp_path / "a.log.1"
    code = "while True: print(input(), flush=True)"
    with log.open("ab") as output:
        program = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=output, text=True
        )
    assert program.stdin is not None
    for line in ("first", "second", "third"):
        print(line, file=program.stdin, flush=True)
        wait_for(log, f"{line}\n")
        limit_log(log, 8)
    assert (old.read_text(), log.read_text()) == ("\nsecond\n", "third\n")
    assert old.stat().st_mode & 0o777 == 0o600
    program.stdin.close()
    stop_child(program)


def test_a_link_in_the_place_of_an_old_log_is_not_followed(tmp_path: Path) -> None:
    log, other = tmp_path / "a.log", tmp_path / "other"
    log.write_text("many words")
    (tmp_path / "a.log.1").symlink_to(other)
    limit_log(log, 3)
    assert not other.exists()
    assert log.read_text() == "many words"


def test_a_program_begins_with_a_log_that_is_not_too_large(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    with log.open("wb") as file:
        file.truncate(PROCESS_LOG_BYTES + 1)
    assert start_child([sys.executable, "-c", "print('new')"], log=log).wait() == 0
    assert log.read_text() == "new\n"
