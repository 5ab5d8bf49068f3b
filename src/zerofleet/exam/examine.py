"""The exam of a game: one function for every game that has one.

Connect Four, Othello and chess are examined in samples of positions (``sample``,
``chess_positions``). Tic-tac-toe is walked in full: every line of play that an opponent can choose,
as both colours. The player's answer to a position never varies, so the games that it can meet form
a tree that branches only where the opponent moves. The tree is walked level by level, all positions
of a level in one search. Each distinct position is searched once, however many games lead to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from zerofleet_core import State

from zerofleet.config import SearchSection
from zerofleet.database import GroupErrors, WrongAnswer
from zerofleet.errors import ConfigError
from zerofleet.exam.chess_positions import chess_sample
from zerofleet.exam.examined_player import MOST_ROWS, ExaminedPlayer
from zerofleet.exam.sample import (
    LabelledPosition,
    answer,
    count_groups,
    good_sample,
    python_rules,
    random_sample,
    wrong_answer,
)
from zerofleet.games.chess import is_chess
from zerofleet.prediction import Predictor
from zerofleet.search_configs import PLAIN_SEARCH

PositionKind = Literal["lines", "random", "good", "endgames", "mates"]
"""Kinds of positions of an exam.

``lines``: the games of tic-tac-toe. ``random``: positions of random play, of Connect Four, with the
last empty squares of Othello, or of a game in Python. ``good``: positions of Connect Four near good
play. ``endgames``: positions of chess with three or four men. ``mates``: forced mates of chess in
one to three moves.
"""

_KINDS: dict[str, tuple[PositionKind, ...]] = {
    "chess": ("endgames", "mates"),
    "connect_four": ("random", "good"),
    "othello": ("random",),
    "tic_tac_toe": ("lines",),
}


@dataclass(frozen=True, slots=True)
class ExamResult:
    """Result of an exam.

    For tic-tac-toe, ``positions`` counts the finished games and ``errors`` the games lost. For the
    others they count the positions of the sample, and the answers that lose value.
    """

    game: str
    kind: PositionKind
    num_simulations: int
    positions: int
    errors: int
    prior_errors: int | None = None
    """Errors in a sample by the network's prior alone; None for tic-tac-toe."""
    value_error: float | None = None
    """Mean squared error of the searched value against perfect play; None for tic-tac-toe."""
    wrong: tuple[bool, ...] = ()
    """Whether the player made a mistake in each position of a sample, [positions]."""
    wrong_answers: tuple[WrongAnswer, ...] = ()
    """Positions with a wrong answer; for tic-tac-toe the ones in which it gave up the draw."""
    groups: tuple[GroupErrors, ...] = ()
    """Errors by material or by length of the mate, short names first; empty for other games."""

    @property
    def error_rate(self) -> float:
        """Share of errors, in [0, 1]."""
        return self.errors / self.positions


def has_exam(game: str) -> bool:
    """Return whether perfect play of this game is known here."""
    return bool(position_kinds(game))


def position_kinds(game: str) -> tuple[PositionKind, ...]:
    """Return the kinds of positions that a game can be examined in; empty if it has no exam."""
    if python_rules(game) is not None:
        return ("random",)
    return _KINDS.get("chess" if is_chess(game) else game, ())


async def examine(
    game: str,
    predictor: Predictor,
    *,
    num_simulations: int,
    positions: int,
    kind: PositionKind | None = None,
    seed: int = 1,
    search: SearchSection | None = None,
    most_rows: int = MOST_ROWS,
) -> ExamResult:
    """Examine ``predictor`` with a search of ``num_simulations`` for each action.

    Args:
        game: a game for which ``has_exam`` is true.
        predictor: the examined network; predicts many positions at once.
        num_simulations: simulations for each action.
        positions: upper limit of the sample's size; tic-tac-toe is always walked in full.
        kind: kind of positions; by default the game's first one.
        seed: seed of random positions; the same everywhere, so that models of all runs compare.
        search: the run's settings; by default PUCT without proofs.
        most_rows: upper limit of positions in one request; a server's is ``max_batch_rows``.

    Raises:
        ConfigError: no exam for this game, or no such positions.
        InferenceUnavailableError, OverloadedError: from ``predictor``.
    """
    kinds = position_kinds(game)
    if not kinds:
        raise ConfigError(
            f"there is no exam for '{game}', only for {', '.join(_KINDS)}, and for games in Python "
            "whose class defines perfect_outcomes()"
        )
    kind = kind or kinds[0]
    if kind not in kinds:
        raise ConfigError(
            f"the exam of {game} has no sample of positions named '{kind}': choose "
            f"{' or '.join(kinds)}"
        )
    section = search or PLAIN_SEARCH
    player = ExaminedPlayer.of(game, predictor, num_simulations, section, most_rows)
    if kind == "lines":
        walk = await walk_lines(player)
        return ExamResult(
            game,
            kind,
            num_simulations,
            walk.finished,
            walk.lost,
            wrong_answers=wrong_lines(game, walk.answers) if walk.lost else (),
        )
    sample: Sequence[LabelledPosition]
    if kind == "random":
        sample = await random_sample(game, positions, seed)
    elif kind == "good":
        sample = good_sample(positions)
    else:
        sample = chess_sample(game, kind, positions)
    answers = await answer(player, sample)
    return ExamResult(
        game,
        kind,
        num_simulations,
        len(sample),
        sum(answers.wrong),
        answers.prior_errors,
        answers.value_error,
        answers.wrong,
        tuple(
            wrong_answer(game, position.actions, action, position.best_actions, position.start)
            for position, action in zip(sample, answers.chosen, strict=True)
            if position.is_error(action)
        ),
        count_groups(sample, answers.wrong),
    )


