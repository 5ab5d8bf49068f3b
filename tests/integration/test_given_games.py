"""Runs that begin with games they did not play: copied from another run, or read from files."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner
from zerofleet_core import ReplayBuffer

from tests.integration.conftest import Train
from tests.support.databases import DatabaseTemplate
from tests.support.random_records import random_record, resigned_record, target_record
from zerofleet.cli import app
from zerofleet.config import RunConfig, load_run
from zerofleet.database import Database, Submission, add_to_buffer
from zerofleet.database import origins as module
from zerofleet.database.database import FencedRole, Leadership
from zerofleet.database.origins import CopyState
from zerofleet.database.played_games import PlayedGame, PlayedGames, record_format
from zerofleet.errors import ConfigError
from zerofleet.games import sgf, spec
from zerofleet.games.notation import parse_actions
from zerofleet.games.pgn_text import read_pgn
from zerofleet.learning.learner import Learner
from zerofleet.learning.overfit import OverfitWatch
from zerofleet.learning.window import TrainBucket, Training, Window

pytestmark = pytest.mark.slow

DEADLINE = 120.0
GO9 = "go(size=9,komi=7)"
GAMES = 60
RUN_FILE = """
name = "new"
preset = "plain"
game = "{game}"
[network]
blocks = {blocks}
channels = 8
[selfplay]
max_ahead_positions = 100
[trainer]
batch_size = 32
min_positions = 50
samples_per_position = 4
publish_every_steps = 10
checkpoint_every_steps = 5
metrics_every_steps = 5
value_lambda = {value_lambda}
[precision]
variants = []
"""
# Columns of a position that a copy keeps, ordered by the games' records and plies.
SEARCHES = """
SELECT g.content_sha256, p.ply, p.action, p.to_play, p.root_value, p.network_value,
    p.best_child_value, p.simulations, p.full_search, p.legal_actions, p.visit_counts, p.priors,
    p.policy_weights
FROM games AS g JOIN positions AS p USING (game_uid) WHERE g.run = :run ORDER BY 1, 2
"""
KEPT = """
SELECT content_sha256, result, reason, length, started_at, finished_at, moves, resign_threshold,
    plays_on, began_at, opening_plies, start, restarted
FROM games WHERE run = :run ORDER BY 1
"""


@pytest.fixture
def new_toml(tmp_path: Path) -> Path:
    return write_run(tmp_path)


def write_run(
    folder: Path, game: str = "tic_tac_toe", blocks: int = 1, value_lambda: float = 1.0
) -> Path:
    path = folder / "new.toml"
    path.write_text(RUN_FILE.format(game=game, blocks=blocks, value_lambda=value_lambda))
    return path


def fill(database: Database, games: int = GAMES) -> None:
    """Store games of the run ``test``, a few in each transaction."""
    records = [target_record(seed) for seed in range(games)]
    for first in range(0, games, 4):
        database.submit_games("test", "w", [Submission(r) for r in records[first : first + 4]])


def ask(*arguments: object) -> tuple[int, str]:
    """Run a command in this process; return its status and its output."""
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    output = result.output
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        output += str(result.exception)
        assert result.exc_info is not None
        assert "zerofleet.errors" in result.exc_info[0].__module__, result.exc_info
    return (0 if result.exception is None else 2), output


def fork(url: str, new_toml: Path, *options: object, source: str = "test") -> tuple[int, str]:
    return ask("fork", source, "--to", new_toml, "--database-url", url, *options)


def opened(run: RunConfig, database: Database) -> tuple[Window, Training]:
    """Return a trainer's window with all games read."""
    origin = database.origin(run.name)
    bucket = TrainBucket(run.trainer.samples_per_position, behind=10.0)
    training = Training(Learner(spec(run.game.name), run), bucket, OverfitWatch(run.overfit))
    window = Window(run, database, training, origin.positions if origin else 0)
    while window.read_page():
        pass
    return window, training


