"""The front page: whether the run learns, and how it plays meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from zerofleet.database.metrics import TrainingWarning
from zerofleet.exam import has_exam
from zerofleet.services.dashboard.charts import ChartPanel, Drawing
from zerofleet.services.dashboard.frame import Frame, Visit, said_heading
from zerofleet.services.dashboard.models_page import rated_words
from zerofleet.services.dashboard.run_drawings import RunDrawings, Scale
from zerofleet.services.dashboard.run_queries import BLOCK_GAMES, CurveReader, RunCurves
from zerofleet.services.dashboard.sources import ShownRun
from zerofleet.services.dashboard.toolkit import events, ui

_SECONDS = 10.0
_BLOCKS = f"Appears with the first {BLOCK_GAMES} games of self-play."
_MEASURED = "Appears with the trainer's first measurement."


def add_run_page(frame: Frame) -> None:
    """Register it."""

    @frame.page("/", "Run")
    async def _(visit: Visit) -> None:
        reader = CurveReader(visit.sources, visit.run.name)
        said_heading("Run")
        view = RunView(visit)
        visit.watch(visit.shared("curves", reader.read, _SECONDS, keep=True), view.show)


class RunView:
    """The panels on one page, drawn where it is made; a person chooses their x axis."""

    def __init__(self, visit: Visit) -> None:
        self._curves = RunCurves()
        self._scale: Scale = "time"
        self._smooth = True
        self._panels: list[tuple[ChartPanel, Callable[[RunDrawings], Drawing]]] = []
        self._of_games: list[tuple[ChartPanel, str]] = []
        config = visit.run.config
        with ui.element("div").classes("zf-tools"):
            scales = {"time": "time", "games": "games", "steps": "steps"}
            ui.toggle(scales, value="time", on_change=self._choose_scale).props(
                'dense no-caps unelevated aria-label="x axis"'
            )
            ui.switch("smoothed", value=True, on_change=self._choose_smooth).props("dense")
            self._read_so_far = ui.label().classes("zf-note").props('role="status"')
        self._warned: Sequence[TrainingWarning] = ()
        self._warnings = ui.element("div").classes("zf-warnings").props('role="status"')
        with ui.element("div").classes("zf-panels"):
            self._strength(visit.run)
            self._learning()
            self._play(config.trainer.samples_per_position if config else None)

    def show(self, curves: RunCurves) -> None:
        """Draw the curves as they are now."""
        self._curves = curves
        self._say_read_so_far()
        self._warn()
        drawings = RunDrawings(curves, self._scale, self._smooth)
        for panel, draw in self._panels:
            panel.show(draw(drawings))

    def _say_read_so_far(self) -> None:
        """While the dashboard, just started, reads the games of a long run."""
        stored, words = self._curves.games_stored, ""
        if stored is not None:
            read = sum(block.games for block in self._curves.blocks)
            of = "more than " if self._curves.more_are_stored else ""
            words = f"Games read so far: {read:,} of {of}{stored:,}."
            self._read_so_far.set_text(
                f"{words} What is drawn of games, and over them, ends there."
            )
        self._read_so_far.set_visibility(stored is not None)
        for panel, note in self._of_games:
            panel.note(f"{note} {words}".strip())

    def _warn(self) -> None:
        """Say what is wrong with the run's training; nothing where nothing is."""
        if self._curves.warnings == self._warned:
            return  # or who hears the page would be told again
        self._warned = self._curves.warnings
        self._warnings.clear()
        with self._warnings:
            for each in self._warned:
                with ui.element("div").classes("zf-lamp"):
                    ui.element("span").classes("zf-light zf-warning")
                    ui.label(each.warning).classes("zf-name")
                    ui.label(each.words).classes("zf-words")

    def _strength(self, run: ShownRun) -> None:
        self._panel(
            RunDrawings.elo,
            "Elo of promoted models",
            "Appears when a promoted model has played rating games.",
            "With 95% intervals, relative to the oldest model that played. Dashed are anchors, "
            "opponents that never change: random play, search without a network, GNU Go. "
            f"{rated_words(run)}".strip(),
            wide=True,
        )
        if has_exam(run.game):
            self._panel(
                RunDrawings.exam,
                "Exam errors",
                "Appears with the first exam, after the first promotion.",
                "Positions where perfect play is known and the model played worse.",
            )

    def _learning(self) -> None:
        self._panel(
            lambda drawings: drawings.loss("policy_loss", "nats"),
            "Policy loss",
            _MEASURED,
            "Cross-entropy against the search's policy; thin lines are promotions.",
        )
        self._panel(
            lambda drawings: drawings.loss("value_loss", "squared error"),
            "Value loss",
            _MEASURED,
            "Against its target, between result and root values; thin lines are promotions.",
        )
        self._panel(
            RunDrawings.entropies,
            "Search against network",
            _MEASURED,
            "Entropy of the policies. What the search adds to the network is the KL between them.",
        )
        self._panel(
            RunDrawings.agreement,
            "Network and search agree",
            _MEASURED,
            "Positions where both prefer the same action.",
        )
        self._panel(
            RunDrawings.explained,
            "Explained variance of the value",
            _MEASURED,
            "0 is no better than the mean result.",
        )
        self._panel(
            RunDrawings.calibration,
            "Value calibration by stage",
            _MEASURED,
            "For the player to move, over the newest measurements, of held-out games where it can.",
        )
        self._panel(
            RunDrawings.stage_error,
            "Value error by stage",
            _MEASURED,
            "Overfitting shows first in the early stages.",
        )

    def _play(self, most_reuse: float | None) -> None:
        self._panel(
            lambda drawings: drawings.reuse(most_reuse),
            "Reuse",
            _MEASURED,
            "Samples drawn for each position received since the run began.",
        )
        in_a_row = f"Games of each {BLOCK_GAMES} in a row that differ, and positions of a batch."
        self._panel(
            RunDrawings.different_games, "Different games", _BLOCKS, in_a_row, of_games=True
        )
        self._panel(RunDrawings.lengths, "Lengths of games", _BLOCKS, of_games=True)
        self._panel(RunDrawings.results, "Results", _BLOCKS, of_games=True)
        self._panel(
            RunDrawings.resignations,
            "Resignations",
            "Appears when games played to the end have given a resignation threshold (v_resign).",
            "Wrong: of the games played on that would have been resigned, those not lost.",
            of_games=True,
        )

    def _panel(
        self,
        draw: Callable[[RunDrawings], Drawing],
        title: str,
        empty: str,
        note: str = "",
        *,
        wide: bool = False,
        of_games: bool = False,
    ) -> None:
        panel = ChartPanel(title, empty, note=note, wide=wide)
        self._panels.append((panel, draw))
        if of_games:
            self._of_games.append((panel, note))

    def _choose_scale(self, event: events.ValueChangeEventArguments[str]) -> None:
        self._scale = cast("Scale", event.value)
        self.show(self._curves)

    def _choose_smooth(self, event: events.ValueChangeEventArguments[bool | None]) -> None:
        self._smooth = bool(event.value)
        self.show(self._curves)
