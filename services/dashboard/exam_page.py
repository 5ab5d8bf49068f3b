"""The exam page: mistakes of the newest models, and the correct moves."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from zerofleet.database.metrics import MOST_WRONG_ANSWERS, GroupErrors, WrongAnswer
from zerofleet.exam import OWN_EXAM_HINT, PositionKind, position_kinds
from zerofleet.fleet.report import POSITION_WORDS, counted, exam_unit
from zerofleet.games import State, parse_actions
from zerofleet.games.game_board import GameBoard, board_of
from zerofleet.games.notation import player_names
from zerofleet.services.dashboard.board import Board, BoardMark
from zerofleet.services.dashboard.frame import (
    Frame,
    NothingThereError,
    Visit,
    asked_number,
    page_heading,
    there_are,
)
from zerofleet.services.dashboard.toolkit import NONE, Table, TableColumn, events, ui

_SECONDS = 15.0
_NEWEST_MODELS = 8
_LOOKED_AT = 200  # newest exams to read, newest models first
_EXAMS = f"""
SELECT DISTINCT ON (version) version, positions, errors, prior_errors, num_simulations, at,
    wrong_answers, groups
FROM (
    SELECT * FROM exams WHERE run = :run ORDER BY version DESC LIMIT {_LOOKED_AT}
) AS newest
WHERE kind = :kind AND wrong_answers IS NOT NULL
ORDER BY version DESC, exam_id DESC LIMIT {_NEWEST_MODELS}
"""
_COLUMNS = (
    TableColumn("number", "Mistake"),
    TableColumn("ply", "Ply", figure=True),
    TableColumn("played", "Played"),
    TableColumn("right", "Correct"),
    TableColumn("others", "Also wrong in models"),
)
_GROUPS = {"endgames": "Material", "mates": "Length"}
"""Kinds of positions in groups, with the heading of the groups' names."""
_STORED = f"The first {MOST_WRONG_ANSWERS} mistakes of each exam are stored."


@dataclass(frozen=True, slots=True)
class ModelExam:
    """An exam of one model, with its mistakes."""

    kind: str
    version: int
    positions: int
    errors: int
    prior_errors: int | None
    num_simulations: int
    wrong: tuple[WrongAnswer, ...]
    groups: tuple[GroupErrors, ...]

    @property
    def words(self) -> str:
        """Return the result in words."""
        errors = counted(self.errors, "error")
        found = (
            f"Model {self.version}: {errors} in {self.positions:,} {exam_unit([self.kind])} "
            f"({self.errors / self.positions:.2%}) "
            f"with {counted(self.num_simulations, 'simulation')}"
        )
        if self.prior_errors is not None:
            found += f", {self.prior_errors:,} by the network only"
        return found + "."


def add_exam_page(frame: Frame) -> None:
    """Register the page."""

    @frame.page("/exam", "Exam", "kind", "model", "position")
    async def _(visit: Visit) -> None:
        kinds = await asyncio.to_thread(position_kinds, visit.run.game)
        if not kinds:
            with ui.element("section").classes("zf-panel zf-wide"):
                page_heading("Exam")
                words = f"Perfect play of {visit.run.game} is not known here, so there is no exam."
                if visit.run.game.startswith("python:"):
                    words += f" {OWN_EXAM_HINT}"
                ui.label(words).classes("zf-empty")
            return
        kind = visit.parameters.get("kind") or kinds[-1]
        if kind not in kinds:
            raise NothingThereError(f"kind={kind[:80]}: give one of {', '.join(kinds)}")
        board = await asyncio.to_thread(board_of, visit.run.game)

        async def read() -> tuple[ModelExam, ...]:
            rows = await visit.sources.rows(_EXAMS, run=visit.run.name, kind=kind)
            return tuple(_exam_of(kind, row) for row in rows)

        view = ExamView(visit, board, kinds, kind)
        visit.watch(visit.shared(f"exam {kind}", read, _SECONDS), view.show)