def test_a_fork_has_every_game_once_with_its_searches(
    database: Database, database_url: str, new_toml: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_CHUNK_GAMES", 7)
    fill(database)
    database.submit_game("test", "w", Submission(random_record(900)))
    database.submit_game("test", "w", Submission(resigned_record(901, 3)))
    status, output = fork(database_url, new_toml)
    assert status == 0, output
    assert f"{GAMES + 2} games of the run test" in output
    for query in (KEPT, SEARCHES):
        copied = database._rows(query, run="new")
        assert copied == database._rows(query, run="test")
        assert copied
    [row] = database._rows(
        "SELECT count(DISTINCT kind) AS kinds, min(kind) AS kind, max(first_model) AS model, "
        "count(DISTINCT game_uid) AS games, min(worker) AS worker FROM games WHERE run = 'new'"
    )
    assert row == (1, "given", 0, GAMES + 2, "fork of test")
    outside = "SELECT FROM positions_default JOIN games USING (game_uid) WHERE run = 'new'"
    assert database._rows(outside) == []
    origin = database.origin("new")
    assert origin is not None
    assert (origin.games, origin.left_out, origin.retrain) == (GAMES + 2, 0, False)
    assert origin.finished_at is not None
    assert fork(database_url, new_toml)[0] == 0  # a second call changes nothing
    assert database.origin("new") == origin


def test_no_figure_of_self_play_counts_given_games(
    database: Database, database_url: str, new_toml: Path
) -> None:
    fill(database)
    fork(database_url, new_toml)
    assert database.summary("new").games == 0
    assert database.summary("new").games_last_hour == 0
    assert database.summary("test").games == GAMES
    for view in (
        "games_per_hour",
        "model_summary",
        "openings",
        "value_calibration",
        "game_length",
        "duplicates",
    ):
        assert database._rows(f"SELECT * FROM {view} WHERE run = 'new'") == []
    assert database.recent_play("new").games == 0
    assert database.count_games("new") == 0
    assert database.count_games("new", "given") == GAMES


def test_the_window_is_that_of_the_other_run_and_pays_in_full(
    database: Database, database_url: str, new_toml: Path
) -> None:
    fill(database)
    fork(database_url, new_toml, "--set", "trainer.held_out_share=0")
    run = load_run(new_toml).model_copy(update={"name": "new"})
    run.trainer.__dict__["held_out_share"] = 0.0
    window, training = opened(run, database)
    other, _ = opened(run.model_copy(update={"name": "test"}), database)
    assert window.trained.positions == other.trained.positions > 0
    assert window.rejected == 0
    # The bucket counts as behind from ten positions on; it still learns fully from given games.
    assert training.bucket.samples == 4 * window.trained.positions
    ahead = database.positions_ahead("new", 1.0, 1e9)
    assert ahead.positions == window.trained.positions  # self-play waits for the trainer


def test_a_growing_window_keeps_what_was_given(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    fill(database)
    path = write_run(tmp_path)
    path.write_text(path.read_text().replace(
        "[trainer]", "[trainer]\ngrowing_window = true\ngrowing_window_positions = 20"
    ))  # fmt: skip
    fork(database_url, path)
    window, training = opened(load_run(path), database)
    assert window.trained.positions == training.bucket.received


COPIER = """
import signal, sys
from zerofleet.cli import main
from zerofleet.database import Database, origins

copy_chunk, copied = Database.copy_chunk, []

def copy_some(*arguments):
    if len(copied) == 9:
        signal.pause()  # it is killed here, and not after the last one
    copied.append(copy_chunk(*arguments))
    return copied[-1]

origins._MOST_CHUNK_GAMES = 1
Database.copy_chunk = copy_some
sys.argv = ["zerofleet", *ARGUMENTS]
main()
"""


def test_a_killed_copy_goes_on_with_nothing_twice_and_nothing_missing(
    database: Database, database_url: str, new_toml: Path
) -> None:
    fill(database, 200)
    arguments = ["fork", "test", "--to", str(new_toml), "--database-url", database_url]
    program = COPIER.replace("ARGUMENTS", repr(arguments))
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + DEADLINE
        while not (origin := database.origin("new")) or not origin.games:
            assert time.monotonic() < deadline
            assert process.poll() is None
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    origin = database.origin("new")
    assert origin is not None
    assert 0 < origin.games < 200
    assert origin.finished_at is None
    assert database.count_games("new", "given") == origin.games
    fill(database, 8)  # a second call still copies the window of the first call
    database.submit_game("test", "w", Submission(target_record(5000)))
    status, output = fork(database_url, new_toml)
    assert status == 0, output
    assert database.count_games("new", "given") == 200
    left = {row.content_sha256.tobytes() for row in database._rows(KEPT, run="new")}
    assert len(left) == 200


def test_a_fork_between_two_databases(
    database: Database, database_template: DatabaseTemplate, new_toml: Path
) -> None:
    fill(database)
    with database_template.copy() as url, Database(url) as other:
        other.register_run(load_run(new_toml))
        other.make_partitions()
        window = database.source_window("test", 25, None)
        assert window.games == 25
        identity = database.source_run("test").identity
        other.begin_origin(
            "new",
            "fork",
            source="the run test",
            place="there",
            source_id=identity,
            retrain=False,
            window=window,
        )
        state = other.copy_chunk(database, "test", "new", 10)
        while state.next_tx < state.last_tx:
            state = other.copy_chunk(database, "test", "new", 10)
        other.finish_origin("new")
        # The copy contains whole transactions, of four games each.
        assert 25 <= state.games <= 28
        newest = database._rows(KEPT, run="test")
        assert {row.content_sha256.tobytes() for row in other._rows(KEPT, run="new")} <= {
            row.content_sha256.tobytes() for row in newest
        }


def test_games_without_searches_are_left_out_and_counted(
    database: Database, database_url: str, new_toml: Path
) -> None:
    fill(database)
    database._run(
        "DELETE FROM positions WHERE game_uid IN ("
        "SELECT game_uid FROM games WHERE run = 'test' ORDER BY tx LIMIT 10)"
    )
    status, output = fork(database_url, new_toml)
    assert status == 0, output
    assert "50 games of the run test" in output
    assert "10 were left out" in output
    database._run("DELETE FROM positions WHERE game_uid IN (SELECT game_uid FROM games)")
    path = new_toml.with_name("third.toml")
    path.write_text(new_toml.read_text().replace('"new"', '"third"'))
    status, output = fork(database_url, path)
    assert status == 2
    assert "the searches of all 60 games of the run 'test' were dropped" in output
    assert "forget = false" in output


def test_wrong_forks_are_refused_in_one_line(
    database: Database, database_url: str, new_toml: Path, tmp_path: Path
) -> None:
    def refused(*options: object, source: str = "test", path: Path = new_toml) -> str:
        status, output = fork(database_url, path, *options, source=source)
        assert status == 2, output
        assert len(output.strip().splitlines()) == 1, output
        return output

    assert "there is no run 'nobody'" in refused(source="nobody")
    assert "has no games" in refused()
    fill(database)
    other = tmp_path / "other"
    other.mkdir()
    four = write_run(other, "connect_four")
    assert "plays tic_tac_toe, and" in refused(path=four)
    assert "is the name of the new run, too" in refused(source="new")
    output = refused("--retrain", "--set", "trainer.min_positions=10000",
                   "--set", "selfplay.max_ahead_positions=0")  # fmt: skip
    assert "lower it, or give more games" in output
    database.register_run(load_run(new_toml))
    database.submit_game("new", "w", Submission(random_record(77)))
    assert "has begun already, with 1 games" in refused()


def test_a_fork_of_another_source_does_not_mix(
    database: Database, database_url: str, new_toml: Path
) -> None:
    fill(database)
    assert fork(database_url, new_toml)[0] == 0
    status, output = fork(database_url, new_toml, "--retrain")
    assert status == 2
    assert "begins with games of the run test without --retrain" in output


def test_the_trainer_waits_until_all_games_are_there(
    database: Database, database_url: str, new_toml: Path, train: Train
) -> None:
    fill(database)
    run = load_run(new_toml)
    database.register_run(run)
    window = database.source_window("test", GAMES, None)
    database.begin_origin(
        "new",
        "fork",
        source="the run test",
        place="here",
        source_id=database.source_run("test").identity,
        retrain=True,
        window=window,
    )
    with train(run) as running:
        time.sleep(1.0)  # the trainer must not begin
        assert not running.done()
        assert database.models("new") == []
        status, output = fork(database_url, new_toml, "--retrain")
        assert status == 0, output
        wait(lambda: len(database.models("new")) > 1)


def begin(database: Database, run: RunConfig) -> CopyState:
    return database.begin_origin(
        run.name,
        "import",
        source="games.pgn",
        place="here",
        source_id="files",
        retrain=False,
        chosen=4,
    )


def test_no_games_are_given_to_a_run_whose_trainer_has_started(
    database: Database, database_url: str, new_toml: Path
) -> None:
    fill(database)
    run = load_run(new_toml)
    database.register_run(run)
    database.acquire_fence(run.name, "trainer")
    message = "a trainer of the run 'new' has already started"
    with pytest.raises(ConfigError, match=message):
        begin(database, run)
    status, output = fork(database_url, new_toml)
    assert status == 2
    assert message in output
    assert "give the new run another name" in output
    assert database.origin(run.name) is None


def test_a_copy_that_began_before_the_trainer_goes_on(database: Database, new_toml: Path) -> None:
    run = load_run(new_toml)
    database.register_run(run)
    database.acquire_fence(run.name, "evaluator")  # a lease of the evaluator does not matter
    state = begin(database, run)
    database.acquire_fence(run.name, "trainer")
    assert begin(database, run) == state


def test_a_trainer_sees_a_copy_that_begins_just_before_its_fence(
    database: Database,
    database_url: str,
    new_toml: Path,
    train: Train,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = load_run(new_toml)
    database.register_run(run)
    acquire = Leadership.acquire_fence

    def begin_first(self: Leadership, name: str, role: FencedRole, *, above: int = 0) -> int:
        begin(database, run)
        return acquire(self, name, role, above=above)

    monkeypatch.setattr(Leadership, "acquire_fence", begin_first)
    fenced = "SELECT FROM fences WHERE run = 'new' AND role = 'trainer'"
    with train(run) as running:
        wait(lambda: database._rows(fenced))
        assert not running.done()
        assert database.models("new") == []
        database.finish_origin("new")
        wait(lambda: database.models("new"))


def wait(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_another_network_learns_what_the_games_pay_for_and_then_waits(
    database: Database, database_url: str, tmp_path: Path, train: Train
) -> None:
    fill(database)
    path = write_run(tmp_path, blocks=2, value_lambda=0.8)
    assert fork(database_url, path)[0] == 0
    run = load_run(path)
    window, training = opened(run, database)
    steps = int(training.bucket.samples) // run.trainer.batch_size
    with train(run):
        progress = "SELECT unspent_positions FROM trainer_progress WHERE run = 'new'"
        wait(lambda: [row.unspent_positions for row in database._rows(progress)] == [0])
    newest = max(row.step for row in database.models("new"))
    assert newest == steps // 10 * 10
    assert window.trained.positions > 0


def test_retraining_goes_on_past_what_the_games_pay_for(
    database: Database, database_url: str, tmp_path: Path, train: Train
) -> None:
    fill(database)
    path = write_run(tmp_path)
    assert fork(database_url, path, "--retrain")[0] == 0
    run = load_run(path)
    _, training = opened(run, database)
    steps = int(training.bucket.samples) // run.trainer.batch_size
    with train(run):
        wait(lambda: max((row.step for row in database.models("new")), default=0) > 2 * steps)
    # No worker plays.
    assert database.positions_ahead("new", 1.0, 1e9).unread_positions == float("inf")


def test_a_run_that_waits_to_be_started_keeps_its_searches(
    database: Database, database_url: str, new_toml: Path
) -> None:
    fill(database)
    fork(database_url, new_toml)
    assert keeps_everything(database) == (True, True)  # on the run's first day
    age(database)
    assert keeps_everything(database) == (True, False)


def test_a_copy_that_is_not_finished_keeps_searches_for_a_day(
    database: Database, database_url: str, new_toml: Path
) -> None:
    fill(database)
    fork(database_url, new_toml)
    age(database)
    database._run("UPDATE origins SET finished_at = NULL")
    assert keeps_everything(database) == (True, False)
    database._run("UPDATE origins SET began_at = now() - interval '25 hours'")
    assert keeps_everything(database) == (False, False)
    database.acquire_fence("new", "trainer")
    assert keeps_everything(database) == (True, True)


def age(database: Database) -> None:
    database._run("UPDATE runs SET created_at = now() - interval '9 days'")


def keeps_everything(database: Database) -> tuple[bool, bool]:
    """Return whether run ``test`` keeps all searches, first normally, then at the disk limit."""
    epoch = database.acquire_fence("test", "trainer")
    database._run("DELETE FROM position_needs")
    database._run(f"INSERT INTO position_needs VALUES ('test', 'infinity', {epoch})")
    [row] = database._rows(
        "SELECT positions_needed() = '-infinity' AS usual, "
        "positions_needed(true) = '-infinity' AS at_limit"
    )
    return row.usual, row.at_limit


def imported(database: Database, run: RunConfig) -> list[tuple[str, list[float], float]]:
    """Return, for each position, the moves before it, its policy target and its value target."""
    window, _ = opened(run, database)
    assert window.rejected == 0
    games = database.read_games(run.name, 0, 1000, ("root_value",)).games
    found: list[tuple[str, list[float], float]] = []
    for game in games:
        for ply in range(len(game.action)):
            entries = slice(game.offsets[ply], game.offsets[ply + 1])
            weights = game.policy_weights[entries].astype(float)
            policy = [0.0] * spec(run.game.name).num_actions
            for action, weight in zip(game.legal_actions[entries], weights, strict=True):
                policy[int(action)] = float(weight / weights.sum())
            assert game.root_value is not None
            moves = " ".join(str(each) for each in game.action[:ply].tolist())
            found.append((moves, policy, float(game.root_value[ply])))
    return sorted(found)


def import_files(url: str, new_toml: Path, *arguments: object) -> tuple[int, str]:
    return ask("import", *arguments, "--run", new_toml, "--database-url", url)


def test_lines_of_actions_become_samples(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    path = write_run(tmp_path, value_lambda=0.5)
    lines = tmp_path / "games.txt"
    lines.write_text("# won by X, then drawn\na1 a2 b1 b2 c1\n\n4 0 2 6 3 5 1 7 8\n")
    status, output = import_files(database_url, path, lines)
    assert status == 0, output
    assert "2 games of games.txt, imported" in output
    plies = database._rows("SELECT DISTINCT opening_plies FROM games WHERE kind = 'given'")
    assert [row.opening_plies for row in plies] == [None]
    run = load_run(path)
    run.trainer.__dict__["held_out_share"] = 0.0
    samples = imported(database, run)
    assert len(samples) == 5 + 9
    first = parse_actions("tic_tac_toe", "a1 a2 b1 b2 c1")
    for ply, action in enumerate(first):
        moves = " ".join(map(str, first[:ply]))
        values = [value for before, policy, value in samples if before == moves and policy[action]]
        assert (1.0 if ply % 2 == 0 else -1.0) in values
    assert all(sum(policy) == 1.0 and max(policy) == 1.0 for _, policy, _ in samples)
    # The buffer has the same targets for any value_lambda, since every root value is the result.
    window, _ = opened(run, database)
    batch = window.sample(256, seed=3)
    assert set(np.asarray(batch[2]).tolist()) <= {1.0, -1.0, 0.0}
    assert np.array_equal(np.asarray(batch[1]).max(axis=1), np.ones(256))
    # A move without a search has no surprise, and its root value is the result.
    buffer = ReplayBuffer(
        "tic_tac_toe", 100, 2, auxiliary=["root_value", "search_surprise", "plies_to_end"]
    )
    for game in database.read_games(run.name, 0, 1000, ("root_value", "priors")).games:
        add_to_buffer(buffer, game)
    *_, value, targets, ply, number = buffer.all_positions()
    lengths = np.bincount(number)
    expected = [value, np.zeros(14), lengths[number] - ply]
    assert sorted(lengths.tolist()) == [5, 9]
    np.testing.assert_array_equal(targets, np.stack(expected, 1))
    assert import_files(database_url, path, lines)[0] == 0  # a second call changes nothing
    assert database.count_games("new", "given") == 2


PGN = """[Event "mate"]
[Result "0-1"]

1. f3 e5 2. g4 Qh4# 0-1

[Event "agreed"]
[Result "1/2-1/2"]

1. e4 e5 2. Nf3 Nc6 1/2-1/2

[Event "resigned"]
[SetUp "1"]
[FEN "4k3/8/8/8/8/8/4P3/4K3 w - - 0 1"]
[Result "1-0"]

1. e4 Kd7 2. e5 1-0
"""
BAD_PGN = """[Event "unfinished"]
[Result "*"]

1. e4 e5 *

[Event "illegal"]
[Result "1-0"]

1. e4 e5 2. Ke3 Nc6 { [%eval 1.0] } 1-0

[Event "other variant"]
[Variant "Atomic"]
[Result "1-0"]

1. e4 1-0

[Event "contradicts"]
[Result "1-0"]

1. f3 e5 2. g4 Qh4# 1-0
"""


def test_pgn_with_agreed_and_resigned_games(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    path = write_run(tmp_path, "chess")
    file = tmp_path / "games.pgn"
    file.write_text(PGN)
    status, output = import_files(database_url, path, file)
    assert status == 0, output
    rows = database._rows("SELECT result, reason, length, start FROM games ORDER BY length, result")
    assert [row[:3] for row in rows] == [(1, "adjudicated", 3), (-1, "rules", 4),
                                         (0, "adjudicated", 4)]  # fmt: skip
    assert rows[0].start.startswith("4k3/8/8/8/8/8/4P3/4K3 w")
    run = load_run(path)
    run.trainer.__dict__["held_out_share"] = 0.0
    samples = imported(database, run)
    assert len(samples) == 11
    window, _ = opened(run, database)
    assert window.trained.positions == 11
    mated = parse_actions("chess", "f3 e5 g4 Qh4")
    [value] = [value for moves, _, value in samples
               if moves == " ".join(map(str, mated[:3]))]  # fmt: skip
    assert value == 1.0  # Black is to move and wins


def exported(database: Database, url: str) -> list[tuple[int, str]]:
    """Return the stored results of the run's games, with the text that an export writes of each."""
    rows = database._rows("SELECT game_uid FROM games WHERE run = 'new'")
    found: list[tuple[int, str]] = []
    with PlayedGames(url) as pool:
        games = pool.played_games("new", [row.game_uid for row in rows])
    for played in games:
        assert isinstance(played, PlayedGame)
        form = record_format(played.game)
        assert form is not None
        found.append((played.result, form.text_of("new", played)))
    return found


def test_exported_pgn_has_the_results_of_the_imported_games(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    path = write_run(tmp_path, "chess")
    file = tmp_path / "games.pgn"
    file.write_text(PGN)
    assert import_files(database_url, path, file)[0] == 0
    games = exported(database, database_url)
    assert sorted(result for result, _ in games) == [-1, 0, 1]
    for result, text in games:
        [again] = read_pgn(text, "chess")
        assert again.result == result


def test_bad_games_of_pgn_are_refused_or_skipped(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    path = write_run(tmp_path, "chess")
    file = tmp_path / "games.pgn"
    file.write_text(BAD_PGN + "\n" + PGN)
    status, output = import_files(database_url, path, file)
    assert status == 2
    assert f"{file}, line 1: the game is not over after 2 moves, and has no result" in output
    assert database._rows("SELECT name FROM runs WHERE name = 'new'") == []  # nothing was stored
    status, output = import_files(database_url, path, file, "--skip-bad")
    assert status == 0, output
    assert "skipped 4 of 7 games" in output
    assert "'Ke3' is not a legal move" in output
    assert "move 2 of White" in output
    assert "'atomic' is not supported" in output
    assert "the result is 'White won', and by the rules 'Black won'" in output
    assert database.count_games("new", "given") == 3


def sgf_game(moves: str, *properties: str) -> str:
    nodes = "".join(f";{'BW'[ply % 2]}[{point}]" for ply, point in enumerate(moves.split(",")))
    return f"(;GM[1]FF[4]SZ[9]KM[7]{''.join(properties)}{nodes})"


def test_sgf_with_handicap_and_the_results_of_people(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    path = write_run(tmp_path, GO9)
    games = [
        # two passes: the players agreed on a result that differs from the area score
        sgf_game("ee,dd,,", "RE[B+3.5]"),
        sgf_game("ee,dd", "RE[W+R]"),
        "(;GM[1]FF[4]SZ[9]KM[7]HA[2]AB[cc][gg]RE[B+T];W[ee];B[dd])",
    ]
    files = [tmp_path / "a.sgf", tmp_path / "b.sgf"]
    files[0].write_text("\n".join(games[:2]))
    files[1].write_text(games[2])
    status, output = import_files(database_url, path, *files)
    assert status == 0, output
    rows = database._rows("SELECT result, reason, length, start <> '' AS set_up FROM games "
                          "ORDER BY length DESC, result")  # fmt: skip
    assert [tuple(row) for row in rows] == [
        (1, "adjudicated", 4, False), (-1, "adjudicated", 2, False), (1, "adjudicated", 2, True),
    ]  # fmt: skip
    run = load_run(path)
    run.trainer.__dict__["held_out_share"] = 0.0
    samples = imported(database, run)
    assert len(samples) == 8
    # The next player lost the first game and won the second; as Black it won the third.
    assert [value for moves, _, value in samples if moves == "40"] == [-1.0, 1.0, 1.0]
    assert sorted(value for moves, _, value in samples if not moves) == [-1.0, -1.0, 1.0]
    written = exported(database, database_url)
    assert [sgf.read(text, GO9).result for _, text in written] == [result for result, _ in written]
    assert sorted(result for result, _ in written) == [-1, 1, 1]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(;GM[1]SZ[19]KM[7]RE[B+R];B[ee])", "board size 19, not 9"),
        ("(;GM[1]SZ[9]KM[5.5]RE[B+R];B[ee])", "komi 5.5, the game is played with 7"),
        ("(;GM[1]SZ[9]KM[7];B[ee])", "has no result"),
        ("(;GM[1]SZ[9]KM[7]RE[Void];B[ee])", "has no result"),
        ("(;GM[1]SZ[9]KM[7]RE[B+R];B[ee];W[ee])", "node 2 of the SGF: W[ee]"),
        ("(;GM[1]SZ[9]KM[7]RE[B+R])", "the game has no moves"),
        ("(;GM[1]SZ[9", "not SGF"),
    ],
)
def test_bad_sgf_is_refused(
    database: Database, database_url: str, tmp_path: Path, text: str, reason: str
) -> None:
    path = write_run(tmp_path, GO9)
    file = tmp_path / "a.sgf"
    file.write_text(text)
    status, output = import_files(database_url, path, file)
    assert status == 2
    assert str(file) in output
    assert reason in output
    assert database._rows("SELECT name FROM runs WHERE name = 'new'") == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a1 a1", "line 1: ply 1: 'a1'"),
        ("a1 a2", "line 1: the game is not over after 2 moves"),
        ("# nothing\n", "no game to learn from"),
    ],
)
def test_bad_lines_are_refused(
    database: Database, database_url: str, new_toml: Path, text: str, reason: str
) -> None:
    file = new_toml.with_name("lines.txt")
    file.write_text(text)
    status, output = import_files(database_url, new_toml, file)
    assert status == 2
    assert reason in output


def test_files_of_another_kind_are_refused(
    database: Database, database_url: str, new_toml: Path
) -> None:
    file = new_toml.with_name("a.pgn")
    file.write_text(PGN)
    assert "PGN is for chess" in import_files(database_url, new_toml, file)[1]
    file = new_toml.with_name("a.sgf")
    file.write_text("(;GM[1])")
    assert "SGF is for go and othello" in import_files(database_url, new_toml, file)[1]
    assert "cannot read" in import_files(database_url, new_toml, file.with_name("none"))[1]


def test_workers_cannot_give_games(database: Database, role_url: Callable[[str], str]) -> None:
    with Database(role_url("worker")) as worker:
        given = Submission(random_record(3), kind="given")
        assert worker.submit_games("test", "w", [given]) == ["rejected"]
