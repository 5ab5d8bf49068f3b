"""Comparisons of runs: reproducible trainings, differences computed by hand, resumed folders."""

import contextlib
import fcntl
import hashlib
import io
import json
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

from bench.accelerations import PARTS, VARIANTS, settings_of
from zerofleet.cli.compare import SeveralValues
from zerofleet.comparison import trainings
from zerofleet.comparison.__main__ import JobFailedError, compare
from zerofleet.comparison.compared_runs import Budget, Comparison, ComparisonRequest
from zerofleet.comparison.comparison_folder import ComparisonFolder, ExamAnswers, FinishedTraining
from zerofleet.comparison.comparison_page import page_of
from zerofleet.comparison.comparison_result import (
    match_result,
    mean_error,
    paired_difference,
    results_of,
    table_rows,
)
from zerofleet.comparison.learning_loop import LearningLoop
from zerofleet.comparison.whole_games import play_anchors, play_pairs
from zerofleet.config import RunConfig, run_from_values
from zerofleet.config.presets import PRESETS
from zerofleet.errors import ConfigError

SMALL = (
    "network.blocks=1",
    "network.channels=8",
    "trainer.batch_size=32",
    "trainer.min_positions=200",
    "trainer.publish_every_steps=10",
    "trainer.average_every_steps=5",
    "trainer.warmup_samples=0",
    "trainer.budget_minutes=5",
    "search.num_simulations=12",
    "selfplay.games_per_engine=64",
    "exam.num_simulations=2",
)
OPPONENT = Path(__file__).with_name("outside_program.py")


def request(folder: Path, *settings: str, **more: Any) -> ComparisonRequest:
    """Return a request for a comparison of a few seconds, on tic-tac-toe."""
    given: dict[str, Any] = {
        "runs": ["tictactoe"],
        "common": SMALL,
        "settings": settings,
        "steps": 12,
        "seeds": (1,),
        "precision": "fp32",
        "simulations": (2,),
        "exams": 1,
        "match": 4,
        "output": str(folder / "out"),
    }
    return ComparisonRequest(**given | more)


def small_run(*settings: str) -> RunConfig:
    return Comparison.of(request(Path(), common=(*SMALL, *settings))).first


def learnt(results: dict[str, Any], run: str) -> list[dict[str, Any]]:
    """Return a training's rows without CPU-seconds, in which another run may differ."""
    [training] = [each for each in results["trainings"] if each["run"] == run]
    return [
        {key: value for key, value in row.items() if "cpu" not in key} for row in training["rows"]
    ]


def test_one_seed_gives_one_run_whoever_learns_in_turns_with_it(tmp_path: Path) -> None:
    same = "rating.games=2"  # has no effect on training
    other = "search.c_puct=3,trainer.opponent_policy_weight=0.15"
    results = compare(request(tmp_path, same, other, steps=25, exams=0))
    mine = learnt(results, "tictactoe")
    assert [(row["model"], row["steps"], row["samples"]) for row in mine] == [
        (1, 0, 0),
        (2, 10, 320),
        (3, 20, 640),
        (4, 30, 960),  # positions that are paid for when the budget ends are still trained on
    ]
    assert mine == learnt(results, same)
    assert mine[-1] != learnt(results, other)[-1]
    first, last = mine[0], mine[-1]
    assert last["learning_rate"] == pytest.approx(first["learning_rate"] / 20)
    assert last["positions"] * 8 >= last["samples"]
    assert 0 < last["distinct"] <= 1
    assert 5 <= last["length"] <= 9
    assert 0 < last["target_entropy"] < last["prior_entropy"] < np.log(9)
    assert last["policy_loss"] > 0
    assert "lines@2" not in first
    assert 0 <= last["lines@2"] <= 1
    [row] = [row for row in results["exam"] if row["run"] == same]
    assert (row["difference"], row["reading"]) == (0, "one seed")
    assert set(results["differences"]) == {
        "rating.games",
        "search.c_puct",
        "trainer.opponent_policy_weight",
    }


def test_a_budget_ends_a_loop_by_what_is_used_up_first() -> None:
    run = run_from_values({"name": "budget", "game": "tic_tac_toe", "preset": "plain"})
    loop = LearningLoop(run, "fp32")
    assert Budget(evaluations=1000).share(loop) == 0
    loop.turn()
    assert Budget(evaluations=1000).share(loop) == loop.evaluations / 1000 > 0
    assert Budget(evaluations=1000, games=1, steps=1).share(loop) == loop.evaluations / 1000
    assert Budget(cpu_seconds=1e-3).share(loop) == loop.cpu_seconds / 1e-3 > 1
    assert set(loop.cpu) == {"play", "train", "export"}
    assert loop.cpu["export"] > 0


