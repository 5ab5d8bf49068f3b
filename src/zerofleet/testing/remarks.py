"""What the contract of a game allows, and what still keeps a game from being learnt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from zerofleet_core import GameSpec

from zerofleet.games import State

_TELLING_GAMES = 10  # fewer random games may have one winner by chance


def remarks(
    sizes: GameSpec, lines: Sequence[Sequence[int]], results: Mapping[int, int]
) -> tuple[str, ...]:
    """What to look at in a game, in sentences that go on from "but".

    Args:
        sizes: the game.
        lines: random games, each the actions from the start to the end.
        results: how many of them ended +1, -1 and 0.
    """
    found: list[str] = []
    if not _shows_whose_turn(sizes, lines):
        found.append(
            "observation() does not say whose turn it is, and the network sees nothing else: add "
            "a plane of ones when the second player is to play"
        )
    if len(results) == 1 and len(lines) >= _TELLING_GAMES:
        [result] = results
        ended = {1: "won by the first player", -1: "won by the second", 0: "drawn"}[result]
        found.append(
            f"all {len(lines)} random games were {ended}: look whether apply() sets result for "
            "the first player, +1 where they won, whoever moved last"
        )
    return tuple(found)


def _shows_whose_turn(sizes: GameSpec, lines: Sequence[Sequence[int]]) -> bool:
    """Whether the planes go with the side to move, as far as random games show it.

    Either a point does in every position; or the planes are seen by who moves, as one's own and the
    opponent's: then a plane is nearer to another one of the next ply, on the board as it is or
    turned to the mover, than to itself.
    """
    games = [_seen_turns(sizes, line) for line in lines]
    seen, second = (np.concatenate(parts) for parts in zip(*games, strict=True))
    goes_with = seen == second[:, None, None, None]
    if goes_with.all(0).any() or (~goes_with).all(0).any():
        return True
    before = np.concatenate([planes[:-1][turns[1:] != turns[:-1]] for planes, turns in games])
    after = np.concatenate([planes[1:][turns[1:] != turns[:-1]] for planes, turns in games])
    views = [after, after[:, :, ::-1], after[:, :, ::-1, ::-1]]
    for plane in range(seen.shape[1]):
        others = [other for other in range(seen.shape[1]) if other != plane]
        here = before[:, plane]
        near = [(here != view[:, other]).sum() for view in views for other in others]
        if near and min(near) < (here != after[:, plane]).sum():
            return True
    return False


def _seen_turns(
    sizes: GameSpec, line: Sequence[int]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Of each ply of a game the planes, ``[plies, *observation_shape]``, and if second to play."""
    state, planes, second = State(sizes.name), list[NDArray[np.uint8]](), list[bool]()
    for action in line:
        planes.append(np.unpackbits(state.observation()))
        second.append(state.to_play == 1)
        state.apply(action)
    count = sizes.observation_shape[0] * sizes.board_points
    bits = np.array(planes, np.bool_)[:, :count]
    return bits.reshape(len(line), *sizes.observation_shape), np.array(second)
