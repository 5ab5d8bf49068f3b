from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np
import pyspiel
import pytest
from numpy.typing import NDArray

from zerofleet import games
from zerofleet.errors import ConfigError
from zerofleet.games import State
from zerofleet.games.openspiel import PlaneCode, Tensor, playable_games


def planes(state: State) -> NDArray[np.uint8]:
    shape = games.spec(state.game).observation_shape
    return np.unpackbits(state.observation(), count=int(np.prod(shape))).reshape(shape)


def test_which_games_are_played() -> None:
    playable = playable_games()
    assert len(playable) >= 31
    assert {"openspiel:chess", "openspiel:hex", "openspiel:shogi"} <= set(playable)
    assert not {"openspiel:backgammon", "openspiel:kuhn_poker"} & set(playable)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("backgammon", "'backgammon' cannot be played here: chance takes part"),
        ("kuhn_poker", "chance takes part; a player does not see everything"),
        ("dark_chess", "does not see everything"),
        ("goofspiel", "the players do not move one after the other"),
        ("matrix_pd", "not zero-sum"),
        ("chinese_checkers(players=3)", "for 3 players, not 2"),
        ("ches", "no game 'ches'; did you mean 'openspiel:chess'"),
        ("hex(bord_size=5)", "does not make 'hex.*Unknown parameter 'bord_size'"),
        ("", "no game ''"),
    ],
)
def test_what_is_missing_is_said(name: str, message: str) -> None:
    for ask in (games.spec, State):
        with pytest.raises(ConfigError, match=message):
            ask(f"openspiel:{name}")


@pytest.mark.parametrize("family", ["efg_game", "misere(game=efg_game", "bargaining", "crossword"])
@pytest.mark.parametrize("key", ["filename", "instances_file", "puzzles_root", "FILE "])
def test_a_name_opens_no_file(family: str, key: str, tmp_path: Path) -> None:
    """OpenSpiel's own message would contain a line of the file."""
    secret = tmp_path / "secret"
    secret.write_text("zf-secret-line")
    with pytest.raises(ConfigError, match="reads files") as caught:
        games.spec(f"openspiel:{family}({key}={secret})")
    assert "zf-secret-line" not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["hex(board_size=-1)", "hex(board_size=0)", "mnk(m=-5)", "y(board_size=181)"]
)
def test_numbers_that_a_game_cannot_have_are_an_error_message(name: str) -> None:
    for ask in (games.spec, State):
        with pytest.raises(ConfigError, match="OpenSpiel does not make"):
            ask(f"openspiel:{name}")


def test_a_board_without_bound_is_refused_before_anything_is_computed() -> None:
    with pytest.raises(ConfigError, match="an observation has 3,000,000 numbers, more than 1,000,"):
        games.spec("openspiel:connect_four(rows=1000,columns=1000)")


def test_without_openspiel_the_way_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    with pytest.raises(ConfigError, match=r"pip install 'zerofleet\[openspiel\]'"):
        games.spec("openspiel:clobber(rows=4,columns=4)")


def test_who_moves_first_is_the_first_player() -> None:
    """White, OpenSpiel's player 1, begins. Black wins by fool's mate."""
    state = State("openspiel:chess")
    assert state.to_play == 0
    theirs = pyspiel.load_game("chess").new_initial_state()
    for move in ("f3", "e5", "g4", "Qh4#"):
        action = theirs.string_to_action(theirs.current_player(), move)
        state.apply(action)
        theirs.apply_action(action)
    assert (state.is_terminal, state.result, state.to_play) == (True, -1, 0)


def test_a_player_may_move_twice() -> None:
    """In dots and boxes, a player who completes a box moves again."""
    state = State("openspiel:dots_and_boxes(num_rows=1,num_cols=1)", [0, 1, 2])
    assert (state.to_play, state.is_terminal) == (1, False)
    state = State("openspiel:dots_and_boxes(num_rows=1,num_cols=2)")
    turns: list[int] = []
    while not state.is_terminal:
        turns.append(state.to_play)
        state.apply(state.legal_actions()[0])
    assert any(first == second for first, second in itertools.pairwise(turns))
    assert state.to_play == 1 - turns[-1]


def test_the_last_plane_is_the_side_to_move() -> None:
    state = State("openspiel:tic_tac_toe")
    assert games.spec(state.game).observation_shape == (4, 3, 3)
    assert planes(state)[3].sum() == 0
    state.apply(4)
    assert planes(state)[3].sum() == 9
    theirs = pyspiel.load_game("tic_tac_toe").new_initial_state()
    theirs.apply_action(4)
    assert planes(state)[:3].ravel().tolist() == theirs.observation_tensor(1)


