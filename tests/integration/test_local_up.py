"""``zerofleet up`` as a user sees it: real processes are started, queried, killed and restarted."""

import contextlib
import json
import os
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.processes import wait_ended

RUN_FILE = Path(__file__).parents[2] / "runs" / "tictactoe.toml"
QUICK = ("--set", "trainer.min_positions=500", "--set", "trainer.publish_every_steps=50")
TINY = ("--set", "search.num_simulations=10", "--set", "network.channels=8")
SERVICES = ("dashboard", "inference", "trainer", "evaluator", "selfplay")

LONGEST_SECONDS = 600.0  # for each command; the machine may be busy

pytestmark = [pytest.mark.slow, pytest.mark.fleet, pytest.mark.timeout(3600)]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "zerofleet.cli", *arguments]


def ask(*arguments: str, status: int = 0) -> str:
    """Run a command to its end and return its stdout and stderr."""
    completed = subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        timeout=LONGEST_SECONDS,
        check=False,
    )
    answer = completed.stdout + completed.stderr
    assert completed.returncode == status, answer
    return answer


def services(data: Path) -> list[dict[str, str]]:
    """Return the services in the output of ``zerofleet status``."""
    found: list[dict[str, str]] = json.loads(ask("status", "--data", str(data), "--json"))[
        "services"
    ]
    return found


def duel(typed: str, *arguments: str) -> str:
    """Return the output of ``zerofleet play`` for a user who types these lines."""
    return subprocess.run(
        command("play", *arguments),
        input=typed,
        capture_output=True,
        text=True,
        timeout=LONGEST_SECONDS,
        check=True,
    ).stdout


def wait_for(condition: Callable[[], object], seconds: float = LONGEST_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.05)


def free_row(length: int) -> int:
    """Return the first port of a free range of this length."""
    start = random.randrange(10_000, 18_000)
    for first in range(start, start + 1_000):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(first, first + length):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
            return first
    raise AssertionError


class Up:
    """A running ``zerofleet up``, whose output goes to a file."""

    def __init__(self, folder: Path, data: Path, *options: str) -> None:
        self.log = folder / f"up-{time.monotonic_ns()}.txt"
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                command("up", str(RUN_FILE), "--data", str(data), *QUICK, *options),
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.family: list[psutil.Process] = []

    def text(self) -> str:
        return self.log.read_text()

    def games(self) -> int:
        return max(
            (int(each.replace(",", "")) for each in re.findall(r"games ([\d,]+)", self.text())),
            default=0,
        )

    def wait_for_games(self) -> None:
        wait_for(lambda: self.games() > 0 or self.process.poll() is not None)
        assert self.process.poll() is None, self.text()
        self.family = psutil.Process(self.process.pid).children(recursive=True)
        assert len(self.family) > len(SERVICES)

    def service(self, name: str) -> psutil.Process | None:
        for process in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if f"zerofleet.services.{name}" in process.cmdline():
                    return process
        return None

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(LONGEST_SECONDS)

    def wait_for_no_orphans(self) -> None:
        wait_ended(each.pid for each in self.family)


@pytest.fixture
def data(store_folder: Path, tmp_path: Path) -> Iterator[Path]:
    """A data folder that Postgres' user may enter."""
    folder = store_folder / tmp_path.name
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def start(tmp_path: Path, data: Path) -> Iterator[Callable[..., Up]]:
    started: list[Up] = []

    def start_up(*options: str) -> Up:
        up = Up(tmp_path, data, *options)
        started.append(up)
        return up

    yield start_up
    for up in started:
        up.process.kill()
        up.process.wait()


