"""The built-in games: sizes from the engine; planes, numbering and notation as a test checks them."""

from __future__ import annotations

from dataclasses import dataclass

from markdown_text import joined, table

from zerofleet.games import State, format_actions, parse_actions, spec

FIRST_LAST = "all ones if the second player is to move, else zeros"
"""The plane that tells the side to move, in all games but Go."""


@dataclass(frozen=True)
class GamePage:
    """A family of games.

    Args:
        name: in a run file.
        title: heading.
        rules: one or two sentences.
        variants: names whose sizes are listed.
        parameters: name, default and meaning of each rule that a name may set.
        numbering: which action is which move.
        notation: how moves are written.
        positions: how a start position is written.
        planes: content of each input plane, in order; in brackets for Go the variant's own.
        line: moves of the example, of the first variant.
    """

    name: str
    title: str
    rules: str
    variants: tuple[str, ...]
    parameters: tuple[tuple[str, str, str], ...]
    numbering: str
    notation: str
    positions: str
    planes: tuple[str, ...]
    line: str


ROWS = (
    "Rows from the top, separated by `/`. `x` is the first player, `o` the second, and a number a run "
    "of empty points. Then the side to move."
)

GO_HISTORY = tuple(
    f"stones of {whose}, {when}"
    for when in ("now", *(f"{n} {'ply' if n == 1 else 'plies'} ago" for n in range(1, 8)))
    for whose in ("the player to move", "the opponent")
)
GO_COLOUR = "all ones if Black is to move, else zeros"
GO_LIBERTIES = (
    *(
        f"stones of {whose} in chains with {count} {'liberty' if count == 1 else 'liberties'}"
        for whose in ("the player to move", "the opponent")
        for count in (1, 2, 3)
    ),
    "empty points where a move would repeat an earlier position (ko)",
)
STONES = ("stones of the player to move", "stones of the opponent", FIRST_LAST)

CHESS_PIECES = tuple(
    f"{pieces} of {whose}"
    for whose in ("the player to move", "the opponent")
    for pieces in ("pawns", "knights", "bishops", "rooks", "queens", "king")
)
CHESS_HISTORY = tuple(
    text
    for when in ("now", *(f"{n} {'ply' if n == 1 else 'plies'} ago" for n in range(1, 8)))
    for text in (
        *(f"{pieces}, {when}" for pieces in CHESS_PIECES),
        f"all ones if the position, {when}, had occurred before",
    )
)
CHESS_STATE = (
    *(
        f"all ones if {who} may castle on the {side}'s side"
        for who in ("the player to move", "the opponent")
        for side in ("king", "queen")
    ),
    "the square where the player to move can take en passant",
    FIRST_LAST,
    *(
        f"all ones after {plies} plies without a capture or a pawn's move"
        for plies in (10, 20, 40, 60, 80, 90, 96)
    ),
)

