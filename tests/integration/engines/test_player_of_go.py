"""The Player service with Go: SGF positions, and searches that end when the client leaves."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any

import pytest

from zerofleet import games
from zerofleet.client import AsyncPlayer
from zerofleet.config import SearchSection
from zerofleet.errors import InferenceUnavailableError, InvalidRequestError
from zerofleet.games import sgf
from zerofleet.rpc.player_service import SearchOptions, SearchTable, Sgf
from zerofleet.services.inference import model_player

GAME = "go(size=5,komi=7.5,suicide=false)"
SEEDED = {"simulations": 30, "seed": 1}


async def test_describe_names_the_rules(player_server: Any) -> None:
    async with player_server(GAME) as server, AsyncPlayer(server.address) as client:
        description = await client.describe()
        assert description == await server.player.describe()
    assert (description.game, description.num_actions) == (GAME, 26)
    assert description.observation_shape == (17, 5, 5)
    assert (description.run, description.best, description.versions) == ("engines", 1, (1,))
    assert (description.num_simulations, description.max_simulations) == (12, 20_000)


async def test_sgf_is_a_position(player_server: Any) -> None:
    actions = [12, 25, 7, 13]
    text = sgf.write(sgf.SgfGame(GAME, actions))
    problem = "(;SZ[5]AB[cc][cb]AW[dc]PL[W])"
    async with player_server(GAME) as server, AsyncPlayer(server.address) as client:
        expected = await client.search(actions, game=GAME, **SEEDED)
        assert await client.search(Sgf(text), **SEEDED) == expected
        set_up = await client.search(problem, **SEEDED)
        assert set_up == await client.search(start="5/2X2/2XO1/5/5 O", **SEEDED)
        assert set_up.to_play == 1
        with pytest.raises(InvalidRequestError, match="an SGF has a start position of its own"):
            await client.search(problem, start="5/2X2/2XO1/5/5 O", **SEEDED)
        assert await client.search(text.encode(), **SEEDED) == expected
        shift_jis = text.replace("CA[UTF-8]", "CA[Shift_JIS]GN[表]").encode("shift_jis")
        assert await client.search(shift_jis, **SEEDED) == expected
        assert await client.search(Sgf(shift_jis.replace(b"CA", b"XX")), **SEEDED) == expected
        for bad, reason in [
            ("(;SZ[9])", "board size 9, not 5"),
            ("(;SZ[5]KM[0])", "komi 0, the game is played with 7.5"),
            ("(;SZ[5];B[cc];W[cc])", "illegal"),
            ("(;SZ[5];B[];W[])", "over after 2 plies"),
            ("nonsense", "not SGF"),
            ("", "the file is empty"),
            (b"", "the file is empty"),
            (b"(;SZ[5]KM[50]AP[foxwq])", r"komi 0.5, .*KM\[50\] is read as 0.5 points"),
        ]:
            with pytest.raises(InvalidRequestError, match=reason):
                await client.predict(Sgf(bad), game=GAME)


async def test_games_without_sgf_say_so(player_server: Any) -> None:
    async with player_server("tic_tac_toe") as server, AsyncPlayer(server.address) as client:
        with pytest.raises(InvalidRequestError, match="SGF is for go and othello"):
            await client.predict(Sgf("(;SZ[3])"))


async def test_a_table_every_so_many_seconds(player_server: Any) -> None:
    async with player_server(GAME) as server, AsyncPlayer(server.address) as client:
        often = [t async for t in client.analyze(**SEEDED, every_seconds=1e-6)]
        seldom = [t async for t in client.analyze(**SEEDED, every_seconds=1e6)]
        for seconds in (-1.0, float("nan"), float("inf")):
            with pytest.raises(InvalidRequestError, match="every_seconds"):
                _ = [t async for t in client.analyze(every_seconds=seconds)]
    assert len(often) > 10
    assert [table.done for table in seldom] == [True]
    assert often[-1] == seldom[-1]


async def test_a_search_ends_when_its_client_leaves(player_server: Any) -> None:
    """The network answers a few times and then hangs, so only a disconnect ends the search."""
    gate = threading.Semaphore(5)
    options = SearchOptions(simulations=20_000)
    async with (
        player_server(
            GAME, SearchSection(num_simulations=100, cache_positions=0, prove_results=False), gate
        ) as server,
        AsyncPlayer(server.address) as client,
    ):
        tables = client.analyze(simulations=20_000, every_simulations=1)
        async with contextlib.aclosing(tables):
            assert not (await anext(tables)).done
            assert server.player.searches == 1
        await searches(server.player, 0)

        inside = server.player.analyze("", [], options=options, every_simulations=1)
        gate.release(3)
        async with contextlib.aclosing(inside):
            await anext(inside)
            assert server.player.searches == 1
        assert server.player.searches == 0

        waiting = asyncio.create_task(client.search(simulations=20_000))
        await searches(server.player, 1)
        waiting.cancel()
        await searches(server.player, 0)
        gate.release(20_000)


async def test_an_analysis_grows_in_steps(
    player_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An analysis takes the steps of one search and ends when the tree's memory is full."""
    spec = games.spec(GAME)
    monkeypatch.setattr(model_player, "_STEP_EDGES", 10 * spec.num_actions)
    section = SearchSection(num_simulations=20, random_symmetry=False, prove_results=False)
    async with player_server(GAME, section) as server, AsyncPlayer(server.address) as client:
        whole = await client.search(simulations=64, seed=3)
        tables = [t async for t in client.analyze(simulations=64, seed=3, every_simulations=1)]
        assert tables[-1] == whole
        simulations = [table.simulations for table in tables]
        assert simulations == sorted(set(simulations))
        assert [table.done for table in tables] == [False] * (len(tables) - 1) + [True]

        small = model_player.Admission(most_edges=100 * spec.num_actions)
        monkeypatch.setattr(server.player, "_admission", small)
        *_, last = [t async for t in client.analyze(simulations=1_000_000, seed=3)]
        assert last.done
        assert 40 <= last.simulations <= 60
        assert small.searches == 0
        with pytest.raises(InvalidRequestError, match="1000001: give 1 to 1000000"):
            _ = [t async for t in client.analyze(simulations=1_000_001)]
        with pytest.raises(InvalidRequestError, match="20001: give 1 to 20000"):
            await client.search(simulations=20_001)