def _exam_of(kind: str, row: Any) -> ModelExam:  # noqa: ANN401
    wrong = tuple(
        WrongAnswer(each["moves"], each["played"], tuple(each["right"]), each.get("start", ""))
        for each in row.wrong_answers
    )
    return ModelExam(
        kind,
        row.version,
        row.positions,
        row.errors,
        row.prior_errors,
        row.num_simulations,
        wrong,
        tuple(GroupErrors(**each) for each in row.groups or ()),
    )


class ExamView:
    """The mistakes of one model on one page.

    Args:
        kinds: kinds of positions in the game's exam.
    """

    def __init__(
        self, visit: Visit, game_board: GameBoard, kinds: Sequence[PositionKind], kind: str
    ) -> None:
        self._visit = visit
        self._game_board = game_board
        self._kind = kind
        self._exams: tuple[ModelExam, ...] = ()
        self._requested_number = asked_number(visit.parameters, "position") or 1
        self._number = self._requested_number
        self._requested = asked_number(visit.parameters, "model")
        self._is_first = True
        with ui.element("div").classes("zf-play"):
            with ui.element("section").classes("zf-panel"):
                with ui.element("div").classes("zf-panel-head"):
                    page_heading("Exam")
                    with ui.element("div").classes("zf-tools"):
                        for each in kinds if len(kinds) > 1 else ():
                            link = ui.link(
                                POSITION_WORDS[each].capitalize(), visit.link("/exam", kind=each)
                            )
                            link.classes("zf-link")
                            if each == kind:
                                link.props('aria-current="page"')
                        self._choice = ui.select({}, label="Model", on_change=self._choose)
                        self._choice.props("dense outlined options-dense").classes("zf-field")
                self._board = Board(game_board)
                self._where = ui.label("").classes("zf-figure").props('role="status"')
                with ui.element("div").classes("zf-tools"):
                    for icon, words, by in (
                        ("chevron_left", "Back (left arrow)", -1),
                        ("chevron_right", "Forward (right arrow)", 1),
                    ):
                        button = ui.button(icon=icon, on_click=partial(self._go, by))
                        button.props(f'flat dense aria-label="{words}"')
                    self._links = ui.element("div").classes("zf-tools")
            with ui.element("section").classes("zf-panel zf-side"):
                self._found = ui.label(
                    "The evaluator examines each promoted model. Its mistakes appear here after "
                    "the first promotion."
                )
                self._table = Table(_COLUMNS, "No mistakes to show.")
                kept = "shortest mate" if kind == "mates" else "outcome of perfect play"
                ui.label(
                    f"{_STORED}{' One mistake can lose many lines.' if kind == 'lines' else ''} "
                    f"Every move that keeps the {kept} is correct."
                ).classes("zf-note")
                self._groups = None
                if kind in _GROUPS:
                    self._groups = Table(
                        (
                            TableColumn("name", _GROUPS[kind]),
                            TableColumn("positions", "Positions", figure=True),
                            TableColumn("errors", "Errors", figure=True),
                            TableColumn("rate", "Error rate", figure=True),
                        ),
                        "Errors by group appear with the first exam.",
                    )
        ui.keyboard(on_key=self._key, ignore=["input", "select", "textarea"])

    def show(self, exams: tuple[ModelExam, ...]) -> None:
        """Draw the newest exams."""
        self._exams = exams
        versions = {exam.version: f"model {exam.version}" for exam in exams}
        if versions and self._choice.options != versions:
            now = self._choice.value if self._choice.value in versions else None
            self._choice.set_options(versions)
            requested = self._requested if self._requested in versions else next(iter(versions))
            self._choice.set_value(now or requested)
        if exams and self._is_first:
            self._is_first = False
            self._say_unused(exams)
        self._draw()

    def _say_unused(self, exams: tuple[ModelExam, ...]) -> None:
        """Add notes about values of the address that are not shown."""
        shown = self._exam()
        if shown is None:
            return
        if self._requested not in (None, shown.version):
            self._visit.note(
                f"model={self._requested} has no such exam on this page. "
                f"Model {shown.version} is shown instead. "
                f"{there_are(exam.version for exam in exams)}"
            )
        if self._requested_number > max(1, len(shown.wrong)):
            self._visit.note(
                f"position={self._requested_number}: the exam of model {shown.version} has "
                f"{counted(len(shown.wrong), 'stored mistake')}. The last one is shown instead."
            )

    def _draw(self) -> None:
        exam = self._exam()
        if exam is None:
            return
        found = exam.words
        if len(exam.wrong) < exam.errors and self._kind != "lines":
            found += f" These are the first {len(exam.wrong)}."
        self._found.set_text(found)
        self._table.show(
            [self._row(number, each, exam) for number, each in enumerate(exam.wrong, 1)]
        )
        if self._groups is not None:
            self._groups.show([_group_row(each) for each in exam.groups])
        self._number = max(1, min(self._number, len(exam.wrong)))
        if not exam.wrong:
            self._board.seek((), start="")
            self._where.set_text("No mistakes.")
            self._links.clear()
            return
        self._draw_position(exam, exam.wrong[self._number - 1])

    def _draw_position(self, exam: ModelExam, wrong: WrongAnswer) -> None:
        game = self._game_board.game
        actions = parse_actions(game, wrong.moves, wrong.start)
        state = State(game, actions, wrong.start)
        words = {state.action_to_san(action): action for action in state.legal_actions()}
        marks = [BoardMark(words[each], 1.0, "correct") for each in wrong.right if each in words]
        if wrong.played in words:
            marks.append(BoardMark(words[wrong.played], 0.35, "played"))
        self._board.seek(actions, start=wrong.start, then=lambda: self._board.draw_marks(marks))
        side = player_names(game)[state.to_play]
        self._where.set_text(
            f"Mistake {self._number} of {len(exam.wrong)}, {side} to move. "
            f"Model {exam.version} played {wrong.played}. Correct: {_either(wrong.right)}."
        )
        self._links.clear()
        with self._links:
            at = {"start": wrong.start or None, "moves": wrong.moves or None}
            models = f"{exam.version},best"
            ui.link("Analyse", self._visit.link("/play", **at, side="both", hints="on")).classes(
                "zf-link"
            )
            ui.link(
                "Compare two models", self._visit.link("/compare", **at, models=models)
            ).classes("zf-link")

    def _row(self, number: int, wrong: WrongAnswer, exam: ModelExam) -> dict[str, Any]:
        others = [
            str(other.version)
            for other in self._exams
            if other is not exam
            and any(_position(each) == _position(wrong) for each in other.wrong)
        ]
        return {
            "key": number,
            "number": str(number),
            "number_link": self._link(exam.version, number),
            "ply": len(wrong.moves.split()),
            "played": wrong.played,
            "right": ", ".join(wrong.right),
            "others": ", ".join(others) or NONE,
        }

    def _exam(self) -> ModelExam | None:
        return next((e for e in self._exams if e.version == self._choice.value), None)

    def _link(self, version: int, number: int) -> str:
        return self._visit.link("/exam", kind=self._kind, model=version, position=number)

    def _choose(self, event: events.ValueChangeEventArguments[int]) -> None:
        del event  # the element has it
        self._draw()

    def _go(self, by: int) -> None:
        exam = self._exam()
        if exam is None or not exam.wrong:
            return
        self._number = (self._number - 1 + by) % len(exam.wrong) + 1
        with self._where:
            ui.navigate.history.replace(self._link(exam.version, self._number))
        self._draw()

    def _key(self, event: events.KeyEventArguments) -> None:
        if event.action.keydown and (event.key.arrow_left or event.key.arrow_right):
            self._go(1 if event.key.arrow_right else -1)


def _group_row(group: GroupErrors) -> dict[str, Any]:
    return {
        "key": group.name,
        "name": group.name,
        "positions": f"{group.positions:,}",
        "errors": f"{group.errors:,}",
        "rate": f"{group.errors / group.positions:.1%}",
    }


def _position(wrong: WrongAnswer) -> tuple[str, str]:
    return wrong.start, wrong.moves


def _either(right: Sequence[str]) -> str:
    return " or ".join(right[:8]) + (" or another" if len(right) > 8 else "")
