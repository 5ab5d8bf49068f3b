"""Text and marks of charts next to their lines."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from zerofleet.services.dashboard.charts import (
    BLUE,
    ChartAxis,
    ChartLine,
    Drawing,
    frame_options,
)
from zerofleet.services.dashboard.run_page import RunDrawings, TimeScale
from zerofleet.services.dashboard.run_queries import GameBlock, RunCurves
from zerofleet.services.dashboard.runs_page import OverlaidRun, RunsDrawings

BEGAN = datetime(2026, 5, 1, tzinfo=UTC)


def rated(version: int, elo: float, error: float) -> Any:
    at = BEGAN + timedelta(minutes=version)
    return SimpleNamespace(version=version, at=at, promoted_at=at, elo=elo, elo_error=error)


def block(minutes: float) -> GameBlock:
    return GameBlock(100, BEGAN + timedelta(minutes=minutes), 1.0, 50, 0, 0, 9.0, 7.0, 11.0)


def test_levels_too_close_for_two_labels_share_one_and_none_is_left_out() -> None:
    levels = {"search": -495.0, "random": -480.0, "gnugo:1": 500.0}
    line = ChartLine("promoted models", [(0.0, 0.0), (1.0, 100.0)], "#2f6db3")
    axis = ChartAxis(least=-500.0, most=700.0)

    marks = Drawing([line], ChartAxis(), axis, levels=levels).options()["series"][0]["markLine"]

    written = {mark["yAxis"]: mark["name"] for mark in marks["data"] if mark["label"]["show"]}
    assert written == {500.0: "gnugo:1", -480.0: "random, search"}
    assert [mark["yAxis"] for mark in marks["data"]] == [500.0, -480.0, -495.0]


def test_the_levels_of_a_chart_are_named_in_words() -> None:
    trained = cast("Any", [SimpleNamespace(at=BEGAN, samples_per_position=3.0)])
    drawing = RunDrawings(RunCurves(trained=trained)).reuse(4.0)
    assert drawing.levels == {"limit: 4": 4.0}
    [level] = drawing.options()["series"][0]["markLine"]["data"]
    assert level["label"]["position"] == "insideEndBottom"  # above it is the name of the axis


@pytest.mark.parametrize(
    ("names", "width", "kind", "lines"),
    [
        (("training", "validation"), 1_000, "plain", 1),
        (("training", "validation"), 260, "plain", 1),
        (("entropy, network", "entropy, search", "KL(search || network)"), 1_000, "plain", 1),
        (("entropy, network", "entropy, search", "KL(search || network)"), 450, "plain", 2),
        (("entropy, network", "entropy, search", "KL(search || network)"), 260, "plain", 3),
        ([f"a loss of your own {number}" for number in range(12)], 260, "scroll", 1),
    ],
)
def test_a_legend_of_a_few_lines_is_shown_in_full(
    names: list[str], width: int, kind: str, lines: int
) -> None:
    options = frame_options(names)
    applied: Any = None
    for each in options["media"]:
        if width <= each.get("query", {}).get("maxWidth", width):
            applied = each["option"]
    assert applied["grid"] == {"top": 46 + 17 * (lines - 1)}
    assert applied["legend"] == {**options["legend"], "type": kind}


def test_elo_has_its_interval_as_a_band_and_says_what_0_is() -> None:
    ratings = cast("Any", [rated(3, 0.0, 0.0), rated(4, 100.0, 50.0)])
    drawing = RunDrawings(RunCurves(ratings=ratings, anchors={"random": (-280.0, 50.0)})).elo()
    assert drawing.levels == {"random -280 ± 98": -280.0, "0: model 3": 0.0}
    line, low, area = drawing.options()["series"]
    assert line["data"][1][1] == 100.0
    assert low["data"][1][1] == 2.0
    assert area["data"][1][1] == 196.0
    assert low["stack"] == area["stack"]
    least, most = drawing.y.least, drawing.y.most
    assert least is not None
    assert most is not None
    assert least <= -280 < 198 <= most
    assert least % ((most - least) / 4) == 0  # so that 0 has a label


def test_times_are_utc_and_counts_of_games_are_whole() -> None:
    curves = RunCurves(blocks=(block(0), block(3)))
    of_time = Drawing([], TimeScale("time", curves).axis, ChartAxis()).options()
    assert of_time["useUTC"]
    assert of_time["xAxis"]["name"] == "time, UTC"
    games = TimeScale("games", curves)
    assert games.x(BEGAN + timedelta(minutes=1)) == 133
    label = games.axis.options(upright=False)["axisPointer"]["label"]
    assert label == {"precision": 0, "formatter": "self-play games: {value}"}


def measured(step: int, own: object, **losses: float) -> Any:
    at = BEGAN + timedelta(minutes=step)
    names = ("soft_policy", "opponent_policy", "final_planes", "final_score")
    columns = {f"{name}_loss": losses.get(name) for name in names}
    return SimpleNamespace(step=step, at=at, own_losses=own, **columns)


def test_losses_of_one_s_own_are_drawn_by_their_names() -> None:
    """A name is any text, and an older row of another network has other losses."""
    rows = (
        measured(1, None, final_score=0.5),
        measured(2, {"stones": 2, "bad\x1b[2J": 1.0, "wrong": "x", "none": None}),
        measured(3, {"stones": 1.5, "worse": float("nan")}),
        measured(4, ["no", "losses"]),
    )
    drawing = RunDrawings(RunCurves(trained=rows), "steps", smooth=False).further_losses()
    assert {line.name: [y for _, y in line.points] for line in drawing.lines} == {
        "final score": [0.5],
        "stones": [2.0, 1.5],
        "bad\\x1b[2J": [1.0],
    }
    assert len({line.colour for line in drawing.lines}) == 3
    assert RunDrawings(RunCurves()).further_losses().lines == []


def lossy(hours: int, minute: int, loss: float) -> Any:
    """A measurement of training at step ``minute`` of a run that began after some hours."""
    at = BEGAN + timedelta(hours=hours, minutes=minute)
    return SimpleNamespace(step=minute, at=at, policy_loss=loss)


def test_runs_of_other_days_and_lengths_begin_at_the_same_point() -> None:
    def overlaid(name: str, hours: int, minutes: int, usage: Any = ()) -> OverlaidRun:
        rows = cast("Any", (lossy(hours, 0, 2.0), lossy(hours, minutes, 1.0)))
        return OverlaidRun(name, BLUE, RunCurves(held_out=rows, trained=rows), usage)

    def drawn(*runs: OverlaidRun, scale: Any) -> tuple[str, list[list[float]]]:
        drawing = RunsDrawings(runs, scale, smooth=False).loss("policy_loss", "nats")
        return drawing.x.name, [[x for x, _ in line.points] for line in drawing.lines]

    short, long = overlaid("a", 0, 60), overlaid("b", 50, 600)
    assert drawn(short, scale="time") == ("minutes since the start of each run", [[0, 60]])
    assert drawn(short, long, scale="time") == (
        "hours since the start of each run",
        [[0, 1], [0, 10]],
    )
    assert drawn(short, long, scale="steps") == ("training steps", [[0, 60], [0, 600]])
    began = BEGAN.timestamp()
    paid = overlaid("c", 0, 60, [(began - 60, 10.0), (began, 20.0), (began + 7200, 220.0)])
    assert drawn(paid, scale="cpu") == ("CPU-seconds", [[20, 120]])


def test_a_run_without_validation_games_is_drawn_by_its_training_games() -> None:
    rows = cast("Any", (lossy(0, 0, 2.0),))
    run = OverlaidRun("a", BLUE, RunCurves(trained=rows))
    [line] = RunsDrawings([run]).loss("policy_loss", "nats").lines
    assert (line.name, line.points, line.dashed) == ("a, training games", [(0.0, 2.0)], True)
    assert RunsDrawings([]).elo().lines == []
    assert RunsDrawings([]).loss("policy_loss", "nats").lines == []
