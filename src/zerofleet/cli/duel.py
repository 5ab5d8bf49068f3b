"""A game of a person against a model, over ``zerofleet.v1.Player``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, Self, TypeVar

import typer
from zerofleet_core import State

from zerofleet.cli.hint import hint_table
from zerofleet.rpc.credentials import ClientCredentials
from zerofleet.rpc.player import SearchOptions, SearchTable
from zerofleet.rpc.player_client import PlayerClient

_Answer = TypeVar("_Answer")
_HELP = """Type an action as it stands on the board, or
  hint   what the model would do, and why
  undo   take your last action back
  board  show the board again
  quit   leave (also Ctrl-D)"""
_GREETING_SECONDS = 5.0
_LOCAL = ClientCredentials()
_SIDES = ("first", "second")


class Opponent(Protocol):
    """Who answers."""

    game: str
    version: int

    def search(self, actions: list[int]) -> SearchTable:
        """Its whole opinion of a position."""
        ...


class RemoteOpponent:
    """A model that answers over the wire.

    Args:
        address: of an inference service.
        run: whose model; empty: the server's run.
        game: that it plays.
        version: "best" or a decimal version.
        simulations: for each search; None: as the run file says.
        credentials: what to show to the service.
    """

    def __init__(
        self,
        address: str,
        run: str,
        game: str,
        version: str,
        simulations: int | None,
        credentials: ClientCredentials = _LOCAL,
    ) -> None:
        self.game = game
        self.version = 0
        self._address = address
        self._credentials = credentials
        self._client = PlayerClient(address, credentials=credentials)
        self._model = {"run": run, "version": version}
        self._options = SearchOptions(num_simulations=simulations)
        # The loop runs only while an answer is awaited, so that Ctrl-C works at the prompt.
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        try:
            self.version = self._run(self._greet())
            self._run(self._client.__aenter__())
        except BaseException:
            self._runner.close()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self._run(self._client.__aexit__(None, None, None))
        self._runner.close()

    def search(self, actions: list[int]) -> SearchTable:
        """Its whole opinion of a position."""
        return self._run(
            self._client.search(self.game, actions, **self._model, options=self._options)
        )

    async def _greet(self) -> int:
        """The model's version, asked with little patience: somebody sits and waits."""
        async with PlayerClient(
            self._address, timeout=_GREETING_SECONDS, credentials=self._credentials
        ) as client:
            return (await client.predict(self.game, [], **self._model)).version

    def _run(self, call: Coroutine[Any, Any, _Answer]) -> _Answer:
        return self._runner.run(call)


class Duel:
    """Asks the person and the opponent in turn, until the person leaves.

    Args:
        opponent: who answers.
        you: 0 the first player, 1 the second.
        ask: shows a prompt and reads a line; EOFError ends the duel.
        say: shows text.
    """

    def __init__(
        self,
        opponent: Opponent,
        you: int,
        *,
        ask: Callable[[str], str] = input,
        say: Callable[[str], None] = typer.echo,
    ) -> None:
        self._opponent = opponent
        self._you = you
        self._ask = ask
        self._say = say
        self._actions: list[int] = []

    def play(self) -> None:
        """Play until the person leaves."""
        opponent = f"{self._opponent.game} against model {self._opponent.version}"
        self._say(f"You are the {_SIDES[self._you]} player of {opponent}.\n{_HELP}\n")
        try:
            while self._turn():
                pass
        except (EOFError, KeyboardInterrupt):
            self._say("")

    def _turn(self) -> bool:
        """One action of either side, or one command; False when the person leaves."""
        state = State(self._opponent.game, self._actions)
        if not state.is_terminal and state.to_play != self._you:
            self._answer(state)
            return True
        self._say(f"\n{state}\n")
        if state.is_terminal:
            self._say(f"{self._outcome(state)} Type new, undo or quit.")
        prompt = "> " if state.is_terminal else f"your action ({_SIDES[self._you]} player)> "
        return self._obey(self._ask(prompt).strip(), state)

    def _obey(self, line: str, state: State) -> bool:
        match line.lower():
            case "quit" | "q" | "exit":
                return False
            case "" | "board":
                pass
            case "help" | "h" | "?":
                self._say(_HELP)
            case "undo" | "u":
                self._undo()
            case "new":
                self._actions.clear()
            case "hint" if not state.is_terminal:
                self._say(hint_table(state, self._opponent.search(self._actions)))
            case _:
                self._act(line, state)
        return True

    def _act(self, line: str, state: State) -> None:
        try:
            action = state.string_to_action(line)
            state.copy().apply(action)
        except ValueError as error:
            possible = ", ".join(state.action_to_string(each) for each in state.legal_actions())
            self._say(f"{error}\npossible now: {possible or 'nothing, the game is over'}")
        else:
            self._actions.append(action)

    def _answer(self, state: State) -> None:
        table = self._opponent.search(self._actions)
        action = table.best_action
        self._say(
            f"model {table.version} plays {state.action_to_string(action)} "
            f"(expects {table.root_value:+.2f} for itself, {table.simulations} simulations)"
        )
        self._actions.append(action)

    def _undo(self) -> None:
        """Back to the person's last decision, if there was one."""
        state = State(self._opponent.game)
        mine: list[int] = []
        for ply, action in enumerate(self._actions):
            if state.to_play == self._you:  # who may have several moves in a row
                mine.append(ply)
            state.apply(action)
        if mine:
            del self._actions[mine[-1] :]
        else:
            self._say("There is nothing to take back.")

    def _outcome(self, state: State) -> str:
        if state.result == 0:
            return "A draw."
        winner = 0 if state.result > 0 else 1
        return "You win." if winner == self._you else "The model wins."