@dataclass(frozen=True, slots=True)
class Walk:
    """Finished games of a walk through tic-tac-toe, and how many of them the player lost."""

    finished: int
    lost: int
    answers: tuple[tuple[tuple[int, ...], int], ...] = ()
    """Each position that the player met, as the actions that lead there, with its answer."""

    def __add__(self, other: Walk) -> Walk:
        return Walk(self.finished + other.finished, self.lost + other.lost)


@dataclass(frozen=True, slots=True)
class _Position:
    """A position and one way to reach it; ``key`` is the same for every way."""

    state: State
    actions: tuple[int, ...] = ()
    key: bytes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", self.state.observation().tobytes())

    def after(self, action: int) -> _Position:
        state = self.state.copy()
        state.apply(action)
        return _Position(state, (*self.actions, action))

    def replies(self) -> Iterator[_Position]:
        return map(self.after, self.state.legal_actions())


async def walk_lines(player: ExaminedPlayer) -> Walk:
    """Play against every line of the opponent, first as the first player, then as the second.

    Both walks go in step: the player moves at even plies as first player and at odd plies as
    second, so no position belongs to both.
    """
    start = _Position(State(player.game))
    openings = [start, *start.replies()]
    answers = await _answers(player, openings)
    tally: dict[bytes, Walk] = {}
    chosen = {key: action for key, (_, action) in answers.items()}
    walk = sum((_count(opening, chosen, tally) for opening in openings), Walk(0, 0))
    return replace(walk, answers=tuple(answers.values()))


def wrong_lines(
    game: str, answers: Sequence[tuple[tuple[int, ...], int]]
) -> tuple[WrongAnswer, ...]:
    """Return the positions whose answer gave up the draw or the win.

    Args:
        game: game of the walk.
        answers: each position, as the actions that lead there, with the player's answer.
    """
    found: list[WrongAnswer] = []
    known: dict[bytes, int] = {}
    for actions, chosen in answers:
        position = _Position(State(game, actions), actions)
        legal = position.state.legal_actions()
        keeping = [each for each in legal if _value(position.after(each), known) <= 0]
        if keeping and chosen not in keeping:
            found.append(wrong_answer(game, actions, chosen, keeping))
    return tuple(found)


def _value(position: _Position, known: dict[bytes, int]) -> int:
    """Return the outcome of perfect play, for the player to move: +1, 0 or -1."""
    if position.state.is_terminal:
        return -abs(position.state.result)  # the last mover has not lost
    if position.key not in known:
        known[position.key] = max(-_value(after, known) for after in position.replies())
    return known[position.key]


async def _answers(
    player: ExaminedPlayer, openings: list[_Position]
) -> dict[bytes, tuple[tuple[int, ...], int]]:
    """Return every position that the player can meet, and its action there, by key."""
    answers: dict[bytes, tuple[tuple[int, ...], int]] = {}
    level = {position.key: position for position in openings}
    while level:
        chosen = await player.choose([position.actions for position in level.values()])
        following: dict[bytes, _Position] = {}
        for position, action in zip(level.values(), chosen, strict=True):
            answers[position.key] = position.actions, action
            after = position.after(action)
            if not after.state.is_terminal:
                open_replies = (reply for reply in after.replies() if not reply.state.is_terminal)
                following.update((reply.key, reply) for reply in open_replies)
        level = following
    return answers


def _count(position: _Position, answers: dict[bytes, int], tally: dict[bytes, Walk]) -> Walk:
    """Count the games that continue from a position where the player is to move."""
    if position.key not in tally:
        after = position.after(answers[position.key])
        if after.state.is_terminal:
            tally[position.key] = Walk(1, 0)  # the last mover in tic-tac-toe has not lost
        else:
            walks = (_after_reply(reply, answers, tally) for reply in after.replies())
            tally[position.key] = sum(walks, Walk(0, 0))
    return tally[position.key]


def _after_reply(reply: _Position, answers: dict[bytes, int], tally: dict[bytes, Walk]) -> Walk:
    if reply.state.is_terminal:
        return Walk(1, int(reply.state.result != 0))
    return _count(reply, answers, tally)
