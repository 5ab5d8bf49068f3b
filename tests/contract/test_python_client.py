"""The Python client, blocking and for asyncio, against the real service."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import inspect
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zerofleet import games
from zerofleet.client import AsyncModel, AsyncPlayer, Model, Player, Sgf
from zerofleet.client.async_player import to_actions
from zerofleet.config import run_from_values
from zerofleet.database import Database
from zerofleet.errors import (
    ConfigError,
    InferenceUnavailableError,
    InvalidRequestError,
    ModelNotFoundError,
)
from zerofleet.rpc.server import Server
from zerofleet.services.dashboard.settings import DashboardSettings
from zerofleet.services.dashboard.sources import Sources, StripReader
from zerofleet.services.inference.backend import Backend
from zerofleet.services.inference.model_player import ModelPlayer

GAME, RUN = "tic_tac_toe", "contract"


@pytest.fixture
def elsewhere(over_wire: Any) -> Any:
    """``await elsewhere(work)``: work(address) on a thread, as programs without a loop do it."""

    async def run(work: Callable[[str], Any]) -> Any:
        async with over_wire() as address:
            return await asyncio.to_thread(work, address)

    return run


async def test_both_players_ask_the_same(over_wire: Any) -> None:
    async with over_wire() as address, AsyncPlayer(address, timeout=120) as player:
        table = await player.search([4, 0], simulations=60, seed=3)
        opinion = await player.predict([4, 0], version=1)
        action = await player.play([4, 0], simulations=60, seed=3)
        tables = [t async for t in player.analyze([4, 0], simulations=60, seed=3)]
        description = await player.describe()

        def blocking() -> None:
            with Player(address, timeout=120) as blocking:
                assert blocking.search([4, 0], simulations=60, seed=3) == table
                assert blocking.predict([4, 0], version=1) == opinion
                assert blocking.play([4, 0], simulations=60, seed=3) == action
                assert list(blocking.analyze([4, 0], simulations=60, seed=3)) == tables
                assert blocking.describe() == description

        await asyncio.to_thread(blocking)
    assert (table.simulations, opinion.version, action.action) == (60, 1, table.best_action)
    assert tables[-1] == table
    assert len(tables) > 2
    assert (description.game, description.run, description.best) == (GAME, RUN, 2)


def test_blocking_clients_have_the_signatures_and_the_documentation_of_the_others() -> None:
    for blocking, awaited, names in (
        (Player, AsyncPlayer, ("__init__", "describe", "predict", "search", "analyze", "play")),
        (Model, AsyncModel, ("__init__", "ready", "server_ready", "predict")),
    ):
        for name in names:
            method, original = getattr(blocking, name), getattr(awaited, name)
            assert inspect.signature(method) == inspect.signature(original)
            assert method.__doc__ == original.__doc__
            assert not inspect.iscoroutinefunction(method)
        assert set(names) >= {name for name in vars(blocking) if not name.startswith("_")}


async def test_a_keyword_that_a_call_does_not_have_is_refused() -> None:
    with pytest.raises(TypeError, match="'ran'"):
        Player("127.0.0.1:1", ran="x")  # type: ignore[call-arg]
    options: Any = {"simulatons": 8}
    with (
        Player("127.0.0.1:1") as player,
        pytest.raises(TypeError, match="'simulatons': a search has simulations, leaves, seed,"),
    ):
        await asyncio.to_thread(player.search, **options)
    async with AsyncPlayer("127.0.0.1:1") as player:
        with pytest.raises(TypeError, match="'simulatons'"):
            await player.play(**options)
        with pytest.raises(TypeError, match="'simulatons'"):
            await anext(player.analyze(**options))


@pytest.mark.parametrize("position", [[4, 0], ["b2", "a1"], "b2 a1", " b2\na1 ", "B2 A1"])
async def test_positions_as_people_write_them(over_wire: Any, position: Any) -> None:
    async with over_wire() as address, AsyncPlayer(address, timeout=120) as player:
        opinion = await player.predict(position, game=GAME)
    assert opinion.actions == (1, 2, 3, 5, 6, 7, 8)


def test_sgf_is_told_by_its_bracket() -> None:
    assert to_actions("(;GM[1]SZ[9])") == Sgf("(;GM[1]SZ[9])")
    assert to_actions("\ufeff\n(;GM[1]SZ[9])") == Sgf("\ufeff\n(;GM[1]SZ[9])")
    assert to_actions(b"(;GM[1]SZ[9])") == Sgf(b"(;GM[1]SZ[9])")
    assert to_actions("") == []


async def test_errors_say_what_is_wrong(elsewhere: Any) -> None:
    def work(address: str) -> None:
        with Player(address, timeout=120) as player:
            with pytest.raises(InvalidRequestError, match="ply 1: illegal action 4"):
                player.play([4, 4])
            with pytest.raises(InvalidRequestError, match=f"this server plays '{GAME}', not 'go'"):
                player.play(game="go")
            with pytest.raises(ModelNotFoundError, match="no version 7"):
                player.predict(version=7)
            with pytest.raises(InvalidRequestError, match="num_simulations is 1000001"):
                next(player.analyze(simulations=1_000_001))

    await elsewhere(work)


async def test_many_threads_share_a_player(elsewhere: Any) -> None:
    """Everybody gets the answer to what he asked, and one thread serves all."""

    def work(address: str) -> None:
        with (
            Player(address, timeout=120) as player,
            Player(address) as other,
            ThreadPoolExecutor(8) as threads,
        ):
            other.describe()
            answers = list(threads.map(lambda a: player.predict([a]), list(range(9)) * 4))
            ours = [thread for thread in threading.enumerate() if thread.name == "zerofleet-client"]
            assert len(ours) == 1
        for action, answer in enumerate(answers):
            assert answer.actions == tuple(a for a in range(9) if a != action % 9)

    await elsewhere(work)


async def test_a_player_is_used_up_by_closing_it(elsewhere: Any) -> None:
    def work(address: str) -> None:
        player = Player(address)
        player.describe()
        player.close()
        player.close()
        with pytest.raises(ConfigError, match="is closed"):
            player.describe()

    await elsewhere(work)


async def test_an_analysis_that_is_left_ends_at_the_server(
    in_process: Any, over_player: Any
) -> None:
    async with over_player() as (address, player):

        def work() -> None:
            with Player(address, timeout=120) as client:
                for _ in client.analyze(simulations=20_000, every_simulations=1):
                    assert player.searches == 1
                    break
                client.describe()  # asked after the end of the analysis, on the same connection

        await asyncio.to_thread(work)
        async with asyncio.timeout(120):
            while player.searches:  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(0.005)


async def test_the_page_notices_by_itself_that_inference_is_back(
    over_wire: Any, database: Database, role_url: Callable[[str], str], valkey_url: str
) -> None:
    del database  # has the tables
    run = run_from_values({"name": "test", "game": {"name": GAME}})
    async with over_wire() as address:
        settings = DashboardSettings(
            run_file=Path("run.toml"),
            database_url=role_url("console"),
            redis_url=valkey_url,
            inference_address=address,
        )
        async with Sources(run, settings) as sources, asyncio.timeout(120):
            with pytest.raises(InferenceUnavailableError), sources.asking("Inference"):
                raise InferenceUnavailableError("nobody answers")
            assert [outage.name for outage in sources.outages] == ["Inference"]
            strip = StripReader(sources, sources.run)
            while (await strip.read()).outages:
                pass


@pytest.fixture
def over_player(in_process: Any) -> Any:
    """``async with over_player() as (address, player)``: the wire, and the player behind it."""

    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[tuple[str, ModelPlayer]]:
        async with in_process() as parts:
            backend = Backend(parts.models, parts.batcher, parts.shape)
            async with Server("127.0.0.1:0", inference=backend, player=parts.player) as server:
                yield f"127.0.0.1:{server.port}", parts.player

    return opened


def test_nobody_there_is_said_in_time() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with (
            Player(address, timeout=0.3) as player,
            pytest.raises(InferenceUnavailableError, match=f"inference at {address}"),
        ):
            player.describe()


def test_closing_ends_a_call_that_is_out() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        player = Player(f"127.0.0.1:{silent.getsockname()[1]}", timeout=120)
        with ThreadPoolExecutor(1) as thread:
            asked = thread.submit(player.describe)
            silent.accept()[0].close()  # it is out
            player.close()
            with pytest.raises(InferenceUnavailableError, match="closed before the answer"):
                asked.result(60)


def test_another_machine_in_plaintext_is_refused() -> None:
    with Player("192.0.2.1:8001") as player, pytest.raises(ConfigError, match="another machine"):
        player.describe()


def test_a_file_that_is_missing_is_named() -> None:
    for options in ({"tls_folder": "/nowhere"}, {"token_file": "/nowhere/token"}):
        with Player("127.0.0.1:1", **options) as player:  # type: ignore[arg-type]
            for _ in range(2):
                with pytest.raises(ConfigError, match="/nowhere"):
                    player.describe()


PROGRAM = """
import os, sys
import zerofleet.client
heavy = ("sqlalchemy", "alembic", "psycopg2", "redis", "torch", "onnxruntime", "onnx", "pydantic",
         "typer", "rich", "prometheus_client", "zerofleet_core", "zerofleet.config",
         "zerofleet.database", "structlog", "cryptography", "obstore")