GAMES = (
    GamePage(
        "chess",
        "Chess",
        "The Laws of FIDE. Draws need no claim: threefold repetition and 50 moves without a capture "
        "or a pawn's move end the game. So does material with which neither player can give mate. "
        "The first player is White.",
        ("chess", "chess(history=8)"),
        (
            (
                "history",
                "1",
                "positions that the network sees: `1`, or `8` as in AlphaZero. With `1`, positions "
                "that are reached in several ways share a cached prediction",
            ),
            (
                "chess960",
                "false",
                "castling as in Chess960; games of self-play and matches begin at one of its 960 "
                "start positions, drawn by the seed",
            ),
            ("max_length", "512", "plies after which the game is a draw, at most 512"),
        ),
        "The player to move sees the board from their own side: Black sees it mirrored top to "
        "bottom. A square is `8 * row + column`. The first 1,792 actions are the steps of a queen "
        "or a knight on an empty board, ordered by the square they leave, then by the one they "
        "reach. A pawn that reaches the last rank becomes a queen. The last 66 actions are "
        "promotions to a knight, a bishop or a rook. Castling moves the king by two squares, in "
        "Chess960 onto its own rook.",
        "Standard algebraic notation, such as `Nf3` and `e8=Q+`. The notation of UCI, such as "
        "`g1f3` and `e7e8q`, is read everywhere as well; gRPC answers in it.",
        "Forsyth-Edwards Notation (FEN); in Chess960 Shredder-FEN, with the files of the rooks as "
        "castling rights.",
        (*CHESS_HISTORY, *CHESS_STATE),
        "e4 e5 Nf3",
    ),
    GamePage(
        "connect_four",
        "Connect Four",
        "Discs fall to the lowest empty cell of a column. Four in a row win. "
        "The first player is Red.",
        ("connect_four",),
        (),
        "The action is the column, counted from 0 at the left.",
        "Columns are written `1` to `7`, from the left.",
        f"{ROWS} Every disc rests on the bottom or on another disc.",
        ("discs of the player to move", "discs of the opponent", FIRST_LAST),
        "4 4 3",
    ),
    GamePage(
        "go",
        "Go",
        "Tromp-Taylor rules: area scoring, positional superko, and two passes end the game. "
        "The first player is Black.",
        ("go(size=9)", "go(size=9,observation=liberties)", "go"),
        (
            ("size", "19", "rows and columns, 2 to 19"),
            ("komi", "7.5", "White's points, a multiple of 0.5; at most the points of the board"),
            ("suicide", "true", "whether a move may remove its own chain"),
            ("max_length", "twice the points", "plies after which the game ends"),
            (
                "observation",
                "history",
                "`history`: eight boards, as in AlphaGo Zero; `liberties`: seven more planes",
            ),
        ),
        "The action is `size * row + column`, with row 0 at the top. "
        "The last action, `size * size`, passes.",
        "A letter for the column and the row counted from the bottom, as in GTP: `D4`. "
        "The letter I is left out. A pass is `pass`. Small letters are accepted.",
        f"{ROWS} Black is `X` and White is `O`. Every chain has a liberty. No earlier board counts "
        "as a repetition, and the input planes show the position in place of earlier boards. Stones "
        "of an SGF file (`AB`, `AW`, `AE`, `PL`) make the same kind of position.",
        (*GO_HISTORY, GO_COLOUR, *GO_LIBERTIES),
        "E5 C3 G3",
    ),
    GamePage(
        "gomoku",
        "Gomoku",
        "Five or more stones in a row win on a board of 15 x 15. The first player is Black.",
        ("gomoku",),
        (),
        "The action is `15 * row + column`, with row 0 at the top.",
        "A letter for the column and the row counted from the bottom: `a1` is the bottom left "
        "point. The letter i is used. Capitals are accepted.",
        ROWS,
        STONES,
        "h8 i9",
    ),
    GamePage(
        "mnk",
        "m,n,k games",
        "`k` stones in a row win on a board of `m` columns and `n` rows. A longer row wins as well. "
        "The first player is X.",
        ("mnk", "mnk(m=5,n=4,k=3)"),
        (
            ("m", "3", "columns, 1 to 19"),
            ("n", "3", "rows, 1 to 19"),
            ("k", "3", "stones in a row that win, at most the longer side"),
        ),
        "The action is `m * row + column`, with row 0 at the top.",
        "As in Gomoku: `a1` is the bottom left point.",
        ROWS,
        STONES,
        "b2 a1",
    ),
    GamePage(
        "othello",
        "Othello",
        "Enclosed discs change sides. The player with more discs at the end wins. "
        "The first player is Black.",
        ("othello",),
        (),
        "The action is `8 * row + column`, with row 0 at the top. Action 64 passes. "
        "A pass is legal only for a player who cannot place a disc.",
        "A letter for the column and the row counted from the top: `a1` is the top left square. "
        "A pass is `pass`. Capitals are accepted.",
        "64 characters from a1 to h8, then the side to move, as in the FFO test files. `X` is Black, "
        "`O` is White and `-` an empty square. Rows separated by `/` are read too. "
        "The four centre squares have discs.",
        (
            "discs of the player to move",
            "discs of the opponent",
            FIRST_LAST,
            "squares where the player to move can place a disc",
            "squares where the opponent could place a disc",
        ),
        "d3 c3",
    ),
    GamePage(
        "tic_tac_toe",
        "Tic-tac-toe",
        "Three marks in a row win. The first player is X.",
        ("tic_tac_toe",),
        (),
        "The action is `3 * row + column`, with row 0 at the top.",
        "A letter for the column and the row counted from the top: `a1` is the top left square. "
        "Capitals are accepted.",
        ROWS,
        ("marks of the first player", "marks of the second player", FIRST_LAST),
        "b2 a1",
    ),
)

