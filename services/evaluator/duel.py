"""Games between two players who choose one action at a time, many at once, in rounds of one ply."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence

from services.evaluator.board import Board, Player
from services.evaluator.match import Place
from services.evaluator.together import together


async def duel(
    game: str,
    openings: Sequence[Sequence[int]],
    missing: Collection[Place],
    players: tuple[Player, Player],
    keep: Callable[[list[Board]], Awaitable[None]],
    go: asyncio.Event,
) -> None:
    """Play the missing games and hand them over as they finish.

    Args:
        game: name of the game.
        openings: of the pairing.
        missing: the games to play; at (opening, 0) the first of the players moves first.
        players: those of the pairing.
        keep: stores games; awaited before play goes on.
        go: while it is not set, no round begins.
    """
    live = [Board.after(game, openings[opening], (opening, color)) for opening, color in missing]
    while live:
        await go.wait()
        sides = [[board for board in live if board.side == side] for side in (0, 1)]
        await together(
            *(_advance(players[side], boards) for side, boards in enumerate(sides) if boards)
        )
        finished = [board for board in live if board.ending is not None]
        live = [board for board in live if board.ending is None]
        if finished:
            await keep(finished)


async def _advance(player: Player, boards: Sequence[Board]) -> None:
    for board, answer in zip(boards, await player.choose(boards), strict=True):
        board.take(answer)
