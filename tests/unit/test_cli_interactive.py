"""A person at the prompt, line by line, against an opponent that answers by rote."""

import random
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from zerofleet_core import State

from zerofleet.cli.interactive import InteractiveGame, hint_table
from zerofleet.cli.play import playable_start
from zerofleet.errors import ConfigError
from zerofleet.rpc.player_service import SearchChild, SearchTable


class FirstFree:
    """Always wants the first legal action."""

    game = "tic_tac_toe"
    version = 7

    def search(self, actions: list[int], start: str) -> SearchTable:
        state = State(self.game, actions, start)
        children = tuple(
            SearchChild(
                action=action,
                action_string=state.action_to_string(action),
                visit_count=9 - rank,
                prior=1 / len(state.legal_actions()),
                q_value=None if rank else 0.25,
                principal_variation=(action,),
            )
            for rank, action in enumerate(state.legal_actions())
        )
        best = children[0]
        return SearchTable(
            "run", 7, state.to_play, 9, 0.25, 0.0, best.action, best.action_string, children, True
        )


class ChessPlayer(FirstFree):
    """The same in chess."""

    game = "chess"


def played(
    lines: list[str], you: int = 0, start: str = "", opponent: FirstFree | None = None
) -> str:
    """Everything a person sees who types these lines and then Ctrl-D."""
    text: list[str] = []
    typed = iter(lines)

    def ask(prompt: str) -> str:
        text.append(prompt)
        line = next(typed, None)
        if line is None:
            raise EOFError
        return line

    InteractiveGame(opponent or FirstFree(), you, start=start, ask=ask, say=text.append).play()
    return "\n".join(text)


@pytest.fixture
def name() -> Callable[[int], str]:
    return State("tic_tac_toe").action_to_string


def test_a_won_game_is_called_won(name: Callable[[int], str]) -> None:
    text = played([name(4), name(2), name(6)])
    assert "You win." in text
    assert "model 7 plays" in text
    assert "expects +0.25 for itself" in text


def test_an_action_may_be_its_number(name: Callable[[int], str]) -> None:
    assert played(["4", "2", "6"]) == played([name(4), name(2), name(6)])
    assert "the actions are 0 to 8\npossible now: a1" in played(["9"])


def test_a_lost_game_and_undo(name: Callable[[int], str]) -> None:
    lost = played([name(3), name(4), name(8)])
    assert "The model wins." in lost
    assert "You win." in played([name(3), name(4), name(8), "undo", name(5)])


def test_a_game_from_a_position_comes_back_to_it(name: Callable[[int], str]) -> None:
    start = "xx1/3/oo1 x"
    text = played(["hint", "b2", "undo", "c1", "new", "board"], start=start)
    assert text.count(str(State("tic_tac_toe", [], start))) >= 4
    assert "model 7 plays c1" in text
    assert "You win." in text
    assert "possible now" not in text


def test_a_position_on_the_command_line_is_checked() -> None:
    assert playable_start("tic_tac_toe", " xx1/3/oo1  x ") == "xx1/3/oo1 x"
    assert playable_start("tic_tac_toe", "3/3/3 x") == playable_start("tic_tac_toe", "") == ""
    for text, reason in (
        ("xx1/3/3 x", "2 x and 0 o"),
        ("xxx/oo1/3 o", "the game is over in 'xxx/oo1/3 o'"),
    ):
        with pytest.raises(ConfigError, match=f"--position: .*{reason}"):
            playable_start("tic_tac_toe", text)
    with pytest.raises(ConfigError, match="unknown game 'tic_tac'"):
        playable_start("tic_tac", "")


def test_the_second_player_waits_for_the_first_action() -> None:
    text = played([], you=1)
    assert text.index("model 7 plays") < text.index("your action (O)")
    assert "nothing to take back" in played(["undo"], you=1)


def test_illegal_and_unknown_input_says_what_is_possible(name: Callable[[int], str]) -> None:
    text = played(["nonsense", name(4), name(4)])
    assert "nonsense" in text
    assert text.count("possible now:") == 2
    assert f"{name(4)} is taken\npossible now:" in text


def test_commands(name: Callable[[int], str]) -> None:
    text = played(["help", "hint", "board", "", name(4), "new", "quit", name(0)])
    assert text.count("Type an action") == 2
    assert "expected line" in text
    assert text.count("model 7 plays") == 1


def test_the_hint_shows_the_most_visited_first() -> None:
    state = State("tic_tac_toe")
    rows = hint_table(state, FirstFree().search([], "")).splitlines()
    assert rows[0].split()[:2] == ["action", "visits"]
    assert rows[1].split()[:4] == [state.action_to_string(0), "9", "11%", "+0.25"]
    assert rows[2].split()[3] == "-"
    assert "model 7, 9 simulations" in rows[-1]


def test_one_simulation_is_no_plural() -> None:
    search = replace(FirstFree().search([], ""), simulations=1)
    assert hint_table(State("tic_tac_toe"), search).endswith("(model 7, 1 simulation)")


def test_a_hint_after_the_end_says_that_the_game_is_over(name: Callable[[int], str]) -> None:
    text = played([name(4), name(2), name(6), "hint", "help"])
    assert "The game is over: there is nothing to hint at." in text
    assert "\n  new    start a new game\n" in text


def test_undo_where_a_player_moves_again() -> None:
    """In Dots and Boxes whoever closes a box does."""

    class Boxes(FirstFree):
        game = "openspiel:dots_and_boxes(num_rows=1,num_cols=2)"

    generator = random.Random(1)
    players: list[int] = []
    while players[-3:] != [0, 0, 1]:
        state = State(Boxes.game)
        actions: list[int] = []
        players = []
        while not state.is_terminal and players[-3:] != [0, 0, 1]:
            players.append(state.to_play)
            actions.append(generator.choice(state.legal_actions()))
            state.apply(actions[-1])
    game = InteractiveGame(Boxes(), 0)
    game._actions = list(actions)
    game._undo()
    assert game._actions == actions[:-2]


def test_chess_is_played_in_standard_algebraic_notation_and_in_that_of_uci() -> None:
    start = "r3k3/P6p/8/8/8/8/7P/4K3 w q - 0 1"
    text = played(["a1a2", "hint", "Kd2", "undo", "e1f1"], start=start, opponent=ChessPlayer())
    assert "You are White in chess against model 7." in text
    assert "a1a2 is not possible here\npossible now: h4, h3, K" in text
    assert re.search(r"^h4 +9 .* h4 *$", text, re.MULTILINE)
    assert "your action (White)" in text
    assert text.count("model 7 plays h5") == 2
    black = played(["O-O-O"], 1, start, ChessPlayer())
    assert "You are Black in chess" in black
    assert "model 7 plays h4" in black
    assert black.count("model 7 plays") == 2