async def test_a_match_counts_the_points_of_the_first_of_two_networks() -> None:
    run = small_run("network.channels=16", "trainer.batch_size=128")
    loop = LearningLoop(run, "fp32")
    untrained = loop.model
    while loop.learner.step < 200:
        loop.turn()

    scores = np.array(await play_pairs(run, (loop.model, untrained), games=60))
    others = np.array(await play_pairs(run, (untrained, loop.model), games=60))

    assert scores.shape == (30, 2)
    assert scores.mean() > 0.6
    assert others.mean(axis=1) == pytest.approx(1 - scores.mean(axis=1))


async def test_anchors_play_the_last_model() -> None:
    """The program answers over GTP, and each game has a process of its own."""
    run = small_run()
    names = ["random", f"gtp:{shlex.join([sys.executable, str(OPPONENT), 'plays'])}"]
    found = await play_anchors(run, LearningLoop(run, "fp32").model, names, games=4)
    assert [each["opponent"] for each in found] == names
    for each in found:
        assert each["wins"] + each["draws"] + each["losses"] == each["games"] == 4
        assert each["forfeits"] == 0


def test_standard_errors_by_hand() -> None:
    """Four positions and two seeds: means over seeds are -1, -0.5, 0, 0.5."""
    found = paired_difference(np.array([[-1.0, -1.0, 0.0, 1.0], [-1.0, 0.0, 0.0, 0.0]]))
    assert found["difference"] == pytest.approx(-0.25)
    # deviations from -0.25: 0.75, 0.25, 0.25, 0.75; squares sum to 1.25; 1.25 / 3 / 4
    assert found["error_over_positions"] == pytest.approx(math.sqrt(1.25 / 12))
    assert found["by_seed"] == pytest.approx([-0.25, -0.25])
    assert found["error_over_seeds"] == pytest.approx(0)
    assert found["reading"] == "not clear"  # less than two errors over positions


def test_a_difference_is_paired_over_positions() -> None:
    """The same number of errors in other positions is less certain than one error fewer."""
    one_less = np.zeros((1, 100))
    one_less[0, 7] = -1
    found = paired_difference(one_less)
    assert (found["difference"], found["error_over_positions"]) == pytest.approx((-0.01, 0.01))
    assert found["error_over_seeds"] is None
    assert found["reading"] == "one seed"
    others = np.zeros((2, 100))
    others[:, :10], others[:, 10:20] = 1, -1
    found = paired_difference(others)
    assert found["difference"] == pytest.approx(0)
    assert found["error_over_positions"] == pytest.approx(np.sqrt(20 / 99) / 10)


def test_a_clear_difference_needs_two_seeds_that_agree() -> None:
    fewer = np.zeros((2, 100))
    fewer[:, :20] = -1
    assert paired_difference(fewer)["reading"] == "fewer mistakes"
    assert paired_difference(-fewer)["reading"] == "more mistakes"
    assert paired_difference(fewer[:1])["reading"] == "one seed"
    disagreeing = fewer.copy()
    disagreeing[1] *= -0.5
    assert paired_difference(disagreeing)["reading"] == "not clear"


@pytest.mark.parametrize(
    ("by_seed", "exam", "match"),
    [
        ([0.4], "one seed", "one seed"),
        # two seeds, m - h and m + h: the error is h, and 12.71 h must not exceed m
        ([0.36, 0.44], "not clear", "not clear"),  # 12.71 * 0.04 = 0.508
        ([0.37, 0.43], "more mistakes", "stronger"),  # 12.71 * 0.03 = 0.381
        # four seeds, two of each: the error is h / sqrt(3), and 3.18 h / sqrt(3) = 1.836 h
        ([0.18, 0.18, 0.62, 0.62], "not clear", "not clear"),  # 1.836 * 0.22 = 0.404
        ([0.19, 0.19, 0.61, 0.61], "more mistakes", "stronger"),  # 1.836 * 0.21 = 0.386
        # twelve seeds, six of each: the error is h / sqrt(11), and 2.23 h / sqrt(11) = 0.672 h
        ([0.01] * 6 + [0.79] * 6, "more mistakes", "stronger"),  # 0.672 * 0.39 = 0.262
    ],
)
def test_a_clear_reading_over_few_seeds_needs_students_t(
    by_seed: list[float], exam: str, match: str
) -> None:
    """A mean difference of 0.4, or of 0.2 in a match; the error over positions is small."""
    found = paired_difference(np.repeat(np.array(by_seed)[:, None], 5, axis=1))
    assert found["difference"] == pytest.approx(0.4)
    assert found["reading"] == exam
    won = [round(100 + 100 * each) for each in by_seed]  # number of 200 pairs
    scores = [[(1, 1)] * count + [(0, 0)] * (200 - count) for count in won]
    found = match_result(scores)
    assert found["difference"] == pytest.approx(0.2)
    assert found["reading"] == match


