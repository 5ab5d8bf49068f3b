"""Each benchmark runs, with tiny settings, and prints output that other programs can parse."""

import json
import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import __main__ as suite
from bench import (
    efficiency,
    export,
    replay,
    report,
    retention,
    rules,
    search_match,
    store,
    train,
    tree,
)
from bench.games_played import played_games, random_positions
from bench.model_file import model_bytes
from bench.targets import figures
from bench.workloads import WORKLOADS
from tests.support.fork_server import Fork
from zerofleet.games import State
from zerofleet.models.session import ModelSession

SHORT = ["--seconds", "0.05", "--blocks", "1", "--json"]

Rows = list[dict[str, Any]]


@pytest.fixture
def in_a_process(tmp_path: Path) -> Callable[..., Rows]:
    """Run a gRPC benchmark in its own process: gRPC keeps state for every event loop it saw."""

    def run(module: str, *arguments: str) -> Rows:
        process = Fork(module, [*arguments, *SHORT], {}, tmp_path / "rows")
        assert process.wait(300) == 0, process.output()
        return [json.loads(line) for line in process.output().splitlines()]

    return run


def here(
    main: Callable[[Sequence[str]], None],
    capsys: pytest.CaptureFixture[str],
    *arguments: str,
    lengths: Sequence[str] = SHORT,
) -> Rows:
    main([*arguments, *lengths])
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def assert_sane(rows: Rows, *fields: str) -> None:
    """Assert that every row has these fields, each a finite number above 0."""
    assert rows
    for row in rows:
        for name in fields:
            assert math.isfinite(row[name]), (name, row)
            assert row[name] > 0, (name, row)


@pytest.mark.slow
def test_efficiency(in_a_process: Callable[..., Rows]) -> None:
    small = ["--games", "8", "--simulations", "4"]
    rows = in_a_process("bench.efficiency", "tic_tac_toe", *small)
    assert [row["path"] for row in rows] == ["raw", "inprocess", "grpc", "grpc_unary"]
    assert {(row["game"], row["precision"]) for row in rows} == {("tic_tac_toe", "fp32")}
    assert_sane(
        rows, "positions_per_cpu_second", "ratio_to_raw", "batch_mean", "positions_per_second"
    )
    assert_sane(rows[1:], "simulations_per_cpu_second", "ratio_to_inprocess", "games_per_hour")
    assert_sane(rows[2:], "batch_fill", "queue_wait_ms")
    # Without a cache and a reused tree, only terminal leaves need no prediction; a root is no
    # simulation.
    assert all(0.8 <= row["simulations_per_position"] < 3 for row in rows[1:])
    assert len(figures(rows)) == 4


@pytest.mark.parametrize(
    ("game", "given", "games"),
    [
        ("tic_tac_toe", [], 512),
        ("connect_four", [], 256),
        ("go9", [], 256),
        ("othello", [], 256),
        ("tic_tac_toe", ["--games", "64"], 64),
    ],
)
def test_rows_of_a_message_are_the_workloads_unless_they_are_given(
    game: str, given: list[str], games: int
) -> None:
    options = efficiency.parse([game, *given])
    assert efficiency.setting_of(options.workload, options).games == games


@pytest.mark.fleet
@pytest.mark.parametrize("how", ["--unary", "--network"])
def test_serve(how: str, in_a_process: Callable[..., Rows]) -> None:
    rows = in_a_process("bench.serve", "--clients", "1", "2", "--batch", "256", how)
    assert [(row["clients"], row["batch"]) for row in rows] == [(1, 256), (2, 256)]
    assert_sane(rows, "requests_per_second", "positions_per_second", "us_per_position", "tax")
    assert_sane(rows, "client_us_per_message", "server_us_per_message")
    assert all(0 < row["p50_ms"] <= row["p95_ms"] <= row["p99_ms"] for row in rows)
    assert len(figures(rows)) == (2 if how == "--network" else 0)


@pytest.mark.fleet
def test_search_latency(in_a_process: Callable[..., Rows]) -> None:
    options = ("tic_tac_toe", "--clients", "1", "2", "--simulations", "4")
    rows = in_a_process("bench.search_latency", *options)
    assert [(row["clients"], row["simulations"]) for row in rows] == [(1, 4), (2, 4)]
    assert_sane(rows, "searches_per_second", "server_ms_per_search")
    assert all(0 < row["p50_ms"] <= row["p95_ms"] <= row["p99_ms"] for row in rows)


@pytest.mark.parametrize(
    ("game", "most_edges"),
    [
        ("tic_tac_toe", 9),
        ("connect_four", 7),
        pytest.param("go9", 82, marks=pytest.mark.slow),
    ],
)
def test_tree(game: str, most_edges: int, capsys: pytest.CaptureFixture[str]) -> None:
    rows = here(tree.main, capsys, game, "--games", "4")
    assert [row["simulations"] for row in rows] == [100, 800]
    assert_sane(rows, "simulations_per_cpu_second", "positions_per_simulation")
    assert all(row["nodes_of_tree"] <= row["simulations"] + 1 for row in rows)
    # Nodes and edges are measured separately; no node has more edges than the start position.
    assert all(15 <= row["bytes_per_node"] <= 64 for row in rows)
    assert all(20 <= row["bytes_per_edge"] <= 40 for row in rows)
    assert all(0 < row["edges_per_node"] < most_edges for row in rows)
    limits = [
        (figure.target, figure.is_met(value)) for figure, value in figures(rows) if figure.is_limit
    ]
    assert limits == [(64, True), (40, True)] * 2


