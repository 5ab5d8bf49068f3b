"""The exam of tic-tac-toe: every line of play that an opponent can choose, as both colours.

The player's answer to a position never varies, so the games it can meet form a tree that branches
only where the opponent moves. It is walked level by level, all positions of a level in one search,
and each distinct position is searched once, however many games lead to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from zerofleet_core import State

from zerofleet.database import WrongAnswer
from zerofleet.exam.examined_player import ExaminedPlayer
from zerofleet.exam.sample import wrong_answer


@dataclass(frozen=True, slots=True)
class Walk:
    """Finished games of the walk, and how many of them the player lost."""

    finished: int
    lost: int
    answers: tuple[tuple[tuple[int, ...], int], ...] = ()
    """Each position that it met, as the actions that lead there, with its answer."""

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
    """The positions whose answer let go of the draw or the win: from there the game can be lost.

    Args:
        game: of the walk.
        answers: each position, as the actions that lead there, with the player's answer.
    """
    found: list[WrongAnswer] = []
    known: dict[bytes, int] = {}
    for actions, answer in answers:
        position = _Position(State(game, actions), actions)
        legal = position.state.legal_actions()
        keeping = [each for each in legal if _value(position.after(each), known) <= 0]
        if keeping and answer not in keeping:
            found.append(wrong_answer(game, actions, answer, keeping))
    return tuple(found)


def _value(position: _Position, known: dict[bytes, int]) -> int:
    """The outcome of perfect play, for the player to move: +1, 0 or -1."""
    if position.state.is_terminal:
        return -abs(position.state.result)  # who moved last has not lost
    if position.key not in known:
        known[position.key] = max(-_value(after, known) for after in position.replies())
    return known[position.key]


async def _answers(
    player: ExaminedPlayer, openings: list[_Position]
) -> dict[bytes, tuple[tuple[int, ...], int]]:
    """Every position that the player can meet, and its action there, by the position's key."""
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
    """Games that go on from a position where the player is to move."""
    if position.key not in tally:
        after = position.after(answers[position.key])
        if after.state.is_terminal:
            tally[position.key] = Walk(1, 0)  # who moves last in tic-tac-toe has not lost
        else:
            walks = (_after_reply(reply, answers, tally) for reply in after.replies())
            tally[position.key] = sum(walks, Walk(0, 0))
    return tally[position.key]


def _after_reply(reply: _Position, answers: dict[bytes, int], tally: dict[bytes, Walk]) -> Walk:
    if reply.state.is_terminal:
        return Walk(1, int(reply.state.result != 0))
    return _count(reply, answers, tally)
