"""A game of a person against a model, over ``zerofleet.v1.Player``."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Protocol, Self

from rich.console import Console
from rich.table import Table
from rich.text import Text
from zerofleet_core import State

from zerofleet.cli.terminal import echo
from zerofleet.client import Player, SearchTable
from zerofleet.fleet.report import counted
from zerofleet.games.chess import is_chess
from zerofleet.games.notation import player_letters, player_names, read_action, why_illegal
from zerofleet.printable import printable
from zerofleet.rpc.tls import ClientCredentials

_HELP = """Type an action as the board shows it, or
  hint   show the model's search; the prior is the network's policy before it
  undo   take your last action back
  board  show the board again
  new    start a new game
  quit   leave (also Ctrl-D)"""
_CHESS_HELP = "Moves are in standard algebraic notation (Nf3) or as in UCI (g1f3)."
_GREETING_SECONDS = 5.0


class Opponent(Protocol):
    """Answers with searches of positions."""

    game: str
    version: int

    def search(self, actions: list[int], start: str) -> SearchTable:
        """Return the search of a position, given by the actions from a start position."""
        ...


class RemoteOpponent:
    """A model that answers over the network.

    Args:
        address: address of an inference service.
        run: run whose model answers; empty: the server's run.
        version: "best" or a decimal version.
        simulations: simulations for each search; None: as the run file says.
    """

    def __init__(
        self,
        address: str,
        run: str,
        game: str,
        version: str,
        simulations: int | None,
        credentials: ClientCredentials,
    ) -> None:
        self.game = game
        self.version = 0
        self._requested = version
        self._simulations = simulations
        self._player = Player(address, run=run, **credentials)
        # A short timeout, because a person waits.
        self._greeter = Player(address, run=run, timeout=_GREETING_SECONDS, **credentials)

    def __enter__(self) -> Self:
        with self._greeter as greeter:
            self.version = greeter.predict(game=self.game, version=self._requested).version
        return self

    def __exit__(self, *exception: object) -> None:
        self._player.close()

    def search(self, actions: list[int], start: str) -> SearchTable:
        """Return the search of a position, given by the actions from a start position."""
        return self._player.search(
            actions,
            start=start,
            game=self.game,
            version=self._requested,
            simulations=self._simulations,
        )


class InteractiveGame:
    """Alternates between the person and the opponent, until the person leaves.

    Args:
        you: 0 for the first player, 1 for the second.
        start: position that the games begin at; empty: the usual start.
        ask: shows a prompt and reads a line; EOFError ends the game.
        say: shows text.
    """

    def __init__(
        self,
        opponent: Opponent,
        you: int,
        *,
        start: str = "",
        ask: Callable[[str], str] = input,
        say: Callable[[str], None] = echo,
    ) -> None:
        self._opponent = opponent
        self._you = you
        self._start = start
        self._ask = ask
        self._say = say
        self._actions: list[int] = []
        self._name = player_names(opponent.game)[you]

    def play(self) -> None:
        """Play until the person leaves."""
        opponent = f"{self._opponent.game} against model {self._opponent.version}"
        letters = player_letters(self._opponent.game)
        pieces = f" ({letters[self._you]} on the board)" if letters else ""
        self._say(f"You are {self._name}{pieces} in {opponent}.\n{_HELP}\n")
        self._say(_CHESS_HELP if is_chess(self._opponent.game) else self._examples())
        try:
            while self._turn():
                pass
        except (EOFError, KeyboardInterrupt):
            self._say("")

    def _examples(self) -> str:
        """Return a line with the first legal actions, as examples of how to write them."""
        state = State(self._opponent.game, [], self._start)
        legal = [state.action_to_san(each) for each in state.legal_actions()[:3]]
        return f"Actions are written as {' or '.join(legal)}."

    def _turn(self) -> bool:
        """Play one action or run one command; return False when the person leaves."""
        state = State(self._opponent.game, self._actions, self._start)
        if not state.is_terminal and state.to_play != self._you:
            self._answer(state)
            return True
        self._say(f"\n{state}\n")
        if state.is_terminal:
            self._say(f"{self._outcome(state)} Type new, undo or quit.")
        prompt = "> " if state.is_terminal else f"your action ({self._name.removeprefix('the ')})> "
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
            case "hint" if state.is_terminal:
                self._say("The game is over: there is nothing to hint at.")
            case "hint":
                self._say(hint_table(state, self._opponent.search(self._actions, self._start)))
            case _:
                self._act(line, state)
        return True

    def _act(self, line: str, state: State) -> None:
        try:
            action = read_action(state, line)
        except ValueError as error:
            self._refuse(str(error), state)
            return
        try:
            state.copy().apply(action)
        except ValueError:
            over = state.is_terminal
            self._refuse("the game is over" if over else why_illegal(state, action, line), state)
        else:
            self._actions.append(action)

    def _refuse(self, reason: str, state: State) -> None:
        possible = ", ".join(state.action_to_san(each) for each in state.legal_actions())
        self._say(f"{reason}\npossible now: {possible}" if possible else reason)

    def _answer(self, state: State) -> None:
        table = self._opponent.search(self._actions, self._start)
        action = table.best_action
        simulations = counted(table.simulations, "simulation")
        self._say(
            f"model {table.version} plays {state.action_to_san(action)} "
            f"(expects {table.root_value:+.2f} for itself, {simulations})"
        )
        self._actions.append(action)

    def _undo(self) -> None:
        """Go back to the person's last decision, if there was one."""
        state = State(self._opponent.game, [], self._start)
        mine: list[int] = []
        for ply, action in enumerate(self._actions):
            if state.to_play == self._you:  # a player may have several moves in a row
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


_MOST_ROWS = 8
_VARIATION_PLIES = 8


def hint_table(state: State, search: SearchTable) -> str:
    """Return a table with visits, prior, value and expected line of each action, best first.

    Values are for the person, who is the player to move.
    """
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("action")
    for number in ("visits", "prior", "value for you"):
        table.add_column(number, justify="right")
    table.add_column("expected line")
    ranked = search.ranked
    for child in ranked[:_MOST_ROWS]:
        table.add_row(
            Text(printable(state.action_to_san(child.action))),
            str(child.visit_count),
            f"{child.prior:.0%}",
            "-" if child.q_value is None else f"{child.q_value:+.2f}",
            _variation(state, child.principal_variation[:_VARIATION_PLIES]),
        )
    text = io.StringIO()
    Console(file=text, width=100).print(table)
    if len(ranked) > _MOST_ROWS:
        text.write(f"and {counted(len(ranked) - _MOST_ROWS, 'action')} more\n")
    value = f"value of the position for you: {search.root_value:+.2f}"
    simulations = counted(search.simulations, "simulation")
    return f"{text.getvalue()}{value} (model {search.version}, {simulations})"


def _variation(state: State, actions: tuple[int, ...]) -> str:
    state = state.copy()
    words: list[str] = []
    for action in actions:
        words.append(state.action_to_san(action))
        state.apply(action)
    return " ".join(words)
