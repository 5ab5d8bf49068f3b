"""Games of chess as PGN."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zerofleet_core import State

from zerofleet.errors import ConfigError, InvalidRequestError
from zerofleet.games.pgn_text import PgnGame, ReadPgn, read_pgn, write_pgn

CHESS = "chess"
CHESS960 = "chess(chess960=true)"


def only(text: str, game: str = CHESS) -> ReadPgn:
    (found,) = read_pgn(text, game)
    return found


def names(found: ReadPgn) -> str:
    state = State(found.game, start=found.start)
    words: list[str] = []
    for action in found.actions:
        words.append(state.action_to_string(action))
        state.apply(action)
    return " ".join(words)


def test_a_game_with_everything_to_pass_over() -> None:
    found = only(
        """[Event "A \\"club\\" game"]
[White "Anna"]
[Black "B\\\\C"]
[Result "1-0"]

% an escaped line with 1. h4
1. e4! $1 {the king's pawn (1. d4} e5 ; to the end: 2. a3
2. Bc4 (2. Nf3 Nc6 (2... d6 {Philidor}) 3. Bb5) 2... Nc6?! 3.Qh5 Nf6?? 4. Qxf7# 1-0
"""
    )
    assert names(found) == "e2e4 e7e5 f1c4 b8c6 d1h5 g8f6 h5f7"
    assert found.tags["Event"] == 'A "club" game'
    assert found.tags["Black"] == "B\\C"
    assert (found.result, found.line, found.start) == (1, 1, "")


def test_moves_in_every_form() -> None:
    assert names(only("1. e2e4 d7d5 2. exd5 e5 3. dxe6 *")).endswith("d5e6")
    castling = "1. e4 e5 2. Nf3 Nf6 3. Bc4 Bc5 4. 0-0 O-O *"
    assert names(only(castling)).endswith("e1g1 e8g8")
    knights = "1. Nf3 a6 2. d3 a5 3. Nfd2 a4 4. Nf3 *"
    assert names(only(knights)).endswith("d2f3")
    promotion = '[SetUp "1"]\n[FEN "8/P6k/8/8/8/8/8/K7 w - - 0 1"]\n\n1. a8N *'
    assert names(only(promotion)) == "a7a8n"


def test_several_games_and_no_result() -> None:
    text = '[White "A"]\n\n1. e4 *\n\n[White "B"]\n\n1. d4 d5\n\n[White "C"]\n[Result "0-1"]\n\n'
    first, second, third = read_pgn(text, CHESS)
    assert [each.tags["White"] for each in (first, second, third)] == ["A", "B", "C"]
    assert [names(each) for each in (first, second, third)] == ["e2e4", "d2d4 d7d5", ""]
    assert [each.result for each in (first, second, third)] == [None, None, -1]
    assert [each.line for each in (first, second, third)] == [1, 5, 9]
    assert list(read_pgn("", CHESS)) == list(read_pgn("\ufeff \n", CHESS)) == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("1. e4 e5\n2. Ke3 *", "line 2 of the PGN, move 2 of White: 'Ke3' is not a legal move"),
        ("1. e4 Qh9 *", "line 1 of the PGN, move 1 of Black: 'Qh9' is not a legal move"),
        ("1. e4 {no end", "line 1 of the PGN: the comment is not closed"),
        ("1. e4\n(1. d4", "line 2 of the PGN: the variation is not closed"),
        ("1. e4 1/2", "move 1 of Black: '1/2' is not a legal move"),
        ("1. e4 } *", "line 1 of the PGN: unexpected '}'"),
        ('[White "A]\n\n1. e4 *', 'line 1 of the PGN: a tag is not of the form [Name "value"]'),
        ('[Variant "Atomic"]\n\n1. e4 *', "the variant 'atomic' is not supported"),
        ('[Variant "Chess960"]\n\n1. e4 *', "the game is Chess960; the model plays 'chess'"),
        ('[FEN "8/8"]\n\n1. e4 *', "line 1 of the PGN: FEN '8/8': "),
        (
            "1. f3 e5 2. g4 Qh4# 3. a3 *",
            "move 3 of White: 'a3' comes after the end of the game (checkmate)",
        ),
    ],
)
def test_what_cannot_be_read(text: str, complaint: str) -> None:
    with pytest.raises(InvalidRequestError) as error:
        list(read_pgn(text, CHESS))
    assert complaint in str(error.value)


KNIGHTS = "1. Nf3 Nf6 2. Ng1 Ng8 3. Nf3 Nf6 4. Ng1 Ng8"


@pytest.mark.parametrize(
    ("moves", "result", "plies"),
    [
        (f"{KNIGHTS} 1/2-1/2", 0, 8),  # a player claimed the draw
        (KNIGHTS, None, 8),
        (f"{KNIGHTS} 5. e4 e5 6. Qh5 1-0", 1, 7),
        (f"{KNIGHTS} 5. e4 *", None, 7),
        (f"{KNIGHTS} 0-1", -1, 7),  # lost on time
    ],
)
def test_a_game_that_went_on_after_a_third_repetition(
    moves: str, result: int | None, plies: int
) -> None:
    found = only(moves)
    assert (found.result, len(found.actions)) == (result, plies)
    long_game = only(moves, "chess(max_length=8)")
    assert len(long_game.actions) == plies
    assert State(CHESS, found.actions).is_terminal == (plies == 8)
    assert found.is_cut == (plies == 7)


def test_moves_after_a_third_repetition_are_checked() -> None:
    with pytest.raises(InvalidRequestError, match="move 5 of Black: 'Ke3' is not a legal move"):
        only(f"{KNIGHTS} 5. e4 Ke3 1-0")
    again = " ".join(["Nf3 Nf6 Ng1 Ng8"] * 5)  # repeated again, without the history
    assert len(only(f"{again} 1-0").actions) == 7
    mated = f"{KNIGHTS} 5. f3 e5 6. g4 Qh4# 7. a3 *"
    with pytest.raises(InvalidRequestError, match=r"move 7 of White: .* \(checkmate\)"):
        only(mated)


@pytest.mark.parametrize(("clock", "plies"), [(97, 2), (98, 1), (99, 1)])
def test_a_start_close_to_the_50_move_rule(clock: int, plies: int) -> None:
    fen = f'[FEN "8/8/8/4k3/8/8/4K2R/8 w - - {clock} 80"]'
    assert len(only(f"{fen}\n\n80. Rh5+ Kd6 81. Rh6+ 1-0").actions) == plies


def test_the_games_before_a_broken_one_are_read() -> None:
    games = read_pgn("1. e4 *\n\n1. e5 *", CHESS)
    assert names(next(games)) == "e2e4"
    with pytest.raises(InvalidRequestError, match="line 3"):
        next(games)


def test_a_written_game() -> None:
    state = State(CHESS)
    actions: list[int] = []
    for name in ["f2f3", "e7e5", "g2g4", "d8h4"]:
        actions.append(state.string_to_action(name))
        state.apply(actions[-1])
    text = write_pgn(
        PgnGame(CHESS, actions, tags={"White": 'A "B"'}, values=(0.0, None, 0.5, -1.0))
    )
    head, moves = text.strip().split("\n\n")
    assert '[White "A \\"B\\""]' in head
    assert '[Result "0-1"]' in head
    assert moves == ("1. f3 e5 { [%eval 0.89] } 2. g4 { [%eval -127.80] } 2... Qh4# 0-1")
    with pytest.raises(ConfigError, match="PGN is for chess, not for 'othello'"):
        write_pgn(PgnGame("othello", ()))


@pytest.mark.parametrize(("result", "word"), [(1, "1-0"), (-1, "0-1"), (0, "1/2-1/2")])
def test_an_adjudicated_game_keeps_its_result(result: int, word: str) -> None:
    text = write_pgn(PgnGame(CHESS, [State(CHESS).string_to_action("e2e4")], result=result))
    assert f'[Result "{word}"]' in text
    assert only(text).result == result


@given(data=st.data(), game=st.sampled_from([CHESS, CHESS960]))
def test_what_was_written_is_read(data: st.DataObject, game: str) -> None:
    state = State(game)
    actions: list[int] = []
    for _ in range(data.draw(st.integers(0, 60))):
        if state.is_terminal:
            break
        actions.append(data.draw(st.sampled_from(state.legal_actions())))
        state.apply(actions[-1])
    values = tuple(data.draw(st.none() | st.floats(-1, 1)) for _ in actions)
    start = data.draw(st.booleans())
    played = PgnGame(game, actions, State(game).setup_text() if start else "", {}, False, values)
    found = only(write_pgn(played), game)
    assert list(found.actions) == actions
    assert found.result == (state.result if state.is_terminal else None)
    assert all(
        len(line) < 80 for line in write_pgn(played).splitlines() if not line.startswith("[")
    )
