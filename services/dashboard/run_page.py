"""The run page, which is the front page: curves of strength, training and self-play."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any, Literal, cast

from zerofleet.config import RunConfig
from zerofleet.database.metrics import TrainingWarning
from zerofleet.exam import has_exam
from zerofleet.fleet.figures import Z_95
from zerofleet.fleet.report import (
    POSITION_WORDS,
    exam_unit,
    own_losses,
    rating_text,
    warning_text,
)
from zerofleet.services.dashboard.charts import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    TIME_NAME,
    ChartAxis,
    ChartLine,
    ChartPanel,
    Drawing,
    Point,
    around,
    loss_axis,
    percent,
    rounded,
    smoothed,
)
from zerofleet.services.dashboard.frame import (
    Frame,
    Visit,
    hidden_heading,
    rated_words,
    sentence,
)
from zerofleet.services.dashboard.run_queries import BLOCK_GAMES, CurveReader, GameBlock, RunCurves
from zerofleet.services.dashboard.sources import ShownRun
from zerofleet.services.dashboard.toolkit import events, ui

_MOST_MARKS = 100

Scale = Literal["time", "games", "steps", "cpu"]

_AXIS_NAMES = {"games": "self-play games", "steps": "training steps", "cpu": "CPU-seconds"}
CURVES_SECONDS = 10.0
# Texts of panels that have nothing to show yet.
_NO_BLOCKS = f"Appears with the first {BLOCK_GAMES} games of self-play."
_NO_MEASUREMENTS = "Appears with the trainer's first measurement."
_TRAINING, _VALIDATION = "training", "validation"
_FURTHER = {
    "soft_policy_loss": "soft policy",
    "opponent_policy_loss": "opponent's policy",
    "final_planes_loss": "final planes",
    "final_score_loss": "final score",
}
_TYPICAL_EXAM_ERRORS = {
    "tic_tac_toe": "Usual on two cores: 0% after 20 seconds.",
    "connect_four": "Usual on two cores: about 3% after 10 minutes and 2% after an hour.",
    "othello": "Usual on two cores: about 2% after two hours, at 400 simulations.",
}
"""Exam errors with search, of the run files in ``runs``: docs/how-to/is-my-run-learning.md."""
_TYPICAL_GO9_ELO = "Usual on two cores: about +500 after an hour."


@dataclass(frozen=True, slots=True)
class TimeScale:
    """The x axis of the run's charts: time, games, steps, or CPU-seconds.

    Games and steps are interpolated between the blocks of games, and between the measurements.

    Args:
        usage: times in seconds since 1970 with the CPU-seconds until then.
    """

    scale: Scale
    curves: RunCurves
    usage: Sequence[tuple[float, float]] = ()
    _marks: list[tuple[float, float]] = field(init=False)
    ends: tuple[float, float] | tuple[None, None] = field(init=False)
    """Ends of all known data, in milliseconds. All panels share this axis, so that data not read
    yet shows as a gap.
    """

    def __post_init__(self) -> None:
        marks: list[tuple[float, float]] = []
        if self.scale == "games":
            total = 0
            for block in self.curves.blocks:
                total += block.games
                marks.append((block.at.timestamp(), float(total)))
        elif self.scale == "steps":
            marks = [(row.at.timestamp(), float(row.step)) for row in self.curves.trained]
        elif self.scale == "cpu":
            marks = list(self.usage)
        object.__setattr__(self, "_marks", marks)
        curves = self.curves
        known = [
            row.at.timestamp() * 1000
            for rows in (
                curves.trained,
                curves.ratings,
                curves.exams,
                curves.resignations,
                curves.blocks,
            )
            for row in (*rows[:1], *rows[-1:])
        ]
        object.__setattr__(self, "ends", _time_ends(known))

    @property
    def axis(self) -> ChartAxis:
        """Return the options of the axis."""
        if self.scale == "time":
            return ChartAxis("time", TIME_NAME, least=self.ends[0], most=self.ends[1])
        return ChartAxis("value", _AXIS_NAMES[self.scale])

    def x(self, at: datetime) -> float | None:
        """Return the place of a moment; None: there is no data yet to interpolate between."""
        seconds = at.timestamp()
        if self.scale == "time":
            return round(seconds * 1000)
        if not self._marks:
            return None
        after = bisect_left(self._marks, (seconds, 0.0))
        if after == 0:
            return self._marks[0][1] if self._marks[0][0] == seconds else 0.0
        if after == len(self._marks):
            return self._marks[-1][1]
        (from_at, from_x), (to_at, to_x) = self._marks[after - 1], self._marks[after]
        share = (seconds - from_at) / (to_at - from_at) if to_at > from_at else 1.0
        return round(from_x + share * (to_x - from_x))

    def points(self, rows: Sequence[Any], value: Callable[[Any], float | None]) -> list[Point]:
        """Return the points of a line through the rows that have a value.

        Args:
            rows: rows, each with ``at``.
            value: returns the value of a row.
        """
        found = ((self.x(row.at), value(row)) for row in rows)
        return [(x, y) for x, y in found if x is not None and y is not None]


@dataclass(frozen=True, slots=True)
class RunDrawings:
    """Draws the panels.

    Args:
        curves: the data.
        scale: scale of all x axes.
        smooth: smooth the lines of frequent measurements, and draw the measured ones behind.
    """

    curves: RunCurves
    scale: Scale = "time"
    smooth: bool = True

    @property
    def times(self) -> TimeScale:
        """Return the scale of the x axis."""
        return TimeScale(self.scale, self.curves)

    def elo(self) -> Drawing:
        """Draw Elo of promoted models and of the anchors, with 95% intervals, and what 0 means."""
        times = self.times
        shown = [row for row in self.curves.ratings if row.elo is not None]
        rated = [
            (x, row.elo, Z_95 * row.elo_error)
            for row in shown
            if (x := times.x(row.at)) is not None
        ]
        reference = next((f"model {row.version}" for row in shown if row.elo_error == 0), "")
        line = ChartLine(
            "promoted models",
            [(x, round(elo, 1)) for x, elo, _ in rated],
            BLUE,
            dots=True,
            band=[(x, round(elo - half, 1), round(elo + half, 1)) for x, elo, half in rated],
        )
        levels = {
            f"{name} {rating_text(elo, Z_95 * error)}": elo
            for name, (elo, error) in self.curves.anchors.items()
        }
        levels[f"0: {reference or 'the oldest rated model'}"] = 0.0
        ends = [y for _, low, high in line.band for y in (low, high)]
        y = around([*ends, *levels.values()], "Elo", 100)
        return Drawing([line], times.axis, y, levels=levels)

    def exam(self) -> Drawing:
        """Draw error rates, with search and of the network only, by kind of positions."""
        colours = dict.fromkeys(POSITION_WORDS, BLUE) | {"good": ORANGE, "mates": ORANGE}
        lines: list[ChartLine] = []
        for kind, colour in colours.items():
            rows = [row for row in self.curves.exams if row.kind == kind]
            if not rows:
                continue
            searched = self.times.points(rows, lambda row: percent(row.error_rate))
            network = self.times.points(rows, lambda row: percent(row.prior_error_rate))
            words = POSITION_WORDS[kind]
            lines.append(ChartLine(f"{words}, with search", searched, colour, dots=True))
            if network:
                lines.append(
                    ChartLine(f"{words}, network only", network, colour, dashed=True, dots=True)
                )
        unit = exam_unit(row.kind for row in self.curves.exams)
        return Drawing(lines, self.times.axis, ChartAxis(name=f"errors, % of {unit}", least=0))

    def loss(self, part: Literal["policy_loss", "value_loss"], unit: str) -> Drawing:
        """Draw the loss on training and validation games, with a mark at each promotion."""
        lines = [
            *self._measured(_TRAINING, self.curves.trained, part, BLUE),
            *self._measured(_VALIDATION, self.curves.held_out, part, ORANGE),
        ]
        y = loss_axis(lines, unit)
        return Drawing(lines, self.times.axis, y, moments=self._promotions())

    def further_losses(self) -> Drawing:
        """Draw the losses of auxiliary targets, and the losses of your own network by name."""
        rows = self.curves.trained
        own = [own_losses(row.own_losses) for row in rows]
        values: dict[str, Callable[[Any], float | None]] = {
            words: attrgetter(column) for column, words in _FURTHER.items()
        }
        by_step = {row.step: losses for row, losses in zip(rows, own, strict=True)}
        for name in dict.fromkeys(name for losses in own for name in losses):
            # A loss of your own network replaces one of ours with the same name.
            values[name] = lambda row, name=name: by_step[row.step].get(name)
        shown = {
            name: value
            for name, value in values.items()
            if any(value(row) is not None for row in rows)
        }
        colours = itertools.cycle((BLUE, ORANGE, GREEN, PURPLE, RED, GREY))
        lines = [
            line
            for (name, value), colour in zip(shown.items(), colours, strict=False)
            for line in self._measured(name, rows, value, colour)
        ]
        return Drawing(lines, self.times.axis, ChartAxis(name="loss"))

    def entropies(self) -> Drawing:
        """Draw the entropies of the search's policy and of the network's, and their divergence."""
        lines = [
            *self._measured("entropy, network", self.curves.trained, "policy_entropy", BLUE),
            *self._measured("entropy, search", self.curves.trained, "target_entropy", ORANGE),
            *self._measured("KL(search || network)", self.curves.trained, "search_kl", PURPLE),
        ]
        return Drawing(lines, self.times.axis, ChartAxis(name="nats", least=0))

    def agreement(self) -> Drawing:
        """Draw how often network and search prefer the same action."""
        lines = [
            *self._measured(_TRAINING, self.curves.trained, "policy_agreement", BLUE, 100),
            *self._measured(_VALIDATION, self.curves.held_out, "policy_agreement", ORANGE, 100),
        ]
        return Drawing(lines, self.times.axis, ChartAxis(name="% of positions"))

    def explained(self) -> Drawing:
        """Draw how much of the results the value explains."""
        lines = [
            *self._measured(_TRAINING, self.curves.trained, "explained_variance", BLUE),
            *self._measured(_VALIDATION, self.curves.held_out, "explained_variance", ORANGE),
        ]
        return Drawing(lines, self.times.axis, ChartAxis(name="explained variance", most=1))

    def calibration(self) -> Drawing:
        """Draw predicted values against results, by stage."""
        rows = self._stages("held_out") or self._stages("train")
        predicted = [(float(row.stage - 1), round(row.predicted, 3)) for row in rows]
        actual = [(float(row.stage - 1), round(row.actual, 3)) for row in rows]
        lines = [
            ChartLine("predicted", predicted, BLUE, columns=True),
            ChartLine("actual", actual, ORANGE, columns=True),
        ]
        return Drawing(lines, _STAGE_AXIS, ChartAxis(name="mean value, player to move"))

    def stage_error(self) -> Drawing:
        """Draw the squared error of the value, by stage."""
        lines = [
            ChartLine(
                name,
                [
                    (float(row.stage - 1), round(row.squared_error, 3))
                    for row in self._stages(split)
                ],
                colour,
                columns=True,
            )
            for name, split, colour in (
                (_TRAINING, "train", BLUE),
                (_VALIDATION, "held_out", ORANGE),
            )
        ]
        return Drawing(lines, _STAGE_AXIS, ChartAxis(name="squared error", least=0))

    def reuse(self, most: float | None) -> Drawing:
        """Draw samples drawn for each position; ``most`` is the limit in the run file."""
        points = self.times.points(
            self.curves.trained,
            lambda row: (
                None if row.samples_per_position is None else rounded(row.samples_per_position)
            ),
        )
        line = ChartLine("samples per position", points, BLUE)
        levels = {} if most is None else {f"limit: {most:g}": most}
        y = around([0, most or 0, *(y for _, y in points)], "samples per position", 1)
        return Drawing([line], self.times.axis, y, levels=levels)

    def unique_games(self) -> Drawing:
        """Draw the share of distinct games in a row, and of distinct positions in a batch."""
        lines = [
            ChartLine("games", self._block_points(lambda block: block.distinct_share * 100), BLUE),
            *self._measured(
                "positions in a batch", self.curves.trained, "distinct_share", ORANGE, 100
            ),
        ]
        return Drawing(lines, self.times.axis, ChartAxis(name="% unique", least=0, most=100))

    def lengths(self) -> Drawing:
        """Draw the lengths of games, in plies."""
        lines = [
            ChartLine("mean", self._block_points(lambda block: block.length), BLUE),
            ChartLine("10th percentile", self._block_points(lambda block: block.short), GREY),
            ChartLine(
                "90th percentile", self._block_points(lambda block: block.long), GREY, dashed=True
            ),
        ]
        return Drawing(lines, self.times.axis, ChartAxis(name="plies", least=0))

    def results(self, names: tuple[str, str]) -> Drawing:
        """Draw the shares of results, stacked."""
        first, second = names

        def lost(block: GameBlock) -> float:
            return 100 - 100 * (block.first_wins + block.draws) / block.games

        lines = [
            ChartLine(
                sentence(f"{first} won"),
                self._block_points(lambda block: 100 * block.first_wins / block.games),
                BLUE,
                area=True,
            ),
            ChartLine(
                "draw",
                self._block_points(lambda block: 100 * block.draws / block.games),
                GREY,
                area=True,
            ),
            ChartLine(sentence(f"{second} won"), self._block_points(lost), ORANGE, area=True),
        ]
        return Drawing(lines, self.times.axis, ChartAxis(name="% of games", least=0, most=100))

    def resignations(self) -> Drawing:
        """Draw the share of would-be resignations that did not lose, and the allowed share."""
        rows = [row for row in self.curves.resignations if row.would_resign]
        wrong = self.times.points(rows, lambda row: percent(row.wrong / row.would_resign))
        resigned = self._block_points(lambda block: 100 * block.resigned / block.games)
        lines = [ChartLine("false resignations", wrong, RED, dots=True)]
        if any(y for _, y in resigned):
            lines.append(ChartLine("games resigned", resigned, GREEN))
        allowed = percent(rows[-1].false_positive_share) if rows else None
        levels = {} if allowed is None else {f"allowed: {allowed:g}%": allowed}
        y = around(
            [0, allowed or 0, *(y for line in lines for _, y in line.points)], "% of games", 1
        )
        return Drawing(lines, self.times.axis, y, levels=levels)

    def _stages(self, split: str) -> list[Any]:
        return [row for row in self.curves.stages if row.split == split]

    def _promotions(self) -> list[float]:
        rows: Sequence[Any] = self.curves.ratings
        marks = [x for row in rows if (x := self.times.x(row.promoted_at)) is not None]
        return sorted(marks)[-_MOST_MARKS:]

    def _block_points(self, value: Callable[[GameBlock], float]) -> list[Point]:
        return self.times.points(self.curves.blocks, lambda block: rounded(value(block)))

    def _measured(
        self,
        name: str,
        rows: Sequence[Any],
        column: str | Callable[[Any], float | None],
        colour: str,
        times: float = 1,
    ) -> Iterator[ChartLine]:
        """Yield a column of the measurements, as measured or smoothed."""
        read = attrgetter(column) if isinstance(column, str) else column

        def value(row: Any) -> float | None:  # noqa: ANN401 - a row of SQLAlchemy
            found: float | None = read(row)
            return None if found is None else rounded(found * times)

        points = self.times.points(rows, value)
        if self.smooth and points:
            yield ChartLine(name, smoothed(points), colour)
            yield ChartLine(f"{name}, measured", points, colour, faint=True)
        elif points:
            yield ChartLine(name, points, colour)


def _time_ends(known: Sequence[float]) -> tuple[float, float] | tuple[None, None]:
    """Return the first and last moment, the last rounded up, so that the axes rarely move."""
    if not known or min(known) == max(known):
        return None, None
    step = 2.0 ** math.ceil(math.log2((max(known) - min(known)) / 64))
    return min(known), math.ceil(max(known) / step) * step


_STAGE_AXIS = ChartAxis("category", "stage: quarter of the game", categories=("1", "2", "3", "4"))


def add_run_page(frame: Frame) -> None:
    """Register the page."""

    @frame.page("/", "Run")
    async def _(visit: Visit) -> None:
        reader = CurveReader(visit.sources, visit.run.name)
        hidden_heading("Run")
        view = RunView(visit)
        curves = visit.shared(
            "curves", reader.read, CURVES_SECONDS, keep=True, is_loading=RunCurves.is_loading
        )
        visit.watch(curves, view.show)


class RunView:
    """The panels on one page, drawn where it is made; a person chooses their x axis."""

    def __init__(self, visit: Visit) -> None:
        self._curves = RunCurves()
        self._scale: Scale = "time"
        self._smooth = True
        self._panels: list[tuple[ChartPanel, Callable[[RunDrawings], Drawing]]] = []
        self._game_panels: list[tuple[ChartPanel, str]] = []
        config = visit.run.config
        with ui.element("div").classes("zf-tools"):
            scales = {"time": "Time", "games": "Games", "steps": "Steps"}
            ui.toggle(scales, value="time", on_change=self._choose_scale).props(
                'dense no-caps unelevated aria-label="x axis"'
            )
            ui.switch("Smoothed", value=True, on_change=self._choose_smooth).props("dense")
            self._loading_progress = ui.label().classes("zf-note").props('role="status"')
        self._origin = ui.label().classes("zf-note")
        self._warned: Sequence[TrainingWarning] = ()
        self._warnings = ui.element("div").classes("zf-warnings").props('role="status"')
        with ui.element("div").classes("zf-panels"):
            self._strength(visit.run)
            self._learning(config)
            most_reuse = config.trainer.samples_per_position if config else None
            self._play(most_reuse, visit.player_names)

    def show(self, curves: RunCurves) -> None:
        """Draw the current curves."""
        self._curves = curves
        self._show_loading_progress()
        self._origin.set_text(f"Begins with {curves.origin}." if curves.origin else "")
        self._origin.set_visibility(curves.origin is not None)
        self._warn()
        drawings = RunDrawings(curves, self._scale, self._smooth)
        for panel, draw in self._panels:
            panel.show(draw(drawings))

    def _show_loading_progress(self) -> None:
        """Show how many games were read, while a new dashboard reads the games of a long run."""
        stored, words = self._curves.games_stored, ""
        if stored is not None:
            read = sum(block.games for block in self._curves.blocks)
            of = "more than " if self._curves.more_are_stored else ""
            words = f"Loading history: {read:,} of {of}{stored:,} games."
            self._loading_progress.set_text(f"{words} Charts are complete up to this point.")
        self._loading_progress.set_visibility(stored is not None)
        for panel, note in self._game_panels:
            panel.note(f"{note} {words}".strip())

    def _warn(self) -> None:
        """Show problems of the run's training, if there are any."""
        if self._curves.warnings == self._warned:
            return  # otherwise a screen reader would repeat it
        self._warned = self._curves.warnings
        self._warnings.clear()
        with self._warnings:
            for each in self._warned:
                with ui.element("div").classes("zf-lamp"):
                    ui.element("span").classes("zf-light zf-warning")
                    ui.label(warning_text(each.warning, each.words)).classes("zf-words")

    def _strength(self, run: ShownRun) -> None:
        """Draw the exam and Elo. The exam is the larger one: it compares with perfect play."""
        if has_exam(run.game):
            self._panel(
                RunDrawings.exam,
                "Exam errors",
                "Appears with the first exam, after the first promotion.",
                "How often the model plays worse than perfect play. "
                f"{_TYPICAL_EXAM_ERRORS.get(run.game, '')}".strip(),
                wide=True,
            )
        typical = _TYPICAL_GO9_ELO if run.game.startswith("go(size=9,") else ""
        self._panel(
            RunDrawings.elo,
            "Elo of promoted models",
            "Appears when a promoted model has played rating games.",
            "The band and ± are the 95% interval, relative to the oldest model that played. Dashed "
            "lines are opponents that never change: random play, search without a network, GNU "
            "Go. "
            f"{typical} {rated_words(run)}".strip(),
            wide=not has_exam(run.game),
        )

    def _learning(self, config: RunConfig | None) -> None:
        self._panel(
            lambda drawings: drawings.loss("policy_loss", "nats"),
            "Policy loss",
            _NO_MEASUREMENTS,
            "Cross-entropy with the search's policy. Good: validation stays close to training. "
            "Thin lines are promotions.",
        )
        self._panel(
            lambda drawings: drawings.loss("value_loss", "squared error"),
            "Value loss",
            _NO_MEASUREMENTS,
            "The target lies between the game's result and the search's values. Thin lines are "
            "promotions.",
        )
        if config is not None and (config.network.is_own or config.trainer.auxiliary_weights):
            self._panel(
                RunDrawings.further_losses,
                "Further losses",
                _NO_MEASUREMENTS,
                "Losses of auxiliary targets, and losses of your own network by name, on one batch "
                "of training games.",
            )
        self._panel(
            RunDrawings.entropies,
            "Policy entropy and KL divergence",
            _NO_MEASUREMENTS,
            "The KL divergence is how far the search changes the network's policy. It shrinks "
            "while the network learns.",
        )
        self._panel(
            RunDrawings.agreement,
            "Policy agreement",
            _NO_MEASUREMENTS,
            "Positions where network and search prefer the same move.",
        )
        self._panel(
            RunDrawings.explained,
            "Explained variance of the value",
            _NO_MEASUREMENTS,
            "1 is perfect. 0 is no better than the mean result.",
        )
        self._panel(
            RunDrawings.calibration,
            "Value calibration by stage",
            _NO_MEASUREMENTS,
            "Good: predicted and actual are equal. Newest measurements, on validation games if "
            "there are any.",
        )
        self._panel(
            RunDrawings.stage_error,
            "Value error by stage",
            _NO_MEASUREMENTS,
            "Overfitting shows first in the early stages.",
        )

    def _play(self, most_reuse: float | None, names: tuple[str, str]) -> None:
        self._panel(
            lambda drawings: drawings.reuse(most_reuse),
            "Sample reuse (replay ratio)",
            _NO_MEASUREMENTS,
            "Samples drawn for each position since the run began. Good: at the dashed line.",
        )
        self._panel(
            RunDrawings.unique_games,
            "Unique games",
            _NO_BLOCKS,
            f"Of {BLOCK_GAMES} games in a row. Good: above 80%, in games longer than 16 plies.",
            shows_games=True,
        )
        self._panel(RunDrawings.lengths, "Game length", _NO_BLOCKS, shows_games=True)
        self._panel(
            lambda drawings: drawings.results(names),
            "Game results",
            _NO_BLOCKS,
            shows_games=True,
        )
        self._panel(
            RunDrawings.resignations,
            "Resignations",
            "Appears when games played to the end have given a resignation threshold (v_resign).",
            "False resignations: share of would-be resigned games that the player did not lose.",
            shows_games=True,
        )

    def _panel(
        self,
        draw: Callable[[RunDrawings], Drawing],
        title: str,
        empty: str,
        note: str = "",
        *,
        wide: bool = False,
        shows_games: bool = False,
    ) -> None:
        panel = ChartPanel(title, empty, note=note, wide=wide)
        self._panels.append((panel, draw))
        if shows_games:
            self._game_panels.append((panel, note))

    def _choose_scale(self, event: events.ValueChangeEventArguments[str]) -> None:
        self._scale = cast("Scale", event.value)
        self.show(self._curves)

    def _choose_smooth(self, event: events.ValueChangeEventArguments[bool | None]) -> None:
        self._smooth = bool(event.value)
        self.show(self._curves)
