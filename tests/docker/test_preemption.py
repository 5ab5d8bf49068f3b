"""Workers come and go, and every container is killed; no game is lost or duplicated.

The tests use the oracle of bench.chaos: each worker notes every finished game before Postgres gets
it, and every answer of Postgres. The tests share one project and depend on their order.
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
    """Return the hosts of the running workers; records name a worker by host and process."""
    return {container.short_id for container in stack.containers("selfplay")}


def at_work(stack: Any) -> set[str]:
    """Return the hosts of workers that stored a game within the last minute."""
    rows = stack.sql(
        "SELECT DISTINCT regexp_replace(worker, '-[0-9]+$', '') FROM games "
        "WHERE kind = 'selfplay' "
        "AND ingested_at > now() - interval '60 s'"
    )
    return {row[0] for row in rows}


def notes(ledger: Path) -> list[list[str]]:
    """Return the workers' notes: each a game's uid and its fate."""
    return [line.split() for line in (ledger / "games").read_text().splitlines()]


def unanswered(ledger: Path) -> set[str]:
    """Return the games that have ended and that Postgres has not acknowledged."""
    lines = notes(ledger)
    ended = {uid for uid, what, *_ in lines if what == "finished"}
    return ended - {uid for uid, what, *_ in lines if what != "finished"}


def are_stored(stack: Any, uids: set[str]) -> bool:
    """Return whether Postgres has these games, even if a worker died before it noted the answer."""
    names = ", ".join(f"'{uid}'" for uid in sorted(uids)) or "NULL"
    held = f"SELECT count(*) FROM games WHERE game_uid IN ({names})"
    return stack.number(held) == len(uids)


def more_games(stack: Any, count: int = 50) -> None:
    before = stack.until("the stored games", stack.games)  # waits while Postgres is down
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
    """The first process gets SIGKILL directly, as from the kernel, and not through Docker.

    Unacknowledged games are stored before the next container is killed: while Postgres is down,
    only the workers have the games that end.
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
    """No restart policy starts the container again, but ``up`` does."""
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