CODE = """import math

import numpy as np

from zerofleet.games import State, spec

state = State("connect_four")
state.apply(state.string_to_action("4"))
shape = spec("connect_four").observation_shape
planes = np.unpackbits(state.observation(), count=math.prod(shape)).reshape(shape)
print(planes[1])  # discs of the opponent, who played 4
"""
HEAD = f"""# Games

`[game] name` of a [run file](run-file.md) names one of these games.
A name may set rules in brackets: `go(size=9,komi=7)`.
A run keeps its game to the end.

| Name | Game |
|---|---|
{{names}}
| `openspiel:NAME` | a game of OpenSpiel, with parameters as OpenSpiel writes them: `openspiel:hex(board_size=5)` |
| `python:MODULE:CLASS` | [your own game](../tutorials/your-own-game.md) |

Games of OpenSpiel need the extra `openspiel`.

## Actions, notation and planes

An action is a number from 0 to the number of actions minus one.
People and programs may also write it in the notation of the game.
Commands accept the number as well, except in Connect Four, whose notation is a number.

A game may begin at a given position, a line of text in the game's own notation.
[Set up a position](../how-to/play.md#set-up-a-position) says where to give it.
`State.setup_text()` writes it, and `State(game, [], start=TEXT)` reads it.
Games of OpenSpiel have no such notation. Your own game has one if its class defines `set_up` and `setup_text`.

The network sees a position as planes of zeros and ones, in the order planes, rows, columns.
Row 0 is the top row of the board, and column 0 its left column.
A packed observation has one bit for each point, in the order of `numpy.packbits`:

```python
{CODE}```

This page is generated by `scripts/reference`.
A test compares it with the engine in every position of random games.
"""


def render() -> str:
    """Return the page: the names, then a section for each game."""
    names = "\n".join(f"| `{game.name}` | [{game.title}](#{_anchor(game)}) |" for game in GAMES)
    return joined([HEAD.replace("{names}", names), *map(_section, GAMES)])


def _anchor(game: GamePage) -> str:
    return game.title.lower().replace(" ", "-").replace(",", "")


def _section(game: GamePage) -> str:
    first = game.variants[0]
    actions = parse_actions(first, game.line)
    state = State(first, actions)
    words = dict(zip(format_actions(first, actions).split(), actions, strict=True))
    played = ", ".join(f"`{word}` is action {action}" for word, action in words.items())
    return joined(
        [
            f"## {game.title}",
            game.rules,
            _parameters(game),
            table(
                ("Name", "Planes x rows x columns", "Actions", "Longest game", "Symmetries"),
                map(_sizes, game.variants),
            ),
            f"**Actions.** {game.numbering}",
            f"**Notation.** {game.notation} After `{game.line}`, where {played}, the board prints as:",
            f"```text\n{state}\n```",
            f"**Start positions.** {game.positions} The position above is `{state.setup_text()}`.",
            "**Input planes.**",
            table(("Plane", "Content"), _planes(game)),
        ]
    )


def _parameters(game: GamePage) -> str:
    rows = [
        (f"`{name}`", f"`{default}`" if " " not in default else default, meaning)
        for name, default, meaning in game.parameters
    ]
    return table(("Rule", "Default", "Meaning"), rows)


def _sizes(name: str) -> tuple[str, ...]:
    sizes = spec(name)
    shape = " x ".join(map(str, sizes.observation_shape))
    symmetries = str(sizes.num_symmetries)
    return f"`{name}`", shape, str(sizes.num_actions), f"{sizes.max_length} plies", symmetries


def _chess_planes() -> list[tuple[str, str]]:
    """Return the planes of ``chess``, with the numbers of ``history=8`` in brackets."""
    of_one, past = len(CHESS_PIECES) + 1, len(CHESS_HISTORY)
    return [
        *((str(number), text.removesuffix(", now")) for number, text in enumerate(CHESS_PIECES)),
        (str(of_one - 1), "all ones if the position had occurred before"),
        (f"{of_one} to {past - 1} (`history=8`)", "the same, one to seven plies ago"),
        *(
            (f"{of_one + number} ({past + number})", text)
            for number, text in enumerate(CHESS_STATE)
        ),
    ]


def _planes(game: GamePage) -> list[tuple[str, str]]:
    """Return a row for each plane; planes of a history share rows."""
    if game.name == "chess":
        return _chess_planes()
    rows = [(str(number), content) for number, content in enumerate(game.planes)]
    if game.name != "go":
        return rows
    own, other = "stones of the player to move", "stones of the opponent"
    most = len(GO_HISTORY) - 2
    return [
        ("0, 1", f"{own} and {other}, now"),
        (f"2, 3 to {most}, {most + 1}", "the same, one to seven plies ago"),
        (str(most + 2), GO_COLOUR),
        *((f"{row} (`liberties`)", content) for row, content in rows[len(GO_HISTORY) + 1 :]),
    ]