async def test_a_silent_stream_is_given_up(player_server: Any) -> None:
    gate = threading.Semaphore(0)
    async with (
        player_server(GAME, None, gate) as server,
        AsyncPlayer(server.address, timeout=0.05) as client,
    ):
        with pytest.raises(InferenceUnavailableError, match="no table for"):
            _ = [t async for t in client.analyze()]
        await searches(server.player, 0)
        gate.release(20_000)


async def searches(player: Any, count: int) -> None:
    """Wait until this many searches are running."""
    async with asyncio.timeout(120):
        while player.searches != count:  # noqa: ASYNC110 (the player tells nobody)
            await asyncio.sleep(0)


@pytest.mark.parametrize("root", ["puct", "gumbel"])
async def test_client_searches_are_full_and_without_noise(player_server: Any, root: str) -> None:
    """Options that speed up or diversify self-play do not apply to a client's search."""
    section = SearchSection(
        num_simulations=24, root=root, random_symmetry=False, prove_results=False
    )
    async with player_server(GAME, section) as server:
        tables = [
            await server.player.search("", [12], options=SearchOptions(seed=seed))
            for seed in range(8)
        ]
        played = await server.player.play("", [12], options=SearchOptions(seed=9))
    assert all(table.simulations >= 23 for table in tables)
    assert tables == tables[:1] * 8
    assert played.action == tables[0].best_action


async def test_a_run_with_a_gumbel_root_is_searched_by_puct_for_clients(
    player_server: Any,
) -> None:
    """Sequential halving would visit its last actions equally often, whatever their values."""
    tables: list[SearchTable] = []
    for root in ("puct", "gumbel"):
        section = SearchSection(
            num_simulations=64, root=root, random_symmetry=False, prove_results=False
        )
        async with player_server(GAME, section) as server:
            options = SearchOptions(seed=1)
            tables.append(await server.player.search("", [12], options=options))
            played = await server.player.play("", [12], options=options)
            last = [t async for t in server.player.analyze("", [12], options=options)][-1]
        assert played.action == tables[-1].best_action
        assert last == tables[-1]
    most = max(tables[0].children, key=lambda child: (child.visit_count, child.prior))
    assert tables[0].ranked[0] == most
    assert tables[0].best_action == most.action
    counts = sorted(child.visit_count for child in tables[1].children)
    assert counts[-1] != counts[-2]
    assert tables[1].ranked[0].action == tables[1].best_action