print([name for name in heavy if name in sys.modules])
player = zerofleet.client.Player(sys.argv[1], timeout=120)
print(player.describe().run)
sys.stdout.flush()
child = os.fork()
if not child:
    try:
        player.describe()
    except zerofleet.errors.ConfigError as error:
        os.write(1, str(error).encode())
    os._exit(0)
os.waitpid(child, 0)
print()
print(player.describe().run)
"""


async def test_it_is_light_says_that_it_was_forked_and_leaves_quietly(elsewhere: Any) -> None:
    """One process for three matters, since starting one is what costs."""

    def work(address: str) -> None:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, address],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        # gRPC says that it saw the fork; it was never closed, and nothing else complains.
        complaints = [line for line in done.stderr.splitlines() if "fork_posix" not in line]
        assert (done.returncode, complaints) == (0, [])
        heavy, before, forked, after = done.stdout.splitlines()
        assert heavy == "[]"
        assert (before, after) == (RUN, RUN)
        assert "which has used this client, and gRPC does not survive a fork" in forked

    await elsewhere(work)


# ---- the tensor level


def observations(rows: int) -> np.ndarray:
    spec = games.spec(GAME)
    generator = np.random.default_rng(rows)
    return generator.integers(0, 256, (rows, spec.observation_bytes)).astype(np.uint8)


async def test_a_batch_of_any_size(
    in_process: Any, over_wire: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server takes 64 rows at once; 300 travel in several messages and come back in order.

    Of all such messages of a connection no more than four are on their way at once.
    """
    rows = observations(300)
    async with in_process() as parts:
        model = await parts.models.get(2)
        logits, value = model.run(0, rows)
    async with (
        over_wire() as address,
        AsyncModel(address, RUN, message_rows=64, timeout=120) as asked,
    ):
        answer = await asked.predict(rows)
        alone = await asked.predict(rows[:1])

        def blocking() -> Any:
            with Model(address, RUN, version=1, message_rows=50, timeout=120) as blocking:
                return blocking.predict(rows)

        other = await asyncio.to_thread(blocking)
        ask, out, together = asked._ask, 0, set[int]()

        async def counted(*message: Any) -> Any:
            nonlocal out
            out += 1
            together.add(out)
            try:
                return await ask(*message)
            finally:
                out -= 1

        monkeypatch.setattr(asked, "_ask", counted)
        await asyncio.gather(asked.predict(rows), asked.predict(rows))
        assert max(together) == 4
    np.testing.assert_allclose(answer.policy_logits, logits, atol=1e-2)
    np.testing.assert_allclose(answer.value, value, atol=1e-5)
    assert (answer.model_version, alone.model_version, other.model_version) == (2, 2, 1)
    assert len(alone.value) == 1
    assert not np.allclose(other.value, value, atol=1e-2)


async def test_a_model_says_what_is_wrong(elsewhere: Any) -> None:
    def work(address: str) -> None:
        with Model(address, "stranger", timeout=120) as model, pytest.raises(ModelNotFoundError):
            model.predict(observations(200))
        with Model(address, RUN, message_rows=64, timeout=120) as model:
            for wrong in (observations(0), observations(3)[:, :1], observations(3).astype(float)):
                with pytest.raises(InvalidRequestError):
                    model.predict(wrong)
            assert len(model.predict(observations(3)).value) == 3
        with pytest.raises(InvalidRequestError, match="message_rows is 0"):
            AsyncModel(address, RUN, message_rows=0)

    await elsewhere(work)


# ---- the examples


def example(name: str) -> Any:
    path = Path(__file__).resolve().parents[2] / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_the_examples_run(elsewhere: Any, capsys: pytest.CaptureFixture[str]) -> None:
    await elsewhere(example("play_a_game").main)
    said = capsys.readouterr().out
    assert "model 2 of the run 'contract'" in said
    assert "the game is over after" in said
    await elsewhere(lambda address: asyncio.run(example("analyse_async").main(address, ["", "b2"])))
    said = capsys.readouterr().out
    assert "[] " in said
    assert "[b2]  800 simulations" in said
