"""Perfect play of Connect Four, in its first plies by a file of scores.

The solver needs a second for a score of six plies, several for one of five and most of a minute for
that of the empty board. The file has a line for each position of six plies, positions that differ
by the mirror once: the actions that lead there and the score (``connect_four_score``), which all
earlier ones follow from. ``write_file`` solves all of these positions again, which takes hours, and
overwrites the file.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from zerofleet_core import (
    State,
    connect_four_action_outcomes,
    connect_four_best_actions,
    connect_four_outcome,
    connect_four_score,
)

from zerofleet.exam.sample import GAME, symmetry_key

KEPT_PLIES = 6
"""Scores of no more actions than these need no solver; nobody can have won by then."""
_FILE = Path(__file__).with_name("opening_scores.txt")


def outcome(actions: Sequence[int]) -> int:
    """Of perfect play after these actions, for the player to move: +1, 0 or -1."""
    if len(actions) > KEPT_PLIES:
        return connect_four_outcome(actions)
    return _sign(_kept()[_key(actions)])


def action_outcomes(actions: Sequence[int]) -> list[int | None]:
    """Of each action after these, for the player to move; None where it is illegal."""
    if len(actions) >= KEPT_PLIES:
        return connect_four_action_outcomes(actions)
    return [_sign(score) for score in _action_scores(actions)]


def best_actions(actions: Sequence[int]) -> list[int]:
    """Those that keep the score: they win as soon as possible, or resist as long as possible."""
    if len(actions) >= KEPT_PLIES:
        return connect_four_best_actions(actions)
    scores = _action_scores(actions)
    return [action for action, score in enumerate(scores) if score == max(scores)]


def _action_scores(actions: Sequence[int]) -> list[int]:
    """Of all seven actions, after fewer than ``KEPT_PLIES``: no column is full by then."""
    return [-_kept()[_key([*actions, action])] for action in State(GAME, actions).legal_actions()]


def _sign(score: int) -> int:
    return (score > 0) - (score < 0)


def _key(actions: Sequence[int]) -> bytes:
    return symmetry_key(State(GAME, actions))


@functools.cache
def _kept() -> dict[bytes, int]:
    """The score of each position of ``KEPT_PLIES`` actions or fewer, for the player to move."""
    *earlier, last = _levels()
    lines = _FILE.read_text(encoding="ascii").splitlines()
    scores = {key: int(line.split(" ")[1]) for key, line in zip(last, lines, strict=True)}
    for level in reversed(earlier):
        scores |= {
            key: max(-scores[after] for after in found.after) for key, found in level.items()
        }
    return scores


@dataclass(frozen=True, slots=True)
class _OpeningPosition:
    """By the first way to it, and the keys of those that one more action leads to."""

    actions: list[int]
    after: list[bytes] = field(default_factory=list[bytes])


def _levels() -> list[dict[bytes, _OpeningPosition]]:
    """The positions of 0, 1, ... ``KEPT_PLIES`` actions by key, those of the last in file order."""
    levels = [{_key([]): _OpeningPosition([])}]
    for _ in range(KEPT_PLIES):
        found: dict[bytes, _OpeningPosition] = {}
        for position in levels[-1].values():
            for action in State(GAME, position.actions).legal_actions():
                actions = [*position.actions, action]
                position.after.append(_key(actions))
                found.setdefault(position.after[-1], _OpeningPosition(actions))
        levels.append(found)
    return levels


def write_file() -> None:
    """Solve all positions anew and write them to the file of this package."""
    lines = [each.actions for each in _levels()[-1].values()]
    text = "".join(f"{''.join(map(str, each))} {connect_four_score(each)}\n" for each in lines)
    _FILE.write_text(text, encoding="ascii")
