"""The instrument for strength: one seed gives one run, however many learn beside it."""

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import strength
from bench.accelerations import PARTS, VARIANTS
from bench.learning_loop import LearningLoop
from bench.strength_games import play_anchors, play_pairs
from bench.strength_options import Budget, parse
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
)


def arguments(*more: str) -> list[str]:
    return ["runs/tictactoe.toml", *(f"--set={each}" for each in SMALL), *more]


def learnt(rows: Sequence[dict[str, Any]], variant: str) -> list[dict[str, Any]]:
    """A variant's rows without what another run may differ in."""
    return [
        {key: value for key, value in row.items() if key != "variant" and "cpu" not in key}
        for row in rows
        if row["variant"] == variant
    ]


def test_one_seed_gives_one_run_whoever_learns_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.jsonl"
    same = "search.c_puct=1.5"
    other = "search.c_puct=3,trainer.opponent_policy_weight=0.15"
    strength.main(
        arguments(
            "--steps=25", "--simulations=2", f"--output={file}", "--compare", "-", same, other
        )
    )
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    mine = learnt(rows, "-")
    assert [(row["model"], row["steps"], row["samples"]) for row in mine] == [
        (1, 0, 0),
        (2, 10, 320),
        (3, 20, 640),
        (4, 30, 960),  # what is paid for when the budget ends is trained
    ]
    assert mine == learnt(rows, same)
    assert mine[-1] != learnt(rows, other)[-1]
    first, last = mine[0], mine[-1]
    assert last["learning_rate"] == pytest.approx(first["learning_rate"] / 20)
    assert last["positions"] * 8 >= last["samples"]
    assert 0 < last["distinct"] <= 1
    assert 5 <= last["length"] <= 9
    assert 0 < last["target_entropy"] < last["prior_entropy"] < np.log(9)
    assert 0 <= last["lines@2"] <= 1
    said = capsys.readouterr().out
    assert "% +0.00" in said


def test_a_budget_ends_a_loop_by_what_is_used_up_first() -> None:
    run = run_from_values({"name": "budget", "game": "tic_tac_toe", "preset": "plain"})
    loop = LearningLoop(run, "fp32")
    assert Budget(evaluations=1000).share(loop) == 0
    loop.turn()
    assert Budget(evaluations=1000).share(loop) == loop.evaluations / 1000 > 0
    assert Budget(evaluations=1000, games=1, steps=1).share(loop) == loop.evaluations / 1000
    assert Budget(cpu_seconds=1e-3).share(loop) == loop.cpu_seconds / 1e-3 > 1


async def test_a_match_counts_the_points_of_the_first_of_two_networks() -> None:
    settings = ("network.channels=16", "trainer.batch_size=128", "exam.num_simulations=2")
    options = [f"--set={each}" for each in (*SMALL, *settings)]
    (run,) = parse(None, ["runs/tictactoe.toml", *options, "--steps=1"]).runs.values()
    loop = LearningLoop(run, "fp32")
    untrained = loop.model
    while loop.learner.step < 200:
        loop.turn()

    scores = await play_pairs(run, (loop.model, untrained), games=60)
    others = await play_pairs(run, (untrained, loop.model), games=60)

    assert len(scores) == 30
    assert scores.mean() > 0.6
    assert others == pytest.approx(1 - scores)


async def test_anchors_play_the_last_model() -> None:
    """The program answers over GTP, each of its games in a process of its own."""
    options = [f"--set={each}" for each in (*SMALL, "exam.num_simulations=2")]
    (run,) = parse(None, ["runs/tictactoe.toml", *options, "--steps=1"]).runs.values()
    program = Path(__file__).with_name("outside_program.py")
    names = ["random", f"gtp:{shlex.join([sys.executable, str(program), 'plays'])}"]
    found = await play_anchors(run, LearningLoop(run, "fp32").model, names, games=4)
    assert [each["anchor"] for each in found["anchors"]] == names
    for each in found["anchors"]:
        assert each["wins"] + each["draws"] + each["losses"] == each["games"] == 4
        assert each["forfeits"] == 0