def test_a_clear_reading_over_positions_needs_1_96_errors() -> None:
    """With 3 mistakes more at n positions, the mean is sqrt(3 (n - 1) / (n - 3)) errors."""
    readings = {
        count: paired_difference(np.array([[1.0] * 3 + [0.0] * (count - 3)] * 2))["reading"]
        for count in (10, 11)
    }
    assert readings == {10: "more mistakes", 11: "not clear"}  # 1.964 and 1.936 errors


def test_the_score_of_a_match_by_hand() -> None:
    found = match_result([[(1, 1), (1, 0)], [(1, 0.5), (0, 0)]])
    assert (found["games"], found["score"]) == (8, pytest.approx(4.5 / 8))
    assert found["by_seed"] == pytest.approx([0.25, -0.125])
    assert found["error_over_seeds"] == pytest.approx(0.375 / math.sqrt(2) / math.sqrt(2))
    pairs = np.array([1, 0.5, 0.75, 0])
    assert found["error_over_positions"] == pytest.approx(pairs.std(ddof=1) / 2)
    low, high = found["interval"]
    assert 0 <= low < found["score"] < high <= 1


def test_one_value_has_no_error() -> None:
    assert mean_error([0.5]) is None
    assert mean_error([0.0, 1.0]) == pytest.approx(0.5)


def made_by_hand(run: str, seed: int, wrong: str, **played: Any) -> FinishedTraining:
    rows = [{"cpu_seconds": each, "policy_loss": 1 / (1 + each)} for each in range(3)]
    return FinishedTraining(
        run=run,
        seed=seed,
        precision="fp32",
        models=2,
        games=10,
        positions=50,
        steps=5,
        samples=160,
        evaluations=500,
        cpu={"play": 1.0, "train": 2.5, "export": 0.5},
        rows=[*rows, {"cpu_seconds": 4.0, "lines@2": wrong.count("1") / len(wrong)}],
        exam={"random@1": ExamAnswers(wrong.count("1") / len(wrong), 0.2, wrong)},
        played=played,
    )


def test_a_table_says_one_seed_where_there_is_one(tmp_path: Path) -> None:
    other = "search.c_puct=3"
    comparison = Comparison.of(request(tmp_path, other))
    first = made_by_hand("tictactoe", 1, "1100")
    mine = made_by_hand(other, 1, "1000", **{"match 4 0123456789ab": [(1.0, 0.5), (0.5, 0.5)]})
    results = results_of(comparison, [[first, mine]])
    texts = [" ".join(row) for row in table_rows(results)]
    assert any("25.00% -25.00 25.00 one seed -25.0 one seed" in text for text in texts)
    assert any("score of 4 games search.c_puct=3 62.5% +12.50" in text for text in texts)
    page = page_of(results)
    assert "nan" not in "".join([page, *texts, json.dumps(results)])
    # The page has only fragments and styles of its own: nothing is fetched.
    assert not re.search(r"https?:|src=|href=|@import|url\(", page)
    assert page.count("<svg") == 1
    assert "prefers-color-scheme: dark" in page
    assert "search.c_puct" in page


