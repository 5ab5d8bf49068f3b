"""Opening books: text and SGF, each position once, and a refusal that names the place."""

from pathlib import Path

import pytest

from zerofleet.errors import ConfigError
from zerofleet.games import State
from zerofleet.match.opening_book import MOST_OPENINGS, read_book

FOUR = "connect_four"
GO = "go(size=5)"


@pytest.fixture
def book(tmp_path: Path) -> Path:
    return tmp_path / "book.txt"


def test_a_position_a_line(book: Path) -> None:
    start = State(FOUR).setup_text()
    book.write_text(f"\ufeff# a book\n\n7/7/7/7/7/3x3 o\n {start}\n7/7/7/7/7/3X3  o\n")
    assert read_book(book, FOUR) == ["7/7/7/7/7/3x3 o", start]


def test_the_ends_of_sgf_games(book: Path) -> None:
    book.write_text("(;SZ[5];B[aa](;W[bb])(;W[cc]))(;SZ[5]AB[aa]AW[bb])(;SZ[5];B[aa])")
    assert read_book(book, GO) == ["X4/1O3/5/5/5 X", "X4/5/5/5/5 O"]


def test_epd_and_the_ends_of_pgn_games(book: Path) -> None:
    problem = "7k/8/6K1/8/8/8/8/1R6 w - -"
    book.write_text(f'{problem} bm Rb8#; id "one";\n{problem}\n{problem} 5 60\n')
    assert read_book(book, "chess") == [f"{problem} 0 1", f"{problem} 5 60"]
    pgn = book.with_suffix(".pgn")
    pgn.write_text("1. e4 e5 *\n\n1. e4 (1. d4) e5 1/2-1/2\n\n1. d4 *")
    first = "rnbqkbnr/pppp1ppp/8/4p3/4P3/8/PPPP1PPP/RNBQKBNR w KQkq - 0 2"
    second = "rnbqkbnr/pppppppp/8/8/3P4/8/PPP1PPPP/RNBQKBNR b KQkq - 0 1"
    assert read_book(pgn, "chess") == [first, second]
    pgn.write_text("1. e4 e5 *\n\n1. e5 *")
    with pytest.raises(ConfigError, match=r"book.pgn: line 3 of the PGN, move 1 of White: 'e5'"):
        read_book(pgn, "chess")
    repeated = "Nf3 Nf6 Ng1 Ng8 Nf3 Nf6 Ng1 Ng8"
    for moves in ("1. f3 e5 2. g4 Qh4# 0-1", f"{repeated} 1-0", f"{repeated} e4 e5 *"):
        pgn.write_text(moves)
        with pytest.raises(ConfigError, match="game 1: the game is over at its last move"):
            read_book(pgn, "chess")


@pytest.mark.parametrize(
    ("game", "text", "reason"),
    [
        (FOUR, "", "has no position"),
        (FOUR, "# nothing\n", "has no position"),
        (FOUR, "7/7/7/7/7/7 x\n7/7/7/7/x6/7 o\n", "line 2: .*column 1 has a disc above"),
        (FOUR, "7/7/7/7/ooo4/xxxx3 o", "line 1: the game is over in"),
        (FOUR, "(;SZ[5])", "SGF is for go and othello"),
        ("chess", "8/8 w - - bm Nf3;", "line 1: "),
        (GO, "(;SZ[5])(;SZ[9])", "game 2: the SGF has board size 9, not 5"),
        (GO, "(;SZ[5];B[];W[])", "game 1: the game is over at the end of its main line"),
        (GO, "(;SZ[5]", "book.txt: not SGF"),
        ("openspiel:chess", "8/8/8/8/8/8/8/8 w - - 0 1", "has no notation for positions"),
    ],
)
def test_a_wrong_book_is_refused(book: Path, game: str, text: str, reason: str) -> None:
    if game.startswith("openspiel"):
        pytest.importorskip("pyspiel")
    book.write_text(text)
    with pytest.raises(ConfigError, match=reason):
        read_book(book, game)


def test_files_that_cannot_be_read(book: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the opening book"):
        read_book(book, FOUR)
    book.write_bytes(b"7/7/7/7/7/3x3 o\n\xff")
    with pytest.raises(ConfigError, match="is not text in UTF-8"):
        read_book(book, FOUR)
    book.write_bytes(b"#" * (4 << 20) + b"##")
    with pytest.raises(ConfigError, match="more than 4 MiB"):
        read_book(book, FOUR)
    assert MOST_OPENINGS == 5_000
