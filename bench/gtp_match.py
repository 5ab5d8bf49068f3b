r"""Two GTP programs play each other; the rules of a run's game decide.

``python -m bench.gtp_match 'go(size=9,komi=7,suicide=false)' --games 10 \\
    --first 'zerofleet gtp --data DATA' \\
    --second 'gnugo --mode gtp --level 1 --chinese-rules --capture-all-dead --positional-superko'``

Colours alternate: the first program has Black in game 1, 3, ... A move that the rules forbid, or
the refusal of one that they allow, loses the game. Both programs are started anew for each game, so
that a program's seed is the game's number where ``{game}`` stands in its command. ``--sgf FOLDER``
keeps the games.
"""

import argparse
import asyncio
import json
import shlex
import sys
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from zerofleet.games import State, parse_actions, sgf
from zerofleet.games.go import GoRules
from zerofleet.gtp.client import EngineGoneError, GtpClient
from zerofleet.gtp.protocol import GtpError

COLOURS = ("black", "white")


@dataclass(frozen=True)
class Game:
    """How one game went, as the first program sees it."""

    number: int
    first_colour: str
    score: float  # 1 won, 0.5 drawn, 0 lost
    plies: int
    ending: str
    seconds: float
    moves: str


async def play(name: str, commands: tuple[str, str], number: int) -> Game:
    """One game; ``commands`` are the first and the second program's."""
    rules = GoRules.of(name)
    black = (number - 1) % 2  # which program has Black
    order = (commands[black], commands[1 - black])
    state = State(name)
    moves: list[str] = []
    ending = "area"
    loser: int | None = None
    began = time.monotonic()
    async with AsyncExitStack() as programs:
        players = [
            await programs.enter_async_context(
                GtpClient(shlex.split(command.replace("{game}", str(number))), timeout=600)
            )
            for command in order
        ]
        for player in players:
            for line in (f"boardsize {rules.size}", f"komi {rules.komi:g}", "clear_board"):
                await player.send(line)
        while not state.is_terminal:
            mover = state.to_play
            move = (await players[mover].send(f"genmove {COLOURS[mover]}")).strip()
            if move.lower() == "resign":
                ending, loser = "resignation", mover
                break
            try:
                state.apply(state.string_to_action(move))
            except ValueError as error:
                ending, loser = f"illegal move {move}: {error}", mover
                break
            moves.append(move)
            try:
                await players[1 - mover].send(f"play {COLOURS[mover]} {move}")
            except GtpError as error:
                ending, loser = f"refused move {move}: {error}", 1 - mover
                break
    result = state.result if loser is None else (-1 if loser == 0 else 1)
    score = (result + 1) / 2
    return Game(
        number,
        COLOURS[black],
        score if black == 0 else 1 - score,
        len(moves),
        ending,
        time.monotonic() - began,
        " ".join(moves),
    )


async def match(name: str, commands: tuple[str, str], games: int, at_once: int) -> list[Game]:
    """Play the games, some of them at once, and tell of each as it ends."""
    free = asyncio.Semaphore(at_once)

    async def one(number: int) -> Game:
        async with free:
            game = await play(name, commands, number)
        print(
            f"game {number}: first program {game.first_colour}, score {game.score:g}, "
            f"{game.plies} plies, {game.ending}, {game.seconds:.0f} s",
            file=sys.stderr,
            flush=True,
        )
        return game

    return await asyncio.gather(*(one(number) for number in range(1, games + 1)))


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(description="Two GTP programs play each other.")
    parser.add_argument("game", help="such as 'go(size=9,komi=7,suicide=false)'")
    parser.add_argument("--first", required=True, help="command line of the first program")
    parser.add_argument("--second", required=True, help="command line of the second program")
    parser.add_argument("--games", type=int, default=2)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="one object a line instead of text")
    parser.add_argument("--sgf", type=Path, help="folder that the games are written to")
    options = parser.parse_args()
    commands = (options.first, options.second)
    try:
        games = asyncio.run(match(options.game, commands, options.games, options.at_once))
    except (EngineGoneError, GtpError) as error:
        sys.exit(str(error))
    if options.sgf:
        write_sgf(options.game, commands, games, options.sgf)
    if options.json:
        for game in games:
            print(json.dumps(asdict(game)))
    scores = Counter(game.score for game in games)
    print(
        f"first program: {scores[1.0]} won, {scores[0.5]} drawn, {scores[0.0]} lost of {len(games)}"
    )


def write_sgf(name: str, commands: tuple[str, str], games: list[Game], folder: Path) -> None:
    """One file for each game."""
    folder.mkdir(parents=True, exist_ok=True)
    for game in games:
        black = 0 if game.first_colour == "black" else 1
        played = sgf.SgfGame(
            name,
            parse_actions(name, game.moves),
            black=commands[black].split()[0],
            white=commands[1 - black].split()[0],
            resigned=game.ending == "resignation",
        )
        (folder / f"game-{game.number}.sgf").write_text(sgf.write(played), encoding="utf-8")


if __name__ == "__main__":
    main()
