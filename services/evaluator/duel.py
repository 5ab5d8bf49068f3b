"""Games between two players who choose one action at a time, many at once, in rounds of one ply."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence

from services.evaluator.board import Board, Player
from services.evaluator.roster import Place
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

    The two colours are played apart. A round lasts as long as its slower player; within a colour
    all boards are that player's at the same time, so that its searches share their requests.

    Args:
        game: name of the game.
        openings: of the pairing.
        missing: the games to play; at (opening, 0) the first of the players moves first.
        players: those of the pairing.
        keep: stores games; awaited before those that moved with them go on.
        go: while it is not set, no round begins.
    """
    boards = [Board.after(game, openings[place[0]], place) for place in sorted(missing)]
    colors = [[board for board in boards if board.place[1] == color] for color in (0, 1)]
    await together(*(_in_rounds(live, players, keep, go) for live in colors))


async def _in_rounds(
    live: Sequence[Board],
    players: tuple[Player, Player],
    keep: Callable[[list[Board]], Awaitable[None]],
    go: asyncio.Event,
) -> None:
    """Play these games, a ply of each in a round."""
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
