"""The promises of a player, tested over gRPC."""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest

from zerofleet import games
from zerofleet.client import AsyncPlayer
from zerofleet.errors import InvalidRequestError, ModelNotFoundError
from zerofleet.rpc.player_service import Sgf, decode_actions
from zerofleet.rpc.schema import player as pb

GAME = "tic_tac_toe"
RUN = "contract"
SEEDED: dict[str, Any] = {"simulations": 60, "seed": 3}


@pytest.fixture
def player(over_wire: Any) -> Any:
    """``async with player() as it``."""

    @contextlib.asynccontextmanager
    async def opened(run: str = "") -> AsyncIterator[AsyncPlayer]:
        async with over_wire() as address, AsyncPlayer(address, run=run, timeout=120) as client:
            yield client

    return opened


async def test_describe(player: Any) -> None:
    async with player() as it:
        description = await it.describe()
    assert (description.game, description.num_actions) == (GAME, 9)
    assert description.observation_shape == games.spec(GAME).observation_shape
    assert (description.run, description.best, description.versions) == (RUN, 2, (1, 2))
    assert (description.num_simulations, description.max_simulations) == (40, 20_000)
    assert description.max_analysis_simulations == 1_000_000


async def test_predict(player: Any) -> None:
    async with player() as it:
        opinion = await it.predict([4, 0], game=GAME)
        other = await it.predict([4, 0], game=GAME, version="1")
    async with player(RUN) as it:
        same = await it.predict(["b2", "a1"], version="2")
    assert opinion == same
    assert (opinion.run, opinion.version, other.version) == (RUN, 2, 1)
    assert opinion.to_play == 0
    assert opinion.actions == (1, 2, 3, 5, 6, 7, 8)
    assert opinion.action_strings[0] == "b1"
    assert sum(opinion.priors) == pytest.approx(1, abs=1e-5)
    assert opinion.priors != other.priors
    assert -1 <= opinion.value <= 1


async def test_search_gives_the_whole_table(player: Any) -> None:
    async with player() as it:
        table = await it.search([4, 0], game=GAME, **SEEDED)
        opinion = await it.predict([4, 0], game=GAME)
    assert (table.run, table.version, table.to_play, table.done) == (RUN, 2, 0, True)
    assert [child.action for child in table.children] == [1, 2, 3, 5, 6, 7, 8]
    visits = {child.action: child.visit_count for child in table.children}
    assert sum(visits.values()) == table.simulations
    assert visits[table.best_action] >= 0.15 * max(visits.values())
    assert table.network_value == pytest.approx(opinion.value, abs=0.5)
    for child in table.children:
        assert (child.q_value is None) == (child.visit_count == 0)
        assert child.principal_variation[0] == child.action
    assert sum(child.prior for child in table.children) == pytest.approx(1, abs=1e-5)


async def test_search_finds_the_win(player: Any) -> None:
    """First: a1, b1 and to move; c1 wins."""
    async with player() as it:
        table = await it.search(["a1", "a3", "b1", "b3"], game=GAME, simulations=400, seed=1)
    assert table.best_action_string == "c1"
    assert table.root_value > 0.5


async def test_a_position_may_have_a_start_of_its_own(player: Any) -> None:
    """In the notation of the game; the actions continue from there."""
    start = "xx1/3/oo1 x"
    async with player() as it:
        assert (await it.describe()).sets_up_positions
        table = await it.search(start=start, game=GAME, simulations=400, seed=1)
        assert table.best_action_string == "c1"
        played = await it.play(["a2"], start=start, simulations=400, seed=1)
        assert played.action_string in ("c1", "c3")
        tables = [each async for each in it.analyze(start=start, **SEEDED)]
        assert tables[-1] == await it.search(start=start, **SEEDED)
        opinion = await it.predict(["b2"], start="x2/3/3 o")
        assert opinion == await it.predict(["a1", "b2"])
        for actions, wrong, reason in [
            ([], "xxx/3/3 o", "start: the board has 3 x and 0 o; x moves first"),
            ([], "nonsense", "start: the position has 1 row instead of 3"),
            ([], "xxx/oo1/3 o", "the game is over after 5 plies"),
            (["a1"], "x2/3/3 o", "ply 0: illegal action 'a1'"),
        ]:
            with pytest.raises(InvalidRequestError, match=reason):
                await it.predict(actions, start=wrong)


