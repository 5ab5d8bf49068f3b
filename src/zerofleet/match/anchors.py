"""Opponents that never change: random play, the search without a network, and GNU Go."""

from __future__ import annotations

import asyncio
import random
import re
import shutil
from collections.abc import Sequence
from contextlib import AsyncExitStack

import numpy as np
from numpy.typing import NDArray

from zerofleet import games
from zerofleet.errors import ConfigError
from zerofleet.games import State
from zerofleet.games.go import EMPTY, GoBoard, GoRules, is_go
from zerofleet.games.notation import COLOURS
from zerofleet.gtp.client import GtpClient
from zerofleet.gtp.protocol import GtpError
from zerofleet.match.play_match import (
    ActionPlayer,
    GaveUp,
    MatchPlayer,
    Place,
    SearchPlayer,
    together,
)
from zerofleet.prediction import Prediction
from zerofleet.search_configs import PLAIN_SEARCH, match_search

_GNUGO = re.compile(r"gnugo:(10|[1-9])")
NO_GNUGO = (
    "the program gnugo is not on PATH: install GNU Go (Debian and Ubuntu: apt-get install gnugo, "
    "and add /usr/games to PATH)"
)


def why_absent(name: str, game: str) -> str | None:
    """Return why an anchor cannot play this game here; None if it can."""
    level = _GNUGO.fullmatch(name)
    if level is None:
        return None
    if not is_go(game):
        return f"GNU Go does not play {game}"
    if gnugo_command(int(level[1]), GoRules.of(game)) is None:
        return NO_GNUGO
    return None


def anchor_player(
    name: str,
    game: str,
    num_simulations: int,
    seed: int,
    programs: AsyncExitStack,
    thinking: asyncio.Semaphore,
) -> MatchPlayer:
    """Return an anchor that can play here.

    Args:
        num_simulations: simulations of the anchor ``search``. Its other settings are constants, so
            that it is the same opponent in all runs.
        seed: seed of the anchor ``random``.
        programs: ends the programs that the anchor starts.
        thinking: limits how many programs choose an action at once.

    Raises:
        ConfigError: there is no such anchor, or it cannot play here.
    """
    if name == "random":
        return RandomPlayer(game, seed)
    if name == "search":
        return SearchPlayer(NoNetwork(game), match_search(PLAIN_SEARCH, num_simulations))
    level = _GNUGO.fullmatch(name)
    command = gnugo_command(int(level[1]), GoRules.of(game)) if level and is_go(game) else None
    if command is None:
        raise ConfigError(f"the anchor '{name}' cannot play here: {why_absent(name, game)}")
    return GtpPlayer(game, command, go_setup(GoRules.of(game)), programs, thinking)


class NoNetwork:
    """A predictor without knowledge: equal priors, every position even."""

    def __init__(self, game: str) -> None:
        self._num_actions = games.spec(game).num_actions

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        """Return zeros: policy_logits [batch, num_actions] float32, value [batch] float32."""
        await asyncio.sleep(0)  # like a remote predictor, let other tasks run
        batch = len(observations)
        return Prediction(
            np.zeros((batch, self._num_actions), np.float32), np.zeros(batch, np.float32), 0
        )


class RandomPlayer(ActionPlayer):
    """Plays legal actions with equal probability; the seed determines each ply's draw."""

    def __init__(self, game: str, seed: int) -> None:
        self._game = game
        self._seed = seed

    async def choose(self, place: Place, actions: Sequence[int], start: str = "") -> int:
        """Return a random legal action."""
        generator = random.Random(f"{self._seed} {place} {len(actions)}")
        return generator.choice(State(self._game, actions, start).legal_actions())


def gnugo_command(level: int, rules: GoRules, *, resigns: bool = True) -> list[str] | None:
    """Return the command of GNU Go for games under our rules; None if it is not installed.

    Our rules count the area, take no stones off the board at the end and forbid every repeated
    position. Therefore GNU Go plays Chinese rules, captures dead stones before it passes, and keeps
    to positional superko. Its seed is fixed, so that the opening decides the game. It may resign a
    game that it considers lost, unless ``resigns`` is false.
    """
    program = shutil.which("gnugo")
    if program is None:
        return None
    suicide = "--allow-all-suicide" if rules.suicide else "--forbid-suicide"
    options = ["--chinese-rules", "--capture-all-dead", "--positional-superko", suicide]
    if not resigns:
        options.append("--never-resign")
    return [program, "--mode", "gtp", "--level", str(level), "--seed", "1", *options]