@pytest.mark.fleet
def test_memory_of_a_worker(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--memory", "--games", "8", "--simulations", "8"]
    [row] = here(tree.main, capsys, "tic_tac_toe", *small)
    assert (row["bench"], row["games"], row["simulations"]) == ("memory", 8, 8)
    assert row["simulations_played"] >= 3 * 8 * 8
    assert 0 < row["resident_mib"] <= row["most_resident_mib"]


def test_search_match(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--games", "6", "--both", "num_simulations=4", "--second", "num_simulations=32"]
    first, second = here(search_match.main, capsys, "tic_tac_toe", *small, lengths=["--json"])
    assert (first["search"], second["search"]) == ("first", "second")
    assert (first["games"], second["games"]) == (6, 6)
    assert first["score"] + second["score"] == pytest.approx(1)
    assert all(0 <= row["low"] <= row["score"] <= row["high"] <= 1 for row in (first, second))
    # A setting for one variant applies to it alone; the visits of the reused tree count as well.
    assert 3 <= first["visits_per_ply"] < 16 < second["visits_per_ply"]
    assert_sane([first, second], "positions_per_ply", "plies")
    assert second["settings"] == ["num_simulations=4", "num_simulations=32"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--first", "c_put=1"],
            "--first c_put=1: unknown key 'c_put': did you mean 'search.c_puct'?",
        ),
        (
            ["--second", "lcb_stdev=1"],
            "--second lcb_stdev=1: unknown key 'lcb_stdev': did you mean 'lcb_stdevs'?",
        ),
        (
            ["--both", "search.c_puct=-1"],
            "--both search.c_puct=-1: Input should be greater than 0",
        ),
        (["--first", "lcb_stdevs=wide"], "--first lcb_stdevs=wide: give a number"),
        (["--first", "c_puct"], "--first c_puct: give KEY=VALUE, such as search.c_puct=2"),
        (
            ["--opening-plies", "9"],
            "--opening-plies = 9: every game of tic_tac_toe is over after that many plies; "
            "choose fewer",
        ),
    ],
)
def test_a_mistake_in_a_search_is_one_line(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as error:
        report.run_main(lambda: search_match.main(["tic_tac_toe", *options]))
    assert error.value.code == 2
    assert capsys.readouterr().err == f"bench: {message}\n"


def test_searches_take_the_settings_of_client_searches(
    capsys: pytest.CaptureFixture[str],
) -> None:
    own = ["--second", "lcb_stdevs=5", "--second", "c_puct_stdev_scale=0.85"]
    small = ["--games", "2", "--simulations", "4", *own]
    _, second = here(search_match.main, capsys, "tic_tac_toe", *small, lengths=["--json"])
    assert second["settings"] == ["lcb_stdevs=5", "c_puct_stdev_scale=0.85"]


@pytest.mark.parametrize("main", [search_match.main, export.main])
def test_only_benchmarks_in_blocks_have_their_options(
    main: Callable[[Sequence[str]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    printed = capsys.readouterr().out
    assert "--json" in printed
    assert "--blocks" not in printed
    assert "--seconds" not in printed


def test_rules(capsys: pytest.CaptureFixture[str]) -> None:
    rows = here(rules.main, capsys, "tic_tac_toe", "--games", "2")
    assert [row["operation"] for row in rows] == list(rules.COUNTED)
    assert_sane(rows, "per_cpu_second", "nanoseconds")


@pytest.mark.slow
def test_replay(capsys: pytest.CaptureFixture[str]) -> None:
    rows = here(replay.main, capsys, "connect_four", "--games", "20", "--batch", "16")
    assert [row["path"] for row in rows] == ["load", "sample"]
    assert_sane(rows, "positions_per_cpu_second", "positions_per_second")
    assert_sane(
        rows[:1], "rows_per_cpu_second", "rows_per_second", "games_per_second", "postgres_cpu_share"
    )
    assert (
        rows[0]["rows_per_second"] > rows[0]["positions_per_second"]
    )  # fast searches count as rows as well
    assert len(figures(rows)) == 2


@pytest.mark.fleet
def test_store(capsys: pytest.CaptureFixture[str]) -> None:
    rows = here(store.main, capsys, "--game", "tic_tac_toe", "--workers", "1", "2")
    assert [row["workers"] for row in rows] == [1, 2]
    assert_sane(rows, "games_per_second", "positions_per_second", "positions_per_cpu_second")
    assert_sane(rows, "worker_us_per_position", "postgres_us_per_position", "bytes_per_position")
    assert len(figures(rows)) == 1


@pytest.mark.slow
def test_export(capsys: pytest.CaptureFixture[str]) -> None:
    formats = ["--formats", "csv", "npz --planes"]
    small = ["--game", "tic_tac_toe", "--games", "9"]
    rows = here(export.main, capsys, *small, *formats, lengths=["--json"])
    assert [row["format"] for row in rows] == formats[1:]
    assert_sane(rows, "positions", "positions_per_second", "positions_per_cpu_second", "megabytes")


@pytest.mark.fleet
def test_retention(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--game", "tic_tac_toe", "--positions", "3000", "--days", "3"]
    rows = here(retention.main, capsys, *small)
    assert len(rows) == 3
    assert_sane(rows, "submissions", "median_submission_ms", "longest_submission_ms")
    assert_sane(rows, "bytes_per_position", "game_bytes_per_position", "positions")
    assert rows[1]["drops"] == 1
    assert_sane(rows[1:2], "longest_drop_ms", "attempts", "megabytes_before", "megabytes_after")


@pytest.mark.slow
def test_train(capsys: pytest.CaptureFixture[str]) -> None:
    rows = here(train.main, capsys, "connect_four", "--games", "8", "--batch", "4")
    assert [row["path"] for row in rows] == ["bare", "learner", "trainer"]
    assert_sane(
        rows, "samples_per_second", "samples_per_cpu_second", "ratio_to_bare", "steps_per_second"
    )
    assert rows[0]["ratio_to_bare"] == 1
    assert len(figures(rows)) == 2


@pytest.mark.parametrize("command", suite.COMMANDS)
def test_the_suite_asks_for_what_there_is(command: str) -> None:
    module, *arguments = command.split()
    options = import_module(f"bench.{module}").parse([*arguments, *SHORT])
    assert options.json
    assert options.seconds == 0.05


@pytest.mark.slow
def test_the_suite_keeps_every_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "rows.jsonl"
    monkeypatch.setenv("BENCH_OUT", str(out))
    assert suite.main(["--only", "rules", "--seconds", "0.02", "--blocks", "1"]) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    games = {(row["bench"], row["game"]) for row in rows}
    assert games == {("rules", "connect_four"), ("rules", "go9")}
    assert "measured" in capsys.readouterr().out


def test_the_suite_tells_of_a_benchmark_that_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(suite, "COMMANDS", ("rules no_such_game",))
    assert suite.main([]) == 1
    assert "failed: python -m bench.rules no_such_game" in capsys.readouterr().err


def test_an_unknown_game_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as error:
        tree.main(["connect4"])
    assert error.value.code == 2
    assert "unknown game 'connect4'; did you mean 'connect_four'?" in capsys.readouterr().err


@pytest.mark.parametrize("seconds", ["0", "-1", "soon"])
def test_a_block_takes_time(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        rules.main(["connect_four", "--seconds", seconds])
    assert seconds in capsys.readouterr().err


def test_a_model_file_that_is_missing_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "model.onnx"

    def read() -> None:
        model_bytes(WORKLOADS["tic_tac_toe"], "fp32", missing)

    with pytest.raises(SystemExit) as error:
        report.run_main(read)
    assert error.value.code == 2
    assert capsys.readouterr().err == (
        f"bench: cannot read the model file {missing}: No such file or directory\n"
    )


@pytest.mark.slow
def test_int8_is_another_model_that_runs() -> None:
    workload = WORKLOADS["tic_tac_toe"]
    fp32, int8 = (model_bytes(workload, precision) for precision in ("fp32", "int8"))
    positions = random_positions(workload.game, 64, seed=9)
    exact, near = (ModelSession(model, workload.spec).run(positions)[1] for model in (fp32, int8))
    assert not np.array_equal(exact, near)
    assert np.abs(exact - near).max() < 0.2


def test_games_are_played_to_their_ends_by_full_and_fast_searches() -> None:
    records = played_games(WORKLOADS["connect_four"], 12, seed=1)
    assert len(records) == 12
    assert all(State(r.game, r.columns.action.tolist()).is_terminal for r in records)
    full = np.concatenate([record.columns.full_search for record in records])
    assert 0 < full.sum() < len(full)


@pytest.mark.fleet
@pytest.mark.timeout(1800)
def test_the_loop(tmp_path: Path) -> None:
    run_file = tmp_path / "run.toml"
    run_file.write_text(
        'name = "small"\ngame = "tic_tac_toe"\n'
        "[network]\nblocks = 1\nchannels = 8\n"
        "[selfplay]\ngames_per_engine = 16\n"
        "[trainer]\nbatch_size = 32\nmin_positions = 200\npublish_every_steps = 20\n"
    )
    command = ["bench.loop", str(run_file), "--seconds", "5", "--provider", "cpu", "--json"]
    process = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    row = json.loads(process.stdout)
    assert (row["run"], row["provider"]) == ("small", "cpu")
    assert_sane([row], "alone_predictions_per_second", "alone_steps_per_second")
    assert_sane([row], "serial_share", "cores_of_inference", "cores_of_trainer")
    assert row["gpu_busy"] is None or 0 <= row["gpu_busy"] <= 1
