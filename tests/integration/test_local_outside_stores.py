"""``zerofleet up`` over a Postgres and a Valkey that are not its own."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from zerofleet.best_pointer import BestPointer
from zerofleet.cli.local_run import make_best
from zerofleet.database import Database
from zerofleet.local.stores import ROLES, StoreUrls

pytestmark = [pytest.mark.fleet, pytest.mark.timeout(1800)]

RUN_FILE = Path(__file__).parents[2] / "runs" / "tictactoe.toml"


def up(tmp_path: Path, *options: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "zerofleet.cli", "up", RUN_FILE, "--data", tmp_path / "data"]
    completed = subprocess.run(
        [*command, *options], capture_output=True, text=True, timeout=600, check=False
    )
    return completed.returncode, completed.stdout + completed.stderr


@pytest.mark.slow
def test_a_run_over_outside_stores(tmp_path: Path, database_url: str, valkey_url: str) -> None:
    easy = ("--until", "goal", "--set", "goal.exam_error_rate=1.0")
    stores = ("--database-url", database_url, "--redis-url", valkey_url)
    status, said = up(tmp_path, *easy, *stores)
    assert status == 0, said
    assert (reached := re.search(r"Goal reached: model (\d+) has", said)), said
    assert not (tmp_path / "data" / "postgres").exists()
    assert "max_disk_gb" not in (tmp_path / "data" / "run.toml").read_text()
    assert (tmp_path / "data" / "stores.json").stat().st_mode & 0o777 == 0o600
    with Database(database_url) as database:
        assert database.summary("tictactoe").promotions >= 1
        assert (best := database.promotion_head("tictactoe"))
        assert best.version == int(reached[1])

    status, said = up(tmp_path, *easy)  # the folder remembers where its record is
    assert status == 0, said
    assert f"Goal reached: model {best.version} has" in said


@pytest.mark.slow
def test_a_redis_that_does_not_answer(tmp_path: Path, database_url: str) -> None:
    nowhere = "redis://127.0.0.1:1/0"
    status, said = up(tmp_path, "--database-url", database_url, "--redis-url", nowhere)
    assert status == 2
    assert "zerofleet: Redis at 127.0.0.1:1 does not answer" in said
    assert "Traceback" not in said


def test_the_model_of_the_goal_is_made_the_best(
    database: Database, database_url: str, valkey_url: str
) -> None:
    urls = StoreUrls(dict.fromkeys(ROLES, database_url), valkey_url)
    trainer = database.acquire_fence("test", "trainer")
    evaluator = database.acquire_fence("test", "evaluator")
    for version in (1, 2):
        sha256 = f"{version:064x}"
        database.insert_model("test", version, sha256, version, {}, "here", trainer)
        database.promote("test", version, None, "evaluator", version - 1, epoch=evaluator)

    make_best("test", 2, urls)
    assert [each.version for each in database.promotions("test")] == [2, 1]
    make_best("test", 1, urls)
    newest = database.promotion_history("test")[0]
    head = newest.promotion
    assert (head.seq, head.version, newest.actor) == (3, 1, "zerofleet up")
    pointer = BestPointer(valkey_url, "test")
    best = pointer.get()
    pointer.close()
    assert best is not None
    assert (best.seq, best.version) == (3, 1)