def test_a_difference_is_paired_over_positions() -> None:
    """The same errors in other positions are more uncertain than one error less."""
    one_less = np.zeros((1, 100))
    one_less[0, 7] = -1
    assert strength.paired_difference(one_less) == pytest.approx((-0.01, 0.01))
    others = np.zeros((2, 100))
    others[:, :10], others[:, 10:20] = 1, -1
    assert strength.paired_difference(others) == pytest.approx((0, np.sqrt(20 / 99) / 10))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["tic_tac_to", "--steps=1"], "tic_tac_to is no run file"),
        (["runs/tictacto.toml", "--steps=1"], "did you mean runs/tictactoe.toml"),
        (arguments("--steps=1", "--set", "search.c_puct"), "give KEY=VALUE"),
        (arguments("--steps=1", "--set", "search.c_putt=2"), "search.c_putt = 2: Extra inputs"),
        (arguments("--steps=1", "--compare", "search.c_puct=-1"), "search.c_puct = -1"),
        (arguments("--steps=1", "--compare", "-", "runs/go9.toml"), "must be of one game"),
        (arguments("--steps=1", "--perfect-play=1"), "not for tic_tac_toe: leave it out"),
        (arguments("--steps=1", "--gnugo=2"), "GNU Go does not play tic_tac_toe"),
        (arguments("--steps=1", "--anchor", "gnugo"), "--anchor: 'gnugo' is not an anchor"),
        (arguments("--steps=1", "--anchor", "uci:a"), "UCI programs play chess, not tic_tac_toe"),
        (arguments("--steps=1", "--anchor", "gtp:nowhere -x"), "nowhere is not on PATH"),
    ],
)
def test_what_cannot_be_is_refused(given: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parse(None, given)


def test_a_variant_is_made_of_its_settings() -> None:
    options = parse(
        None,
        [
            *arguments("--steps=1", "--compare"),
            "trainer.learning_rate=[0.1,0.01],trainer.learning_rate_steps=[5],search.root=gumbel",
            "runs/tictactoe.toml",
        ],
    )
    _, first, second = options.runs.values()
    assert first.trainer.learning_rate == (0.1, 0.01)
    assert (first.search.root, first.search.num_simulations) == ("gumbel", 12)
    assert (second.trainer.optimizer, second.network.blocks) == ("sgd", 1)


@pytest.mark.parametrize(
    ("given", "compared"),
    [(["preset=plain"], ["-", "preset=plain"]), (["preset=plain", "-"], ["preset=plain", "-"])],
)
def test_the_run_itself_is_always_compared(given: list[str], compared: list[str]) -> None:
    assert [*parse(None, ["connect_four", "--steps=1", "--compare", *given]).runs] == compared


def test_a_preset_fills_in_what_a_game_leaves_open() -> None:
    """A run's own settings override its preset, so a game alone must not set everything."""
    runs = parse(None, ["connect_four", "--steps=1", "--compare", "-", "preset=plain"]).runs
    first, plain = runs.values()
    assert first.search.prove_results
    assert not plain.search.prove_results


def test_all_variants_sit_the_first_ones_exam(monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[tuple[float, int]] = []

    async def noted(run: RunConfig, *_: object) -> tuple[dict[str, float], dict[str, Any]]:
        searches.append((run.search.c_puct, run.seed))
        return {}, {}

    monkeypatch.setattr(strength, "exam_figures", noted)
    strength.main(arguments("--steps=1", "--seed", "4", "--compare", "-", "search.c_puct=3"))
    assert len(searches) >= 4  # the first and the last model of each
    assert set(searches) == {(1.5, 4)}


def test_parts_of_the_defaults_are_taken_off_and_put_on() -> None:
    learning = {
        f"{section}.{key}"
        for section in ("search", "selfplay", "resign", "network", "trainer")
        for key in PRESETS["plain"][section]
    }
    learning.remove("selfplay.max_ahead_positions")  # nothing is ahead in one process
    learning.add("trainer.learning_rate_steps")  # that fit the one rate
    assert {key for keys in PARTS.values() for key in keys} == learning
    for game in ("connect_four", "go9", "othello", "tictactoe"):
        runs = parse(None, [f"runs/{game}.toml", "--steps=1", "--variants", *VARIANTS]).runs
        run, plain = runs["run"], runs["plain"]
        assert not plain.search.prove_results
        assert plain.trainer.value_lambda == 1
        for base, other, proves in ((run, "no", False), (plain, "only", True)):
            expected = base.model_dump()
            expected["search"] |= {"prove_results": proves, "decisive_moves": proves}
            assert runs[f"{other} proven results"].model_dump() == expected


def test_parts_are_taken_off_a_run_whose_rate_has_steps() -> None:
    runs = parse(None, ["runs/go19.toml", "--steps=1", "--variants", *VARIANTS]).runs
    assert runs["run"].trainer.learning_rate_steps
    assert not runs["plain"].trainer.learning_rate_steps