def test_a_run_is_asked_interrupted_and_resumed(data: Path, start: Callable[..., Up]) -> None:
    base = free_row(len(SERVICES) + 1)
    # Avoid the default port: another run may take it while this one is stopped.
    own_page = ("--dashboard-port", str(base + len(SERVICES)))
    up = start(*TINY, "--metrics-port", str(base), *own_page)
    up.wait_for_games()
    assert "is in use by `zerofleet up`" in ask("up", str(RUN_FILE), "--data", str(data), status=2)

    status = json.loads(ask("status", "--data", str(data), "--json"))
    assert status["up"] is True
    assert status["games"] > 0
    assert status["disk_use"]["limit_bytes"] == 20e9
    assert status["disk_use"]["folder_bytes"]["log"] > 0
    assert {service["name"] for service in status["services"]} >= {"inference", "selfplay"}

    address = json.loads((data / "running.json").read_text())["inference_address"]
    assert "expected line" in duel("hint\n", "--address", address, "--game", "tic_tac_toe")

    wait_for(lambda: "\ndashboard: " in up.text())  # printed when the page is up
    [page] = re.findall(r"^dashboard: (http://127\.0\.0\.1:\d+)\n", up.text(), re.MULTILINE)
    with urllib.request.urlopen(page, timeout=120) as answer:
        assert "<title>Run · tictactoe · zerofleet</title>" in answer.read().decode()

    assert ask("page", "--data", str(data)) == f"dashboard: {page}\n"

    status = json.loads(ask("status", "--data", str(data), "--json"))
    assert status["page"] == page
    names = ("trainer", "evaluator", "dashboard", "selfplay", "inference")
    assert status["metrics"] == {
        name: f"http://127.0.0.1:{base + number}/metrics" for number, name in enumerate(names)
    }
    for name, address in status["metrics"].items():
        with urllib.request.urlopen(address, timeout=30) as answer:
            assert f"\nzerofleet_{name}_" in answer.read().decode()

    worker = up.service("selfplay")
    assert worker is not None
    worker.kill()
    wait_for(lambda: "selfplay was ended by SIGKILL. Restarting in 0.5 s" in up.text())
    wait_for(lambda: up.service("selfplay") not in {None, worker})

    assert up.end(signal.SIGINT) == 0, up.text()
    up.wait_for_no_orphans()
    assert "| games" not in up.text().partition("Stopping. Press Ctrl-C again to force.")[2]
    stops = re.findall(r"^stopping (\w+)$", up.text(), re.MULTILINE)
    assert stops == ["selfplay", "evaluator", "trainer", "inference", "dashboard"]
    assert f"zerofleet play --data {data}" in up.text()
    assert re.search(rf"^page +\S+ page --data {data}$", up.text(), re.MULTILINE)
    assert f" --metrics-port {base}\n" in up.text()
    assert not list(Path.cwd().glob(".nicegui*"))

    games = json.loads(ask("status", "--data", str(data), "--json"))["games"]
    count = "SELECT count(*) FROM games WHERE kind = 'selfplay'"
    assert str(games) in ask("sql", "--data", str(data), "-c", count)
    refused = ask("sql", "--data", str(data), "-c", "DELETE FROM games", status=1)
    assert "read-only" in refused

    files = {name: (data / name).read_bytes() for name in ("run.toml", "stores.json")}
    other = ("--set", "network.channels=16", "--set", "network.blocks=1", "--no-dashboard")
    refused = ask("up", str(RUN_FILE), "--data", str(data), *other, status=2)
    assert "2 mistakes:\n  network.blocks = 1, but this run was trained with 2" in refused
    assert "starting" not in refused
    no_gpu = (*TINY, "--set", "inference.require_gpu=true", "--no-dashboard")
    refused = ask("up", str(RUN_FILE), "--data", str(data), *no_gpu, status=2)
    assert "inference stopped: [inference] require_gpu" in refused
    assert files == {name: (data / name).read_bytes() for name in files}
    assert not list(data.glob("*.before"))

    end = ("--until", f"{games}games", *TINY)
    output = ask("up", str(RUN_FILE), "--data", str(data), *end)
    assert f"Nothing to do. --until {games}games was reached before this start" in output

    again = start(*TINY, "--no-dashboard")
    again.wait_for_games()
    assert again.service("dashboard") is None
    assert again.games() >= games
    look = subprocess.Popen(
        command("page", "--data", str(data)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert look.stdout is not None
    lines = iter(look.stdout.readline, b"")
    assert (
        next(line for line in lines if line.startswith(b"dashboard:"))
        == f"dashboard: {page}\n".encode()
    )
    again.process.kill()
    again.wait_for_no_orphans()
    assert look.wait(LONGEST_SECONDS) == 0  # its stores have stopped
    assert "The run has ended, and so has its dashboard" in look.stdout.read().decode()
    look.stdout.close()

    after_the_kill = start(*TINY)
    after_the_kill.wait_for_games()
    assert after_the_kill.games() >= games
    wait_for(lambda: f"dashboard: {page}\n" in after_the_kill.text())
    assert after_the_kill.end(signal.SIGTERM) == 0, after_the_kill.text()
    after_the_kill.wait_for_no_orphans()


def test_a_run_ends_at_a_number_of_steps_or_after_a_time(
    data: Path, start: Callable[..., Up]
) -> None:
    up = start(*TINY, "--no-dashboard", "--until", "60steps")
    assert up.process.wait(LONGEST_SECONDS) == 0, up.text()
    assert re.search(r"\| until \d+ of 60 steps \|", up.text())
    ended = re.search(r"\nEnded by --until 60steps: (\d+) of 60 steps\.\n", up.text())
    assert ended, up.text()
    assert int(ended[1]) >= 60
    for line in (
        "self-play: 1 worker, ",
        "inference: cpu, 1 session, ",
        "trainer: CPU with 1 ",
    ):
        assert up.text().count(f"\n{line}") == 1, up.text()
    up = start(*TINY, "--no-dashboard", "--until", "60steps")  # the last checkpoint has this step
    assert up.process.wait(LONGEST_SECONDS) == 0, up.text()
    assert "Nothing to do. --until 60steps was reached before this start" in up.text()
    up = start(*TINY, "--no-dashboard", "--until", "0.1s")
    assert up.process.wait(LONGEST_SECONDS) == 0, up.text()
    assert re.search(r"Ended by --until 0\.1s: \d+ s of 0 s", up.text())


def test_what_stands_around_a_run_does_not_change_it(data: Path, tmp_path: Path) -> None:
    """The working folder contains modules, and the environment has variables for other programs."""
    for name in ("services", "json", "logging", "redis", "psycopg2", "grpc", "numpy", "torch"):
        (tmp_path / f"{name}.py").write_text("x = 1\n")
    environment = {
        "PGPASSWORD": "other",
        "PGHOSTADDR": "10.255.255.1",
        "PGSERVICE": "work",
        "WORLD_SIZE": "2",
        "RANK": "1",
        "WEB_CONCURRENCY": "many",
        "http_proxy": "http://x:1",
        "NICEGUI_REDIS_URL": "redis://nowhere",
        "LC_ALL": "xx_YY",
        "TZ": "nowhere",
    }
    console = Path(sys.executable).with_name("zerofleet")
    log = tmp_path / "up.log"

    def trains_and_has_a_page() -> bool:
        text = log.read_text()
        return "dashboard: http://" in text and "training loss policy" in text

    with log.open("wb") as output:
        up = subprocess.Popen(
            [console, "up", RUN_FILE, "--data", data, *QUICK, *TINY],
            cwd=tmp_path, env={**os.environ, **environment}, stdout=output, stderr=output,
        )  # fmt: skip
    try:
        wait_for(lambda: trains_and_has_a_page() or up.poll() is not None)
        up.send_signal(signal.SIGINT)
        assert up.wait(LONGEST_SECONDS) == 0, log.read_text()
    finally:
        up.kill()
        up.wait()
    assert trains_and_has_a_page(), log.read_text()
    assert "Restarting" not in log.read_text()


def test_a_first_start_whose_services_fail_leaves_only_logs(data: Path) -> None:
    no_gpu = ("--set", "inference.require_gpu=true", "--no-dashboard")
    refused = ask("up", str(RUN_FILE), "--data", str(data), *no_gpu, status=2)
    assert "inference stopped: [inference] require_gpu = true" in refused
    left = [path for path in data.rglob("*") if path.is_file()]
    assert data / "logs" / "inference.log" in left
    assert {path.suffix for path in left} <= {".log", ".1"}


@pytest.fixture
def small_disk(data: Path) -> Iterator[Path]:
    """A data folder on a disk of its own, which anybody may enter."""
    data.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=250m,mode=755", "none", str(data)]
    if shutil.which("mount") is None or subprocess.run(mount, check=False).returncode:
        pytest.skip("needs to mount a file system (run the tests as root)")
    yield data
    subprocess.run(["umount", "-l", str(data)], check=True)


def test_a_full_disk_is_named_and_what_was_not_stored_is_counted(
    small_disk: Path, tmp_path: Path
) -> None:
    data, filler = small_disk / "data", small_disk / "filler"
    # If self-play waited for a trainer on a full disk, it might have nothing left to store.
    for_no_trainer = ("--set", "selfplay.max_ahead_positions=0")
    up = Up(tmp_path, data, *TINY, *for_no_trainer, "--no-dashboard")
    try:
        up.wait_for_games()

        def is_full_and_said() -> bool:
            with contextlib.suppress(OSError), filler.open("ab", buffering=0) as file:
                while file.write(bytes(1 << 20)):
                    pass
            return bool(re.search(r"disk full: .* selfplay: [^|]*Not known", up.text()))

        wait_for(is_full_and_said)
        assert f"left on the disk of {data}; make room" in ask("status", "--data", str(data))
        assert up.end(signal.SIGINT) == 0, up.text()
    finally:
        up.process.kill()
        up.process.wait()
    assert re.search(r"\n\d[\d,]* finished games? w.* not stored.* disk is full", up.text())
    is_full_and_said()
    again = ("up", str(data / "run.toml"))
    for words in (("status",), ("sql", "-c", "SELECT 1"), ("play",), again):
        refused = ask(*words, "--data", str(data), status=2)
        assert refused.splitlines()[-1].startswith(f"zerofleet: the disk of {data}"), refused
        assert "Traceback" not in refused
    filler.unlink()
    assert json.loads(ask("status", "--data", str(data), "--json"))["disk_use"]["disk_full"] is None


def test_a_goal_ends_the_run_and_its_model_can_be_played(
    data: Path, start: Callable[..., Up]
) -> None:
    """The goal is easy: a model after a few steps reaches it."""
    up = start("--until", "goal", "--set", "goal.exam_error_rate=0.06")
    assert up.process.wait(LONGEST_SECONDS) == 0, up.text()
    reached = re.search(r"Goal reached: model (\d+) has", up.text())
    assert reached, up.text()
    best = int(reached[1])
    assert "CPU-seconds since the first game" in up.text()
    go_on = re.search(r"resume +\S+ (.*)", up.text())
    assert go_on, up.text()
    # the folder's run file contains that goal
    again = ask(*shlex.split(go_on[1]), "--until", "goal")
    assert f"Goal reached: model {best}" in again
    assert "stopping selfplay" not in again

    exam = ask("exam", "--data", str(data), "--json", "--simulations", "5")
    values = json.loads(exam)
    assert list(values) == [
        "game", "model", "kind", "simulations", "positions", "errors", "error_rate",
        "prior_errors", "value_error", "wins", "draws", "given_away", "margin", "even_komi",
    ]  # fmt: skip
    assert values["model"] == best
    assert values["simulations"] == 5
    assert values["error_rate"] == values["errors"] / values["positions"]
    assert "has no model '99'" in ask("exam", "--data", str(data), "--model", "99", status=2)
    refused = ask("exam", "--data", str(data), "--perfect-play", "1", status=2)
    assert "only connect_four and chess have one: leave it out for tic_tac_toe" in refused

    trial = ask("match", str(best), "random", "--data", str(data), "--games", "4")
    assert "starting an evaluator" in trial  # it promotes no model that is newer than the goal's
    assert re.search(rf"{best} against random: [\d.]+ points of 4 games \(.*95% ", trial)
    assert "starting" not in ask("match", str(best), "random", "--data", str(data), "--games", "4")

    text = duel("hint\nnowhere\nquit\n", "--data", str(data), "--second", "--simulations", "5")
    assert f"model {best} plays" in text
    assert "expected line" in text
    assert "'nowhere' is not an action of tic_tac_toe" in text

    for model in (data / "models" / "blobs").iterdir():
        model.chmod(0o644)
        model.write_bytes(b"not a model")
    answer = ask("exam", "--data", str(data), status=2)
    assert "is damaged" in answer
    assert "Traceback" not in answer
    assert f"the best model, {best}, cannot be used" in ask("status", "--data", str(data))