def go_setup(rules: GoRules) -> list[str]:
    """Return the commands that begin a game of Go."""
    return [f"boardsize {rules.size}", f"komi {rules.komi:g}", "clear_board"]


def set_up_commands(game: str, start: str) -> list[str]:
    """Return the commands that set up a start position of Go, stone by stone.

    Every chain has a liberty in the whole position, and no fewer before it, so that no stone on the
    way is captured.
    """
    if not start:
        return []
    state = State(game, [], start)
    return [
        f"play {COLOURS[owner]} {state.action_to_string(point)}"
        for point, owner in enumerate(GoBoard(state).stones.tolist())
        if owner != EMPTY
    ]


class GtpPlayer(ActionPlayer):
    """A program that speaks the Go Text Protocol; each game has its own process.

    Our rules decide. A move of the program that they forbid loses its game, and so does the refusal
    of a move that they allow.

    Args:
        command: the program and its arguments.
        setup: commands that begin a game.
        programs: ends all processes together.
        thinking: limits how many programs choose an action at once, of this player and others.
    """

    def __init__(
        self,
        game: str,
        command: Sequence[str],
        setup: Sequence[str],
        programs: AsyncExitStack,
        thinking: asyncio.Semaphore,
    ) -> None:
        self._game = game
        self._command = command
        self._setup = setup
        self._clients: list[GtpClient] = []
        self._games: dict[Place, tuple[GtpClient, list[int]]] = {}
        self._thinking = thinking
        programs.push_async_callback(self._end)

    async def choose(self, place: Place, actions: Sequence[int], start: str = "") -> int | GaveUp:
        """Return the program's move.

        Raises:
            EngineGoneError: it does not start, ended, or does not answer.
            GtpError: it refuses the commands that begin a game, or loses before the first action,
                which no record can hold.
        """
        async with self._thinking:
            client, known = await self._program(place, start)
            state = State(self._game, actions, start)
            refusal = await self._tell(client, known, state, actions)
            if refusal is not None:
                return GaveUp(refusal)
            move = await client.send(f"genmove {COLOURS[state.to_play]}")
        if move.lower() == "resign":
            return self._gave_up(actions)
        try:
            action = state.string_to_action(move)
            state.copy().apply(action)
        except ValueError as error:
            reason = f"forfeit at ply {len(actions)}: {move} is illegal here: {error}"
            return self._gave_up(actions, reason)
        known.append(action)
        return action

    def _gave_up(self, actions: Sequence[int], remark: str | None = None) -> GaveUp:
        if not actions:
            how = remark or "resigned"
            raise GtpError(f"{self._command[0]} lost before the first action: {how}")
        return GaveUp(remark)

    async def _program(self, place: Place, start: str) -> tuple[GtpClient, list[int]]:
        """Return the process of a game, and the actions that it knows."""
        if place not in self._games:
            client = GtpClient(self._command)
            await client.start()
            self._clients.append(client)
            for command in (*self._setup, *set_up_commands(self._game, start)):
                await client.send(command)
            self._games[place] = client, []
        return self._games[place]

    async def _tell(
        self, client: GtpClient, known: list[int], state: State, actions: Sequence[int]
    ) -> str | None:
        """Play the actions that the program does not know; return the refusal of one, if any."""
        last = len(actions) + state.to_play  # has the parity of the player who moved first
        for ply in range(len(known), len(actions)):
            move = state.action_to_string(actions[ply])
            try:
                await client.send(f"play {COLOURS[(ply + last) % 2]} {move}")
            except GtpError as error:
                return f"forfeit at ply {ply}: refused {move}: {error}"
            known.append(actions[ply])
        return None

    async def _end(self) -> None:
        # together, so that many slow programs take no longer than one
        await together(*(client.end() for client in self._clients))