def test_names_are_text_on_the_page(tmp_path: Path) -> None:
    comparison = Comparison.of(request(tmp_path, "search.c_puct=3", match=0))
    first, mine = (made_by_hand(name, 1, "10") for name in comparison.runs)
    text = json.dumps(results_of(comparison, [[first, mine]]))
    assert "<script>" not in page_of(json.loads(text.replace("search.c_puct=3", "<script>")))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"runs": ["tic_tac_to"]}, "cannot read the run file tic_tac_to"),
        ({"runs": ["runs/tictacto.toml"]}, "did you mean runs/tictactoe.toml"),
        ({"runs": ["tictactoe", "go9"]}, "tictactoe plays tic_tac_toe, go9 plays go"),
        ({"runs": ["tictactoe", "tictactoe"]}, "tictactoe is named twice"),
        ({"settings": ["search.c_puct"]}, "--set search.c_puct: give KEY=VALUE"),
        ({"settings": ["search.c_putt=2"]}, "did you mean 'search.c_puct'"),
        ({"settings": ["search.c_puct=-1"]}, "--set search.c_puct=-1"),
        ({"settings": ["search.c_puct=1.5"]}, "have the same settings"),
        ({"seeds": [1, 2, 1]}, "--seeds names 1 twice"),
        ({"seeds": [-1]}, "--seeds: give whole numbers from 0"),
        ({"match": 7}, "--match 7: each opening is played with both colours"),
        ({"perfect_play": 1}, "leave it out for tic_tac_toe"),
        ({"gnugo": 2}, "GNU Go does not play tic_tac_toe"),
        ({"anchors": ["gnugo"]}, "--anchor: 'gnugo' is not an anchor"),
        ({"anchors": ["uci:a"]}, "UCI programs play chess, not tic_tac_toe"),
        ({"anchors": ["gtp:nowhere -x"]}, "nowhere is not on PATH"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)) as refused:
        Comparison.of(request(tmp_path, **changes))
    assert "\n" not in str(refused.value)


def test_too_small_a_budget_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="1 games are not enough for one step of training"):
        compare(request(tmp_path, steps=None, games=1))


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"cannot write .*file.out: Not a directory; give"):
        compare(request(tmp_path, output=str(tmp_path / "file" / "out")))
    with pytest.raises(ConfigError, match="holds other files"):
        compare(request(tmp_path, output=str(tmp_path)))


NETWORK = """
import torch
from torch import nn
from zerofleet.network import Network

class Raises(Network):
    def __init__(self, shapes, options):
        super().__init__(shapes)
        self.all = nn.Linear(shapes.planes * shapes.points, shapes.num_actions + 1)

    def forward(self, planes):
        if torch.is_grad_enabled() and self.training:
            raise RuntimeError("no such layer")
        found = self.all(planes.flatten(1))
        return found[:, :-1], found[:, -1].tanh()
"""


def test_a_network_that_raises_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nets_that_raise.py").write_text(NETWORK)
    monkeypatch.syspath_prepend(str(tmp_path))  # pyright: ignore
    own = "network=python:nets_that_raise:Raises"
    common = [each for each in SMALL if not each.startswith("network.")]
    says = f"{own}: python:nets_that_raise:Raises fails at step 0: RuntimeError: no such layer"
    run = tmp_path / "own.toml"
    run.write_text('name = "own"\ngame = "tic_tac_toe"\n')
    given = request(tmp_path, own, common=common, runs=[str(run)])
    with pytest.raises(ConfigError, match=re.escape(says)):
        compare(given)
    identity = Comparison.of(given).identity()
    (tmp_path / "nets_that_raise.py").write_text(f"{NETWORK}\n# mended\n")
    assert Comparison.of(given).identity() != identity


def test_a_variant_is_made_of_its_settings(tmp_path: Path) -> None:
    settings = "trainer.learning_rate=[0.1,0.01],trainer.learning_rate_steps=[5],search.root=puct"
    runs = Comparison.of(request(tmp_path, settings)).runs
    first, second = runs["tictactoe"], runs[settings]
    assert second.trainer.learning_rate == (0.1, 0.01)
    assert (second.search.root, second.search.num_simulations) == ("puct", 12)
    assert (first.search.root, first.network.blocks) == ("gumbel", 1)


def test_a_preset_fills_in_what_a_run_file_leaves_open(tmp_path: Path) -> None:
    run = tmp_path / "game.toml"
    run.write_text('name = "game"\ngame = "connect_four"\n')
    first, plain = Comparison.of(
        request(tmp_path, "preset=plain", runs=[str(run)], common=())
    ).runs.values()
    assert first.search.prove_results
    assert not plain.search.prove_results


