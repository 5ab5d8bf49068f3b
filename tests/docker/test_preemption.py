"""Workers come and go, and every container is killed: no game is lost or stored twice.

The oracle is that of bench.chaos: each worker notes every game that has ended before Postgres hears
of it, and every answer of Postgres. The tests go on from one another, in this order, on one
project.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from tests.support.databases import GAMES_STORED_TWICE

pytestmark = [
    pytest.mark.docker,
    pytest.mark.chaos,
    pytest.mark.slow,
    pytest.mark.timeout(7200),
]

WORKERS = 4
KILLED = ("selfplay", "inference", "trainer", "evaluator", "redis", "postgres")


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the containers' user may write to."""
    folder = tmp_path_factory.mktemp("ledger")
    folder.chmod(0o777)
    return folder


@pytest.fixture(scope="module")
def stack(engine: Any, images: Any, make_stack: Any, ledger: Path) -> Iterator[Any]:
    stack = make_stack(
        "tests/docker/fleet.toml",
        files=("tests/docker/ledger.yml",),
        environment={"LEDGER_FOLDER": str(ledger)},
    )
    with stack.up("--scale", f"selfplay={WORKERS}"):
        yield stack


def scale(stack: Any, workers: int) -> None:
    stack.compose("up", "-d", "--no-build", "--no-recreate", "--scale", f"selfplay={workers}")


def names(stack: Any) -> set[str]:
    """Hosts of the workers that are there; records name a worker by its host and process."""
    return {container.short_id for container in stack.containers("selfplay")}


def at_work(stack: Any) -> set[str]:
    """Hosts of workers who stored a game within the last minute."""
    rows = stack.sql(
        "SELECT DISTINCT regexp_replace(worker, '-[0-9]+$', '') FROM games "
        "WHERE kind = 'selfplay' "
        "AND ingested_at > now() - interval '60 s'"
    )
    return {row[0] for row in rows}


def notes(ledger: Path) -> list[list[str]]:
    """Return the workers' notes: a game's uid, and what became of it."""
    return [line.split() for line in (ledger / "games").read_text().splitlines()]


def unanswered(ledger: Path) -> set[str]:
    """Games that have ended and for which Postgres has not answered yet."""
    lines = notes(ledger)
    ended = {uid for uid, what, *_ in lines if what == "finished"}
    return ended - {uid for uid, what, *_ in lines if what != "finished"}


def are_stored(stack: Any, uids: set[str]) -> bool:
    """Whether Postgres has these games, also where the worker died before it noted the answer."""
    asked = ", ".join(f"'{uid}'" for uid in sorted(uids)) or "NULL"
    held = f"SELECT count(*) FROM games WHERE game_uid IN ({asked})"
    return stack.number(held) == len(uids)


def more_games(stack: Any, count: int = 50) -> None:
    before = stack.until("the stored games", stack.games)  # none while Postgres is away
    stack.until(f"{count} more games", lambda: stack.games() >= before + count)


def test_four_workers_become_one_and_four_again(stack: Any) -> None:
    stack.until("all four at work", lambda: at_work(stack) >= names(stack))
    before = names(stack)
    assert len(before) == WORKERS
    began = time.monotonic()
    scale(stack, 1)
    took = time.monotonic() - began
    gone = before - names(stack)
    assert len(gone) == WORKERS - 1
    left = f"SELECT count(*) FROM unfinished_games WHERE worker ~ '^({'|'.join(gone)})-'"
    saved = stack.number(left)
    stack.until("the games of those who left are adopted", lambda: stack.number(left) == 0)
    adopted = time.monotonic() - began
    more_games(stack)
    scale(stack, WORKERS)
    stack.until("all four at work again", lambda: at_work(stack) >= names(stack))
    print(
        f"\nscaled {WORKERS} -> 1 in {took:.1f} s; {saved} unfinished games were still theirs, "
        f"none {adopted:.1f} s after the scaling began; {WORKERS} at work again"
    )


@pytest.mark.parametrize("service", KILLED)
def test_a_killed_container_comes_back_by_itself(
    engine: docker.DockerClient,
    stack: Any,
    image: Callable[[str], str],
    ledger: Path,
    service: str,
) -> None:
    """SIGKILL of its first process, as the kernel would do it: Docker has not been asked to.

    What had ended by then and was cut off is stored before the next one is killed: games that end
    while Postgres is away are kept by their workers alone.
    """
    victim = stack.containers(service)[0]
    victim.reload()
    restarts, pid = victim.attrs["RestartCount"], victim.attrs["State"]["Pid"]
    began = time.monotonic()
    engine.containers.run(
        image("tools"),
        ["-c", f"import os; os.kill({pid}, 9)"],
        entrypoint="python",
        pid_mode="host",
        user="0",
        network_mode="none",
        remove=True,
    )

    def is_back() -> bool:
        victim.reload()
        return victim.attrs["RestartCount"] > restarts and victim.status == "running"

    stack.until(f"{service} runs again", is_back)
    back = time.monotonic() - began
    more_games(stack)
    played = time.monotonic() - began
    waiting = unanswered(ledger)
    stack.until(f"{len(waiting)} games stored", lambda: are_stored(stack, waiting))
    settled = time.monotonic() - began
    print(
        f"\n{service}: runs again after {back:.1f} s, 50 more games after {played:.1f} s, "
        f"{len(waiting)} that had ended meanwhile stored after {settled:.1f} s"
    )
    stack.until_healthy(service)


def test_docker_kill_is_a_stop_by_a_person(stack: Any) -> None:
    """No restart policy undoes it; `up` does."""
    victim = stack.containers("selfplay")[-1]
    victim.kill()

    def has_ended() -> bool:
        victim.reload()
        return victim.status == "exited"

    stack.until("the container has ended", has_ended)
    assert len(stack.containers("selfplay")) == WORKERS - 1
    scale(stack, WORKERS)
    assert len(names(stack)) == WORKERS
    stack.until_healthy("selfplay")
    more_games(stack)


def test_no_game_was_lost_or_stored_twice(stack: Any, ledger: Path) -> None:
    stack.compose("stop", "selfplay")
    lines = notes(ledger)
    ended = {uid for uid, what, *_ in lines if what == "finished"}
    acknowledged = Counter(uid for uid, what, *_ in lines if what == "stored")
    stored = {row[0] for row in stack.sql("SELECT game_uid FROM games WHERE kind = 'selfplay'")}
    unfinished = {row[0] for row in stack.sql("SELECT game_uid FROM unfinished_games")}
    doubled = stack.sql(GAMES_STORED_TWICE)
    lost = ended - stored - unfinished
    unstored = acknowledged.keys() - stored
    twice = [uid for uid, count in acknowledged.items() if count > 1]
    unread = stack.sql("SELECT game_uid FROM unreadable_games")
    print(
        f"\n{len(ended)} games ended, {len(stored)} stored, {len(unfinished)} unfinished; "
        f"lost {len(lost)}, stored twice {len(twice) + len(doubled)}, unreadable {len(unread)}"
    )
    assert len(stored) > 500
    assert (lost, unstored, twice, doubled, unread) == (set(), set(), [], [], [])
    exits = [
        container.attrs["State"]["ExitCode"]
        for container in stack.containers("selfplay", stopped=True)
    ]
    assert exits == [0] * WORKERS