async def test_a_start_is_not_sent_to_a_server_that_ignores_it(
    player: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server of an earlier version would answer for the usual start."""
    async with player() as it:
        describe = it.describe

        async def of_an_earlier_version() -> Any:
            return dataclasses.replace(await describe(), sets_up_positions=False)

        monkeypatch.setattr(it, "describe", of_an_earlier_version)
        with pytest.raises(InvalidRequestError, match="takes no start positions"):
            await it.predict(start="x2/3/3 o")


async def test_a_seed_repeats_the_search(player: Any) -> None:
    async with player() as it:
        assert await it.search([4], game=GAME, **SEEDED) == await it.search(
            [4], game=GAME, **SEEDED
        )


async def test_defaults_come_from_the_run_file(player: Any) -> None:
    async with player() as it:
        assert (await it.search([], game=GAME)).simulations == pytest.approx(40, abs=1)


async def test_several_leaves_and_noise(player: Any) -> None:
    async with player() as it:
        table = await it.search([4], game=GAME, simulations=64, leaves=8, seed=3, noise=True)
    assert table.simulations >= 63


async def test_analyze_ends_with_the_searchs_table(player: Any) -> None:
    async with player() as it:
        tables = [
            table async for table in it.analyze([4, 0], game=GAME, **SEEDED, every_simulations=10)
        ]
        final = await it.search([4, 0], game=GAME, **SEEDED)
    assert tables[-1] == final
    assert [table.done for table in tables] == [False] * (len(tables) - 1) + [True]
    simulations = [table.simulations for table in tables]
    assert simulations == sorted(simulations)
    assert 5 <= len(tables) <= 8


async def test_analyze_shows_no_table_twice(player: Any) -> None:
    """Also where one is due at the very end."""
    async with player() as it:
        tables = it.analyze([4, 0], game=GAME, **SEEDED, every_simulations=1)
        simulations = [table.simulations async for table in tables]
    assert simulations == sorted(set(simulations))


async def test_analyze_may_be_left(player: Any) -> None:
    async with player() as it:
        tables = it.analyze([4, 0], game=GAME, **SEEDED, every_simulations=1)
        async with contextlib.aclosing(tables):
            assert not (await anext(tables)).done
        assert (await it.search([4, 0], game=GAME, **SEEDED)).done


async def test_play_takes_the_best_or_samples(player: Any) -> None:
    async with player() as it:
        table = await it.search([4, 0], game=GAME, **SEEDED)
        played = await it.play([4, 0], game=GAME, **SEEDED)
        assert played.action == table.best_action
        assert played.action_string == table.best_action_string
        assert played.version == 2
        frozen = await it.play([4, 0], game=GAME, **SEEDED, temperature=1e-40)
        most = max(child.visit_count for child in table.children)
        assert [c.visit_count for c in table.children if c.action == frozen.action] == [most]
        sampled = Counter()
        for seed in range(20):
            drawn = await it.play([4, 0], game=GAME, simulations=60, seed=seed, temperature=3.0)
            sampled[drawn.action] += 1
    assert len(sampled) > 1
    assert set(sampled) <= {1, 2, 3, 5, 6, 7, 8}


REFUSED = [
    ([4, 4], "ply 1: illegal action 4"),
    (["b2", "b2"], "ply 1: illegal action 'b2'"),
    ([99], "ply 0: illegal action 99"),
    ([-1], "ply 0: illegal action -1"),
    (["castle"], "ply 0: illegal action 'castle'"),
    ([0, 3, 1, 4, 2], "over after 5 plies, X won"),
    ([0, 3, 1, 4, 2, 8], "ply 5: action 8 comes after the end"),
]


@pytest.mark.parametrize(("actions", "text"), REFUSED)
async def test_positions_that_cannot_be_played(player: Any, actions: Any, text: str) -> None:
    async with player() as it:
        for ask in (it.predict, it.search, it.play):
            with pytest.raises(InvalidRequestError, match=text):
                await ask(actions, game=GAME)
        with pytest.raises(InvalidRequestError, match=text):
            _ = [table async for table in it.analyze(actions, game=GAME)]
        assert (await it.predict([], game=GAME)).version == 2


async def test_sgf_of_a_game_without_sgf(player: Any) -> None:
    async with player() as it:
        with pytest.raises(InvalidRequestError, match="SGF is for go and othello"):
            await it.predict(Sgf("(;SZ[3];B[aa])"), game=GAME)


@pytest.mark.parametrize("seconds", [-1.0, np.nan, np.inf])
async def test_intervals_without_sense(player: Any, seconds: float) -> None:
    async with player() as it:
        with pytest.raises(InvalidRequestError, match="every_seconds"):
            _ = [table async for table in it.analyze([], game=GAME, every_seconds=seconds)]


def test_a_position_is_given_in_one_way() -> None:
    for position in (
        pb.Position(actions=[4], action_strings=["b2"]),
        pb.Position(actions=[4], sgf="(;)"),
        pb.Position(action_strings=["b2"], sgf="(;)"),
        pb.Position(sgf="(;)", sgf_file=b"(;)"),
    ):
        with pytest.raises(InvalidRequestError, match="give one of actions, action_strings, sgf"):
            decode_actions(position)


@pytest.mark.parametrize(
    "options",
    [
        {"simulations": 20_001},
        {"simulations": -1},
        {"leaves": 257},
        {"leaves": -1},
        {"seed": -1},
        {"seed": 1 << 64},
    ],
)
async def test_options_without_sense(player: Any, options: dict[str, int]) -> None:
    async with player() as it:
        with pytest.raises(InvalidRequestError):
            await it.search([], game=GAME, **options)


@pytest.mark.parametrize("temperature", [-1.0, np.nan, np.inf])
async def test_temperatures_without_sense(player: Any, temperature: float) -> None:
    async with player() as it:
        with pytest.raises(InvalidRequestError, match="temperature"):
            await it.play([], game=GAME, temperature=temperature)


@pytest.mark.parametrize(
    "actions", [[0] * (1 << 20) + [0], ["a" * (1 << 20)], Sgf("(" * (1 << 20))]
)
def test_positions_beyond_any_game(actions: Any) -> None:
    """A byte of the message may be an object of Python, and whoever asks next would wait."""
    with pytest.raises(InvalidRequestError, match="bytes: at most 1048576 are read"):
        decode_actions(_message(actions))


def _message(actions: Any) -> pb.Position:
    if isinstance(actions, Sgf):
        return pb.Position(sgf=actions.text)
    if isinstance(actions[0], str):
        return pb.Position(action_strings=actions)
    return pb.Position(actions=actions)


async def test_strangers(player: Any) -> None:
    async with player() as it:
        with pytest.raises(InvalidRequestError, match="plays 'tic_tac_toe', not 'chess'"):
            await it.search([], game="chess")
        with pytest.raises(ModelNotFoundError, match="no version 9"):
            await it.predict([], game=GAME, version="9")
        with pytest.raises(ModelNotFoundError, match="no version 'newest'"):
            await it.play([], game=GAME, version="newest")
    async with player("nobody") as it:
        with pytest.raises(ModelNotFoundError, match="unknown model 'nobody'"):
            await it.search()