def test_run_files_of_one_name_keep_their_folders(tmp_path: Path) -> None:
    for folder, channels in (("a", 8), ("b", 16)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "run.toml").write_text(
            f'name = "r"\ngame = "tic_tac_toe"\nnetwork = {{channels = {channels}}}\n'
        )
    files = [str(tmp_path / folder / "run.toml") for folder in "ab"]
    comparison = Comparison.of(request(tmp_path, runs=files, common=()))
    assert list(comparison.runs) == [each.removesuffix(".toml") for each in files]
    assert list(comparison.differences()) == ["network.channels"]


def test_all_runs_take_the_first_ones_exam(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[tuple[float, int]] = []

    async def noted(run: RunConfig, *_: object) -> dict[str, ExamAnswers]:
        searches.append((run.search.c_puct, run.seed))
        return {}

    monkeypatch.setattr(trainings, "exam_answers", noted)
    compare(request(tmp_path, "search.c_puct=3", seeds=(4,), steps=1, match=0))
    assert len(searches) == 4  # the first and the last model of each run
    assert set(searches) == {(1.5, 4)}


PLAYER = """
from zerofleet.own_player import OwnPlayer

class First(OwnPlayer):
    def choose(self, state, actions):
        return state.legal_actions()[0]
"""


def test_games_against_an_opponent_that_was_replaced_are_played_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder has models, but the games are made up."""
    played: list[str] = []

    async def pairs(*_: object) -> list[tuple[float, float]]:
        played.append("match")
        return [(float(len(played)), 0.0)]

    async def anchors(*_: object, names: list[str], games: int) -> list[dict[str, Any]]:
        played.append(names[0])
        return [{"opponent": names[0], "games": games, "wins": len(played), "draws": 0}]

    monkeypatch.setattr(trainings, "play_pairs", pairs)
    monkeypatch.setattr(trainings, "play_anchors", anchors)
    monkeypatch.setattr(trainings.Trainings, "_model", lambda *_: None)  # pyright: ignore
    monkeypatch.syspath_prepend(str(tmp_path))  # pyright: ignore
    player, name = tmp_path / "player_of_compare.py", "python:player_of_compare:First"
    player.write_text(PLAYER)
    other = "search.c_puct=3"
    comparison = Comparison.of(request(tmp_path, other, anchors=(name,), anchor_games=2))
    with ComparisonFolder(comparison) as folder:

        def go() -> dict[str, Any]:
            played.clear()
            [[_, mine]] = trainings.Trainings(comparison, folder, io.StringIO()).go()
            return mine.played

        folder.keep(made_by_hand("tictactoe", 1, "10"), b"first")
        folder.keep(made_by_hand(other, 1, "10", **{"match 4": [(0, 0)]}), b"second")
        before = go()
        assert played == [name, "match", name]
        assert list(before) == [
            f"match 4 {hashlib.sha256(b'first').hexdigest()[:12]}",
            f"{name} 2 {hashlib.blake2b(PLAYER.encode(), digest_size=8).hexdigest()}",
        ]
        assert list(go()) == list(before)
        assert not played

        folder.keep(made_by_hand("tictactoe", 1, "10"), b"trained again")
        after = go()
        assert played == [name, "match"]  # the first run's own games were deleted with its training
        assert len(after) == 2
        assert f"match 4 {hashlib.sha256(b'trained again').hexdigest()[:12]}" in after

        player.write_text(f"{PLAYER}# mended\n")
        mended = go()
        assert played == [name, name]
        assert len(mended) == 2
        assert set(mended) & set(after) == {key for key in after if key.startswith("match")}


def test_parts_of_the_defaults_are_taken_off_and_put_on(tmp_path: Path) -> None:
    learning = {
        f"{section}.{key}"
        for section in ("search", "selfplay", "resign", "network", "trainer")
        for key in PRESETS["plain"][section]
    }
    learning.remove("selfplay.max_ahead_positions")  # one process needs no limit
    learning.add("trainer.learning_rate_steps")  # the steps fit the single rate
    assert {key for keys in PARTS.values() for key in keys} == learning
    names = ["plain", "no proven results", "only proven results"]
    settings = [settings_of(name) for name in names]
    for game in ("connect_four", "go9", "othello", "tictactoe"):
        wanted = request(tmp_path, *settings, runs=[game], common=())
        run, plain, without, alone = Comparison.of(wanted).runs.values()
        assert not plain.search.prove_results
        assert plain.trainer.value_lambda == 1
        for base, other, proves in ((run, without, False), (plain, alone, True)):
            expected = base.model_dump()
            expected["search"] |= {"prove_results": proves, "decisive_moves": proves}
            assert other.model_dump() == expected
    assert len({settings_of(name) for name in VARIANTS}) == len(VARIANTS)


def test_an_option_takes_several_numbers() -> None:
    def repeated(text: str) -> str:
        return " ".join(SeveralValues("compare")._repeated(text.split()))

    assert repeated("a b --seeds 1 2 3") == "a b --seeds 1 --seeds 2 --seeds 3"
    assert repeated("--seeds 1 2 a --match 6") == "--seeds 1 --seeds 2 a --match 6"
    assert repeated("a --simulations 1 100 --seeds 4 --json") == (
        "a --simulations 1 --simulations 100 --seeds 4 --json"
    )
    assert repeated("a --match 6 7") == "a --match 6 7"


def started(folder: Path, **more: Any) -> subprocess.Popen[str]:
    """Start the command on a folder, in a process of its own."""
    given = request(folder, "search.c_puct=3", **more)
    options = [f"--set={each}" for each in given.settings]
    options += [f"--set-all={each}" for each in given.common]
    options += [f"--match={given.match}", f"--exams={given.exams}", f"--output={given.output}"]
    options += [f"--cpu-seconds={given.cpu_seconds}", f"--precision={given.precision}"]
    options.append(f"--jobs={given.jobs}")
    options += ["--simulations", *map(str, given.simulations), "--seeds", *map(str, given.seeds)]
    command = [sys.executable, "-m", "zerofleet.cli", "compare", *given.runs, *options]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, process_group=0)


@pytest.mark.slow
def test_a_killed_comparison_resumes_with_what_was_finished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    budget: dict[str, Any] = {"steps": None, "cpu_seconds": 1.0}
    folder = tmp_path / "out"
    with started(tmp_path, seeds=(1, 2), **budget) as killed:
        assert killed.stderr is not None
        line = ""
        while "seed 2 (2 of 2)" not in line:
            line = killed.stderr.readline()
            assert line, "it ended before seed 2"
        killed.send_signal(signal.SIGKILL)
    # The two trainings of seed 1, and the ones of seed 2 that ended before the signal.
    finished = {path.stem for path in folder.glob("*-seed-*.json")}
    assert 2 <= len(finished) < 4
    files = {path: path.read_bytes() for each in finished for path in folder.glob(f"{each}.*")}
    assert len(files) == 2 * len(finished)  # each has a model and figures

    compare(request(tmp_path, "search.c_puct=3", seeds=(1, 2), as_json=True, **budget))
    printed = capsys.readouterr()
    assert f"{len(finished)} of them are finished" in printed.err
    assert {path: path.read_bytes() for path in files} == files
    results = json.loads(printed.out)
    assert results == json.loads((folder / "results.json").read_text())
    assert results["runs"] == ["tictactoe", "search.c_puct=3"]
    [_, row] = results["exam"]
    assert len(row["by_seed"]) == 2
    assert row["error_over_positions"] is None  # the exam covers all lines of play
    assert row["error_over_seeds"] is not None
    assert results["match"][0]["games"] == 8
    assert (folder / "comparison.html").read_text().startswith("<!DOCTYPE html>")

    compare(request(tmp_path, "search.c_puct=3", seeds=(2,), **budget))
    assert "one seed" in capsys.readouterr().out
    says = f"{folder} holds another comparison (budget.cpu_seconds is 1.0, not 2.0): give another"
    with pytest.raises(ConfigError, match=re.escape(says)):
        compare(request(tmp_path, "search.c_puct=3", steps=None, cpu_seconds=2.0))
    says = "holds another comparison (it compares tictactoe and search.c_puct=3, not tictactoe and"
    with pytest.raises(ConfigError, match=re.escape(says)):
        compare(request(tmp_path, "search.c_puct=2", **budget))


@pytest.mark.slow
def test_ctrl_c_leaves_what_is_finished(tmp_path: Path) -> None:
    with started(tmp_path, steps=None, cpu_seconds=600.0) as stopped:
        assert stopped.stderr is not None
        while "seed 1" not in (line := stopped.stderr.readline()):
            assert line
        stopped.send_signal(signal.SIGINT)
        rest = stopped.stderr.read()
    assert stopped.returncode == 130
    assert "trainings are finished, in" in rest
    assert "Traceback" not in rest


@pytest.mark.slow
def test_seeds_learn_the_same_at_once_as_in_turns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = "search.c_puct=3"
    given: dict[str, Any] = {"seeds": (1, 2), "match": 2}
    at_once = compare(request(tmp_path, changed, output=str(tmp_path / "two"), jobs=2, **given))
    printed = capsys.readouterr()
    assert "(seeds 1 and 2), 2 seeds at once" in printed.err
    for line in ("seed 1: tictactoe finished with", f"seed 2: {changed} plays: match 2 games"):
        assert line in printed.err
    in_turns = compare(request(tmp_path, changed, **given))
    for results in (at_once, in_turns):
        for training in results["trainings"]:
            training["rows"] = [
                {key: value for key, value in row.items() if "cpu" not in key}
                for row in training["rows"]
            ]
            del training["cpu"]
    for part in ("trainings", "exam", "match"):
        assert at_once[part] == in_turns[part], part


@pytest.mark.slow
def test_a_seed_that_fails_at_once_with_others_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = request(tmp_path, "search.c_puct=3", seeds=(1, 2), jobs=2)
    folder = tmp_path / "out"
    with pytest.raises(JobFailedError, match=f"^seeds 1 and 2 failed; .* in {folder}") as refused:
        compare(replace(wanted, steps=None, games=1))
    assert refused.value.exit_code == ConfigError.exit_code
    assert "zerofleet: tictactoe: 1 games are not enough" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("how", ["SIGTERM", "Ctrl-C", "SIGKILL"])
def test_all_seeds_stop_with_the_command(tmp_path: Path, how: str) -> None:
    given: dict[str, Any] = {"steps": None, "cpu_seconds": 600.0, "seeds": (1, 2, 3), "jobs": 2}
    with started(tmp_path, **given) as stopped:
        assert stopped.stderr is not None
        lines = ""
        while not ("seed 1:" in lines and "seed 2:" in lines):
            line = stopped.stderr.readline()
            assert line, lines
            lines += line
        if how == "Ctrl-C":  # reaches every process of the terminal's foreground group
            os.killpg(stopped.pid, signal.SIGINT)
        else:
            stopped.send_signal(signal.Signals[how])
        rest = stopped.stderr.read()
    assert "Traceback" not in rest
    if how == "SIGKILL":  # the seeds notice that their parent is gone
        assert stopped.returncode == -signal.SIGKILL
        lock = Path(request(tmp_path, **given).output or "") / "lock"
        deadline = time.monotonic() + 60
        with lock.open("w") as file:
            while True:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return
                assert time.monotonic() < deadline
                time.sleep(0.2)
    assert stopped.returncode == 130
    assert "stopped: 0 of 6 trainings are finished" in rest
    with ComparisonFolder(Comparison.of(request(tmp_path, "search.c_puct=3", **given))):
        pass  # no process holds its lock


def test_two_processes_do_not_share_a_folder(tmp_path: Path) -> None:
    comparison = Comparison.of(request(tmp_path, "search.c_puct=3"))
    with (
        ComparisonFolder(comparison),
        pytest.raises(ConfigError, match="is in use by another `zerofleet compare`"),
        ComparisonFolder(comparison),
    ):
        pass


def test_a_folder_that_another_process_takes_just_before_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other comparison comes and goes after this one has opened the folder."""
    mine, other = (Comparison.of(request(tmp_path, f"search.c_puct={each}")) for each in (2, 3))

    def late(lock: IO[str], operation: int) -> None:
        monkeypatch.undo()
        with ComparisonFolder(other):
            pass
        fcntl.flock(lock, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with pytest.raises(ConfigError, match="holds another comparison"), ComparisonFolder(mine):
        pass
    with ComparisonFolder(other):  # neither locked nor overwritten
        pass


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    comparison = Comparison.of(request(tmp_path, "search.c_puct=3"))
    with ComparisonFolder(comparison) as folder:
        training = made_by_hand("tictactoe", 1, "10")
        folder.keep(training, b"model")
        assert folder.training("tictactoe", 1) == training
        assert folder.model(training) == b"model"
        [path] = folder.path.glob("*-seed-1.json")
        path.write_text("{")
        with pytest.raises(ConfigError, match=re.escape(f"{path} is damaged: delete it")):
            folder.training("tictactoe", 1)
