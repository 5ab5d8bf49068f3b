"""The UCI engine between a controller, line by line, and a player that answers by rote."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from zerofleet_core import State, game_spec

from zerofleet.engine_lines import EngineOptions
from zerofleet.errors import InferenceUnavailableError
from zerofleet.rpc.player_service import PlayerDescription, SearchChild, SearchOptions, SearchTable
from zerofleet.uci.chess_engine import ChessEngine

GAME = "chess"
MATE = "7k/5Q2/6K1/8/8/8/8/8 w - - 0 1"  # 1. Qg7 mates
MATED = "7k/6Q1/6K1/8/8/8/8/8 b - - 0 1"
STALEMATE = "7k/5Q2/6K1/8/8/8/8/8 b - - 0 1"


_WORDS = (
    *(
        "go",
        "position",
        "startpos",
        "fen",
        "moves",
        "e2e4",
        "nodes",
        "movetime",
        "infinite",
        "stop",
    ),
    *("setoption", "name", "value", "MultiPV", "ponderhit", "isready", "searchmoves", "uci", "-1"),
    "9" * 20,
    "\udcff",  # a byte that is not UTF-8
)


class FirstLegal:
    """Wants the first legal action; each search shows a table, then is complete or waits."""

    def __init__(self, *, complete: bool = True) -> None:
        self.may_begin = asyncio.Event()
        self.may_begin.set()
        self.asked: list[tuple[str, list[int], int]] = []
        self.actions: list[list[int]] = []
        self.closed = 0
        self.error: Exception | None = None
        self._complete = complete

    async def analyze(
        self,
        position: list[int],
        *,
        start: str,
        game: str,
        simulations: int,
        actions: list[int],
        **_: Any,
    ) -> AsyncGenerator[SearchTable]:
        self.actions.append(actions)
        self.asked.append((start, position, simulations))
        if self.error is not None:
            raise self.error
        try:
            await self.may_begin.wait()
            yield table(State(game, position, start))
            if not self._complete:
                await asyncio.Event().wait()
        finally:
            self.closed += 1


def table(state: State) -> SearchTable:
    legal = state.legal_actions()
    children = tuple(
        SearchChild(action, state.action_to_string(action), 9 - place, 0.5, value, (action,))
        for place, (action, value) in enumerate(zip(legal[:3], (0.0, -0.5, 0.5), strict=False))
    )
    name = state.action_to_string(legal[0])
    return SearchTable("run", 4, state.to_play, 24, 0.0, 0.0, legal[0], name, children, True)


class Session:
    """An engine, and all that it has said."""

    def __init__(self, player: FirstLegal, game: str = GAME, most: int = 1_000_000) -> None:
        spec = game_spec(game)
        described = PlayerDescription(
            game,
            spec.num_actions,
            spec.observation_shape,
            "run",
            4,
            (3, 4),
            100,
            20_000,
            most,
        )
        self.text = ""
        self._spoke = asyncio.Event()
        self.lines: asyncio.Queue[str | None] = asyncio.Queue()
        options = EngineOptions(search=SearchOptions(simulations=10))
        self.engine = ChessEngine(player, described, options, self._say)  # type: ignore[arg-type]

    def _say(self, text: str) -> None:
        self.text += text
        self._spoke.set()

    def send(self, line: str) -> None:
        self.lines.put_nowait(f"{line}\n")

    async def until(self, text: str) -> None:
        """Wait until the engine has said this."""
        while text not in self.text:
            self._spoke.clear()
            await self._spoke.wait()

    async def until_searching(self, player: FirstLegal) -> None:
        """Wait until the player has begun a search."""
        while not player.asked:  # noqa: ASYNC110 (the player tells nobody)
            await asyncio.sleep(0)

    async def until_moves(self, moves: int) -> None:
        """Wait until the engine has answered this many searches."""
        while self.text.count("bestmove") < moves:
            self._spoke.clear()
            await self._spoke.wait()


async def said(
    *lines: str, player: FirstLegal | None = None, game: str = GAME, most: int = 1_000_000
) -> str:
    """Return all that the engine says; a search ends before the next line is sent."""
    session = Session(player or FirstLegal(), game, most)
    running = asyncio.create_task(session.engine.run(session.lines))
    for line in lines:
        moves = session.text.count("bestmove")
        session.send(line)
        if line.startswith("go"):
            await session.until_moves(moves + 1)
    session.lines.put_nowait(None)
    await running
    return session.text


async def test_it_introduces_itself() -> None:
    text = await said("uci", "isready", "ucinewgame", "debug on", "register later", "quit", "uci")
    assert text.startswith("id name zerofleet ")
    assert "run run, model 4\n" in text
    for option in ("MultiPV type spin", "UCI_Chess960 type check", "Ponder type check"):
        assert f"option name {option}" in text
    assert text.endswith("uciok\nreadyok\n")
    assert await said("hello there", "", "joho isready") == "readyok\n"


async def test_a_move_from_positions() -> None:
    player = FirstLegal()
    text = await said(
        "go",
        "position startpos moves e2e4 e7e5",
        "go nodes 50",
        f"position fen {MATE}",
        "go movetime 1000",
        player=player,
    )
    assert text.count("bestmove") == 3
    actions = [State(GAME).string_to_action("e2e4")]
    actions.append(State(GAME, actions).string_to_action("e7e5"))
    assert player.asked == [("", [], 10), ("", actions, 50), (MATE, [], 1_000_000)]
    legal = State(GAME).legal_actions()
    assert f"bestmove {State(GAME).action_to_string(legal[0])}\n" in text
    assert "info depth 1 seldepth 1 multipv 1 score cp 0 nodes 24 " in text


async def test_several_lines() -> None:
    text = await said("setoption name UCI_ShowWDL value true", "go")
    assert re.search(r" score cp -?[0-9]+ wdl [0-9]+ [0-9]+ [0-9]+ nodes ", text)
    text = await said("setoption name MultiPV value 3", "go")
    assert " wdl " not in text
    assert [f"multipv {number} " in text for number in (1, 2, 3, 4)] == [True, True, True, False]
    assert "multipv 2 score cp -89" in text


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("setoption name MultiPV value 0", "MultiPV is '0': give 1 to 500"),
        ("setoption name MultiPV value many", "MultiPV is 'many': give 1 to 500"),
        ("setoption name UCI_Chess960 value true", "the model plays standard chess only"),
        ("setoption name Hash value 16", "unknown option 'hash': `uci` lists the options"),
        ("setoption Hash", "setoption: give name NAME value VALUE"),
        ("position here", "position 'here': give startpos or fen FEN, then moves"),
        ("position fen 8/8", "info string "),
        ("position fen \udcff", "FEN '\\udcff': "),
        ("position startpos moves \udcff", "'\\udcff' is not a legal move after 0 plies"),
        ("position startpos moves e2e4 e2e4", "'e2e4' is not a legal move after 1 plies"),
    ],
)
async def test_wrong_input(line: str, complaint: str) -> None:
    text = await said(line)
    assert text.startswith("info string ")
    assert complaint in text
    assert text.count("\n") == 1


async def test_a_move_for_wrong_limits() -> None:
    player = FirstLegal()
    text = await said("go nodes few searchmoves d2d4", "go searchmoves e2e5 e2e4", player=player)
    assert "info string go nodes 'few': give a whole number of at most 15 digits\n" in text
    assert "info string 'e2e5' is not a legal move after 0 plies\n" in text
    assert text.count("bestmove ") == 2
    assert player.actions == [[State(GAME).string_to_action(move)] for move in ("d2d4", "e2e4")]


async def test_no_move_for_a_position_that_was_refused() -> None:
    player = FirstLegal()
    text = await said("position fen nonsense", "go", "position startpos", "go", player=player)
    assert text.count("bestmove (none)") == 1
    assert "info string no search: " in text
    assert player.asked == [("", [], 10)]


async def test_after_the_end_of_the_game() -> None:
    player = FirstLegal()
    text = await said(
        f"position fen {MATED}", "go", f"position fen {STALEMATE}", "go", player=player
    )
    assert text == (
        "info depth 0 score mate 0\nbestmove (none)\ninfo depth 0 score cp 0\nbestmove (none)\n"
    )
    assert player.asked == []


@pytest.mark.parametrize("position", [f"fen {MATED}", "fen nonsense"])
async def test_an_endless_search_without_moves_waits_for_stop(position: str) -> None:
    session = Session(FirstLegal())
    running = asyncio.create_task(session.engine.run(session.lines))
    for line in (f"position {position}", "go infinite", "isready"):
        session.send(line)
    await session.until("readyok")
    assert "bestmove" not in session.text
    session.send("stop")
    await session.until("bestmove (none)\n")
    session.send("quit")
    await running


async def test_a_draw_that_nobody_claims() -> None:
    player = FirstLegal()
    knights = "g1f3 g8f6 f3g1 f6g8 " * 2
    fifty = "7k/8/6K1/8/8/8/8/1R6 w - - 99 80"
    lines = (f"position startpos moves {knights}", "go", f"position fen {fifty} moves b1b2", "go")
    text = await said(*lines, player=player)
    assert text.count("bestmove ") == 2
    assert "(none)" not in text
    assert [(start, actions) for start, actions, _ in player.asked] == [
        ("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 5", []),
        ("7k/8/6K1/8/8/8/1R6/8 b - - 0 80", []),
    ]
    player.asked.clear()
    await said(f"position startpos moves {knights} e2e4", "go", player=player)
    assert [len(actions) for _, actions, _ in player.asked] == [1]
    player.asked.clear()
    await said("position fen 7k/8/6K1/8/8/8/8/1R6 w - - 120 80", "go", player=player)
    assert [start for start, _, _ in player.asked] == ["7k/8/6K1/8/8/8/8/1R6 w - - 0 80"]


async def test_stop_ends_an_endless_search_at_once() -> None:
    for complete in (True, False):
        player = FirstLegal(complete=complete)
        session = Session(player)
        running = asyncio.create_task(session.engine.run(session.lines))
        session.send("go infinite")
        await session.until_searching(player)
        session.send("isready")
        await session.until("readyok")
        assert "bestmove" not in session.text  # even if there is nothing left to search
        session.send("stop")
        await session.until("bestmove ")
        assert player.closed == 1
        session.send("stop")  # too late, and no error
        session.lines.put_nowait(None)
        await running
        assert session.text.count("bestmove") == 1


async def test_stop_before_the_first_table_ends_the_search_with_it() -> None:
    player = FirstLegal(complete=False)
    player.may_begin.clear()
    session = Session(player)
    running = asyncio.create_task(session.engine.run(session.lines))
    session.send("go infinite")
    session.send("stop")
    await session.until_searching(player)
    for _ in range(20):  # the engine has seen both lines
        await asyncio.sleep(0)
    assert "bestmove" not in session.text
    player.may_begin.set()
    await session.until("bestmove ")
    session.lines.put_nowait(None)
    await running
    assert player.closed == 1


@pytest.mark.parametrize(
    ("line", "most", "asked", "reason"),
    [
        ("go nodes 24", 24, 24, None),
        ("go nodes 100000", 24, 24, "go nodes 100000: the server searches at most 24"),
        ("go nodes 100000", 1_000_000, 100_000, "the search ended at 24 nodes: the result is"),
        ("go movetime 60000", 24, 24, "the search ended at 24 nodes: the server's limit"),
        ("go depth 100", 24, 24, "the search ended at 24 nodes: the server's limit"),
        (
            "go movetime 60000",
            20_000,
            20_000,
            "the search ended at 24 nodes: the result is proven, or",
        ),
    ],
)
async def test_a_search_that_ends_early_says_why(
    line: str, most: int, asked: int, reason: str | None
) -> None:
    player = FirstLegal()
    text = await said(line, player=player, most=most)
    assert [simulations for _, _, simulations in player.asked] == [asked]
    assert text.count("info string") == (reason is not None)
    assert reason is None or f"info string {reason}" in text
    assert text.count("bestmove ") == 1


async def test_a_pondered_move() -> None:
    player = FirstLegal(complete=False)
    session = Session(player)
    running = asyncio.create_task(session.engine.run(session.lines))
    session.send("go ponder wtime 50 btime 50")
    session.send("isready")
    await session.until("readyok")
    assert "bestmove" not in session.text
    session.send("ponderhit")
    await session.until("bestmove ")
    session.lines.put_nowait(None)
    await running
    assert player.closed == 1


async def test_a_new_search_answers_for_the_one_before() -> None:
    session = Session(FirstLegal(complete=False))
    running = asyncio.create_task(session.engine.run(session.lines))
    for line in ("go infinite", "position startpos moves e2e4", "go infinite", "quit"):
        session.send(line)
    await running
    assert session.text.count("bestmove") == 2


async def test_a_server_that_fails() -> None:
    player = FirstLegal()
    player.error = InferenceUnavailableError("no inference at\nthis address")
    text = await said("go", player=player)
    assert text == "info string no inference at this address\nbestmove (none)\n"


async def test_chess960() -> None:
    game = "chess(chess960=true)"
    text = await said("uci", "setoption name UCI_Chess960 value true", game=game)
    assert "option name UCI_Chess960 type check default true" in text
    assert text.endswith("uciok\n")
    assert "plays Chess960 only" in await said("setoption name UCI_Chess960 value false", game=game)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.text(max_size=40),
            st.lists(
                st.sampled_from(_WORDS),
                max_size=6,
            ).map(" ".join),
        ),
        max_size=6,
    )
)
def test_no_line_ends_the_engine(lines: list[str]) -> None:
    async def run() -> str:
        session = Session(FirstLegal())
        for line in lines:
            if line.split()[:1] != ["quit"]:
                session.send(line)
        session.send("isready")
        session.send("quit")
        await session.engine.run(session.lines)
        return session.text

    assert "readyok" in asyncio.run(run())
