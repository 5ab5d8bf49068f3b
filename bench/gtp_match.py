r"""Play two GTP programs against each other, under the rules of a run's game.

``python -m bench.gtp_match 'go(size=9,komi=7,suicide=false)' --games 10 \\
    --first 'zerofleet gtp --data DATA' \\
    --second 'gnugo --mode gtp --level 1 --chinese-rules --capture-all-dead --positional-superko'``

Colours alternate: the first program has Black in games 1, 3, 5 and so on. A program loses the game
if it plays a move that the rules forbid, or refuses a move that they allow.

Both programs restart for each game. ``{game}`` in a command becomes the number of the game, for
example as a seed. ``--sgf FOLDER`` writes the games.
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
_ANSWER_SECONDS = 600


@dataclass(frozen=True)
class Game:
    """Result of one game, from the first program's point of view."""

    number: int  # from 1
    first_colour: str
    score: float  # 1 won, 0.5 drawn, 0 lost
    plies: int
    ending: str  # "area", "resignation", or the illegal or refused move
    seconds: float
    moves: str  # GTP vertices and passes, separated by spaces


async def play(name: str, commands: tuple[str, str], number: int) -> Game:
    """Play one game.

    Args:
        name: Go with its rules.
        commands: command lines of the first and of the second program.
        number: number of the game, from 1; the first program has Black if it is odd.

    Raises:
        EngineGoneError: a program ended or does not answer.
        GtpError: a program refuses the board, the komi or ``genmove``.
    """
    rules = GoRules.of(name)
    black = (number - 1) % 2  # program that has Black: 0 the first, 1 the second
    order = (commands[black], commands[1 - black])
    state = State(name)
    moves: list[str] = []
    ending = "area"
    loser: int | None = None
    began = time.monotonic()
    async with AsyncExitStack() as programs:
        players = [
            await programs.enter_async_context(
                GtpClient(
                    shlex.split(command.replace("{game}", str(number))), timeout=_ANSWER_SECONDS
                )
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
    """Play games, and print a line to standard error when one ends.

    Args:
        name: Go with its rules.
        commands: command lines of the first and of the second program.
        games: number of games.
        at_once: most games in play at the same time.

    Returns:
        The games by number.

    Raises:
        EngineGoneError, GtpError: see ``play``.
    """
    slots = asyncio.Semaphore(at_once)

    async def play_one(number: int) -> Game:
        async with slots:
            game = await play(name, commands, number)
        print(
            f"game {number}: first program {game.first_colour}, score {game.score:g}, "
            f"{game.plies} plies, {game.ending}, {game.seconds:.0f} s",
            file=sys.stderr,
            flush=True,
        )
        return game

    return await asyncio.gather(*(play_one(number) for number in range(1, games + 1)))


def main() -> None:
    """Play the match and print its result."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.gtp_match", description="Play two GTP programs against each other."
    )
    parser.add_argument(
        "game", help="game with its rules, such as 'go(size=9,komi=7,suicide=false)'"
    )
    parser.add_argument("--first", required=True, help="command line of the first program")
    parser.add_argument("--second", required=True, help="command line of the second program")
    parser.add_argument("--games", type=int, default=2, help="number of games [2]")
    parser.add_argument("--at-once", type=int, default=1, help="games at the same time [1]")
    parser.add_argument(
        "--json", action="store_true", help="also print one JSON object per line for each game"
    )
    parser.add_argument("--sgf", type=Path, help="folder for the games as SGF files")
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
    """Write each game to ``game-NUMBER.sgf``.

    Args:
        name: Go with its rules.
        commands: command lines of both programs; their first words become the players' names.
        games: the games of a match.
        folder: created if it does not exist.
    """
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
