"""``zerofleet uci`` as a process between python-chess and a server."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator
from typing import Any

import chess
import chess.engine
import pytest

from zerofleet.config import SearchSection

pytestmark = pytest.mark.slow

GAME = "chess"
MATE_IN_ONE = "7k/5Q2/6K1/8/8/8/8/8 w - - 0 1"


@contextlib.asynccontextmanager
async def started(address: str, *options: str) -> AsyncIterator[chess.engine.UciProtocol]:
    command = [sys.executable, "-m", "zerofleet.cli", "uci", "--address", address, *options]
    transport, engine = await chess.engine.popen_uci(command)
    try:
        yield engine
        await engine.quit()
    finally:
        transport.close()


async def test_a_game_on_a_clock(player_server: Any) -> None:
    """python-chess refuses illegal moves, and an engine that answers out of turn."""
    async with player_server(GAME) as server, started(server.address) as engine:
        assert engine.id["name"].startswith("zerofleet ")
        await engine.configure({"Move Overhead": 0})
        board = chess.Board()
        while not board.is_game_over() and board.ply() < 12:
            limit = chess.engine.Limit(
                white_clock=1.0, black_clock=1.0, white_inc=0.05, black_inc=0.05
            )
            played = await engine.play(board, limit, info=chess.engine.INFO_ALL)
            assert played.move is not None
            # A slow machine may answer from the network alone: zero nodes.
            assert "nodes" in played.info
            board.push(played.move)


async def test_analysis_with_several_lines(player_server: Any) -> None:
    async with player_server(GAME) as server, started(server.address) as engine:
        board = chess.Board()
        board.push_san("e4")
        lines = await engine.analyse(board, chess.engine.Limit(nodes=60), multipv=3)
        assert len(lines) == 3
        for line in lines:
            for move in line["pv"]:
                assert move in board.legal_moves
                break
        first = lines[0]["score"].relative.score()
        assert first is not None
        assert lines[0]["nodes"] == 60


async def test_a_mate_is_announced(player_server: Any) -> None:
    section = SearchSection(num_simulations=400, prove_results=True)
    async with player_server(GAME, section) as server, started(server.address) as engine:
        board = chess.Board(MATE_IN_ONE)
        played = await engine.play(board, chess.engine.Limit(nodes=400), info=chess.engine.INFO_ALL)
        assert played.move is not None
        assert played.info["score"].relative == chess.engine.Mate(1)
        board.push(played.move)
        assert board.is_checkmate()


async def test_an_analysis_is_cancelled(player_server: Any) -> None:
    async with player_server(GAME) as server, started(server.address) as engine:
        with await engine.analysis(chess.Board()) as analysis:
            async for info in analysis:
                if "pv" in info:
                    break
            analysis.stop()
            best = await analysis.wait()
        assert best.move in chess.Board().legal_moves
        await engine.ping()


async def test_another_game_is_refused(player_server: Any) -> None:
    async with player_server("othello") as server:
        with pytest.raises(chess.engine.EngineError):
            async with started(server.address):
                pass