def test_numbers_become_thermometers() -> None:
    """Mancala's tensor has the number of stones in each pit."""
    name, theirs = "openspiel:mancala", pyspiel.load_game("mancala").new_initial_state()
    line: list[int] = []
    before = np.array(theirs.observation_tensor(0)), _thermometers(State(name))
    for _ in range(9):
        line.append(theirs.legal_actions()[-1])
        theirs.apply_action(line[-1])
    after = np.array(theirs.observation_tensor(0)), _thermometers(State(name, line))
    assert max(after[0]) > 6
    for stones, shown in (before, after):
        assert len(shown) == len(stones)
        assert [sorted(each, reverse=True) for each in shown] == shown  # there is no gap
        assert [each[0] for each in shown] == (stones > 0).astype(int).tolist()
    heights = [np.array([sum(each) for each in shown]) for _, shown in (before, after)]
    assert ((heights[1] >= heights[0]) | (after[0] < before[0])).all()
    assert ((heights[1] <= heights[0]) | (after[0] > before[0])).all()
    assert (heights[1] != heights[0]).any()


def _thermometers(state: State) -> list[list[int]]:
    """Return the planes of each entry of a flat tensor."""
    shown = planes(state).ravel()[:-1]
    return [
        part.tolist() for part in np.array_split(shown, np.flatnonzero(_begins(state.game))[1:])
    ]


def _begins(name: str) -> NDArray[np.bool_]:
    """Return which planes are the first one of an entry of the tensor."""
    from zerofleet.games.openspiel import load_openspiel

    code = load_openspiel(name.removeprefix("openspiel:")).code
    return np.diff(code.source, prepend=-1) != 0


@pytest.mark.parametrize(
    ("seen", "value", "shown"),
    [
        (set[float](), 1.0, [1]),
        (set[float](), 0.0, [0]),
        ({2.0, 5.0}, 0.0, [0, 0, 0]),
        ({2.0, 5.0}, 2.0, [1, 1, 0]),
        ({2.0, 5.0}, 3.0, [1, 1, 0]),
        ({2.0, 5.0}, 99.0, [1, 1, 1]),
        ({0.5}, 0.5, [1, 0]),
        ({float(n) for n in range(2, 101)}, 100.0, [1] * 8),
        ({float(n) for n in range(2, 101)}, 1.0, [1] + [0] * 7),
        ({float(n) for n in range(2, 101)}, 50.0, [1] * 4 + [0] * 4),
    ],
)
def test_a_thermometer_has_a_step_between_values_seen(
    seen: set[float], value: float, shown: list[int]
) -> None:
    code = PlaneCode([seen], (1, 1, 1))
    assert code.shape == (len(shown) + 1, 1, 1)
    for to_play in (0, 1):
        coded = code.encode(np.array([[[value]]], np.float32), to_play)
        assert coded.ravel().astype(int).tolist() == [*shown, to_play]


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("chess", (20, 8, 8)),
        ("gomoku(size=9)", (3, 9, 9)),  # [3, 81]
        ("mancala", (16, 1, 1)),  # [16]
        ("dots_and_boxes", (3, 9, 3)),
    ],
)
def test_tensors_of_any_shape_are_planes(name: str, shape: tuple[int, int, int]) -> None:
    game = pyspiel.load_game(name)
    tensor = Tensor(game)
    assert tensor.shape == shape
    state = game.new_initial_state()
    player = state.current_player()
    read = tensor.read(state, player)
    assert read.shape == shape
    assert np.allclose(read.ravel(), state.observation_tensor(player))


@pytest.mark.parametrize(
    ("game", "action", "text"),
    [
        ("hex", 0, "a1"),
        ("breakthrough", 384, None),
        ("chess", 89, "a3"),  # in this position
        ("tic_tac_toe", 4, "x(1,1)"),  # for this player
        ("go(board_size=5)", 0, "Ba1"),  # "B a1", without the space
        ("mancala", 1, "1"),
    ],
)
def test_actions_are_written_as_openspiel_writes_them_here(
    game: str, action: int, text: str | None
) -> None:
    state = State(f"openspiel:{game}")
    written = state.action_to_string(action)
    assert text is None or written == text
    assert state.string_to_action(written) == action
    assert state.string_to_action(str(action)) == action
    for wrong in ("x(9,9)", "-1", "999999", "99999999999999999999"):
        with pytest.raises(ValueError, match="openspiel"):
            state.string_to_action(wrong)


def test_a_game_that_is_too_long_for_its_record_is_a_draw() -> None:
    spec = games.spec("openspiel:cursor_go")
    assert pyspiel.load_game("cursor_go").max_game_length() > spec.max_length == 30_000


def test_equal_games_are_shown_alike_whatever_their_names_look_like() -> None:
    plain, spelled_out = (
        State(f"openspiel:{name}", [89]) for name in ("chess", "chess(chess960=false)")
    )
    assert (plain.observation() == spelled_out.observation()).all()


def test_a_line_of_chess_is_read_and_written_as_chess_players_do() -> None:
    line = "e4 e5 Nf3 Nc6 Bb5 a6 O-O"
    actions = games.parse_actions("openspiel:chess", line)
    assert games.format_actions("openspiel:chess", actions) == line
