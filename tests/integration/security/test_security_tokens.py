"""Tokens: every method is called with every role, and tokens are added and removed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import numpy as np
import pytest

from zerofleet.client import AsyncModel, AsyncPlayer
from zerofleet.errors import (
    AccessDeniedError,
    ConfigError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from zerofleet.prediction import Prediction
from zerofleet.rpc.methods import INFERENCE, PLAYER
from zerofleet.rpc.schema import service
from zerofleet.rpc.tls import ClientCredentials, ServerCredentials
from zerofleet.secrets.tokens import ROLES, add_token
from zerofleet.waiting import PatientPredictor, Waits

RUN = "secured"
ROWS = np.zeros((2, 4), np.uint8)
EVERYBODY = {"worker", "client", "admin"}
TENSORS = (
    *("ServerLive", "ServerReady", "ModelReady", "ServerMetadata", "ModelMetadata"),
    *("ModelConfig", "ModelInfer"),
)
WHO_MAY_CALL = {  # as docs/reference/security.md lists them
    **{f"/{INFERENCE}/{name}": EVERYBODY for name in TENSORS},
    f"/{INFERENCE}/ModelStreamInfer": {"worker", "admin"},
    f"/{INFERENCE}/ModelStatistics": {"admin"},
    f"/{INFERENCE}/RepositoryIndex": {"admin"},
    **{
        f"/{PLAYER}/{name}": {"client", "admin"}
        for name in ("Describe", "Predict", "Search", "Analyze", "Play")
    },
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": {"admin"},
}
OPEN = ("/grpc.health.v1.Health/Check",)


def test_the_table_names_every_method() -> None:
    named = {
        f"/{name}/{each.name}" for name in (INFERENCE, PLAYER) for each in service(name).methods
    }
    assert named | {path for path in WHO_MAY_CALL if "reflection" in path} == WHO_MAY_CALL.keys()


async def _status(channel: Any, path: str, metadata: tuple[tuple[str, str], ...]) -> str:
    """Return the status with which an empty call of a method ends."""
    streams = path.endswith(("ModelStreamInfer", "ServerReflectionInfo"))
    if streams:
        call = channel.stream_stream(path)(metadata=metadata, timeout=120)
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            await call.done_writing()
            async for _ in call:
                pass
    elif path.endswith("Analyze"):
        call = channel.unary_stream(path)(b"", metadata=metadata, timeout=120)
        with contextlib.suppress(grpc.aio.AioRpcError):
            async for _ in call:
                pass
    else:
        call = channel.unary_unary(path)(b"", metadata=metadata, timeout=120)
        with contextlib.suppress(grpc.aio.AioRpcError):
            await call
    return (await call.code()).name


async def test_every_method_by_every_role(
    serve: Any, secured: ServerCredentials, fleet_secrets: Path
) -> None:
    """The channel is plaintext, as in a trusted network: tokens need no TLS."""
    credentials = ServerCredentials(token_roles_file=secured.token_roles_file)
    sent: dict[str, tuple[tuple[str, str], ...]] = {
        role: (
            ("authorization", f"Bearer {(fleet_secrets / 'tokens' / role).read_text().strip()}"),
        )
        for role in sorted(ROLES)
    }
    nobody: dict[str, tuple[tuple[str, str], ...]] = {
        "none": (),
        "unknown": (("authorization", "Bearer zf_unknown"),),
        "another scheme": (("authorization", sent["admin"][0][1].replace("Bearer", "Basic")),),
        "two": sent["admin"] * 2,
        "empty": (("authorization", ""),),
    }
    async with serve(credentials) as served, grpc.aio.insecure_channel(served.address) as channel:
        for path, roles in WHO_MAY_CALL.items():
            for role, metadata in sent.items():
                status = await _status(channel, path, metadata)
                assert (status == "PERMISSION_DENIED") == (role not in roles), (path, role, status)
                assert status != "UNAUTHENTICATED", (path, role)
            for who, metadata in nobody.items():
                status = await _status(channel, path, metadata)
                assert status == "UNAUTHENTICATED", (path, who, status)
        for path in OPEN:
            assert await _status(channel, path, ()) == "OK"


async def test_health_can_be_watched_without_a_token(
    serve: Any, secured: ServerCredentials
) -> None:
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    credentials = ServerCredentials(token_roles_file=secured.token_roles_file)
    async with serve(credentials) as served, grpc.aio.insecure_channel(served.address) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(
            health_pb2.HealthCheckRequest(), timeout=120
        )
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
        await served.server.set_serving(False)
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        watch.cancel()


async def test_our_clients_send_theirs(
    serve: Any, secured: ServerCredentials, shown: Callable[..., ClientCredentials]
) -> None:
    async with serve(secured) as served:
        async with (
            AsyncModel(served.address, RUN, **shown("worker")) as client,
            client.stream() as stream,
        ):
            assert await client.server_ready()
            assert (await client.predict(ROWS)).model_version == 1
            assert (await stream.predict(ROWS)).model_version == 1
        async with AsyncPlayer(served.address, **shown("client", "client")) as player:
            assert (await player.describe()).run == RUN


async def test_a_refusal_is_an_error_of_its_own_and_comes_at_once(
    serve: Any, secured: ServerCredentials, shown: Callable[..., ClientCredentials]
) -> None:
    """The clients' timeouts are far longer than a test may take."""
    async with serve(secured) as served:
        async with (
            AsyncModel(served.address, RUN, timeout=900, **shown(None)) as client,
            client.stream() as stream,
        ):
            for ask in (
                client.server_ready,
                lambda: client.predict(ROWS),
                lambda: stream.predict(ROWS),
            ):
                with pytest.raises(UnauthenticatedError, match="this server wants one token"):
                    await ask()
        async with (
            AsyncModel(served.address, RUN, timeout=900, **shown("client")) as client,
            client.stream() as stream,
        ):
            with pytest.raises(PermissionDeniedError, match="has the role client, which may not"):
                await stream.predict(ROWS)
        async with AsyncPlayer(served.address, timeout=900, **shown("worker")) as player:
            with pytest.raises(PermissionDeniedError):
                await player.describe()
            with pytest.raises(PermissionDeniedError):
                await anext(player.analyze(game="tic_tac_toe"))


async def test_tokens_are_rotated_without_a_restart(serve: Any, tmp_path: Path) -> None:
    accepted, mine = tmp_path / "roles.toml", tmp_path / "token"
    mine.write_text(add_token(accepted, "ann", "worker"))
    credentials = ClientCredentials(token_file=mine)
    async with (
        serve(ServerCredentials(token_roles_file=accepted)) as served,
        AsyncModel(served.address, RUN, **credentials) as client,
        client.stream() as stream,
    ):
        await stream.predict(ROWS)
        old = accepted.read_text()
        token = add_token(accepted, "ann", "worker")
        await client.predict(ROWS)
        mine.write_text(f"{token}\n")
        await client.predict(ROWS)
        accepted.write_text(accepted.read_text().removeprefix(old))
        await client.predict(ROWS)
        await stream.predict(ROWS)
        accepted.write_text("[[tokens]]\n")  # the file is invalid, so the previous tokens stay
        await client.predict(ROWS)
        accepted.write_text("")
        with pytest.raises(UnauthenticatedError, match="does not know the token"):
            await client.predict(ROWS)
        # the server checked the token when the stream began; it does not check each message
        await stream.predict(ROWS)


async def test_a_service_waits_a_while_for_its_token_to_be_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The client's file may have a token before the server's file; a wrong role stays wrong."""

    class Refusing:
        def __init__(self, *errors: AccessDeniedError) -> None:
            self.errors = list(errors)

        async def predict(self, observations: np.ndarray) -> Prediction:
            if self.errors:
                raise self.errors.pop(0)
            return Prediction(observations, observations, 7)

    def patient(*errors: AccessDeniedError) -> PatientPredictor:
        return PatientPredictor(Refusing(*errors), waits, "engine", "a model")

    waits = Waits()
    assert (await patient(UnauthenticatedError("unknown")).predict(ROWS)).model_version == 7
    with pytest.raises(PermissionDeniedError):
        await patient(PermissionDeniedError("a client's")).predict(ROWS)
    monkeypatch.setattr("zerofleet.waiting._TOKEN_SECONDS", 0.05)
    with pytest.raises(UnauthenticatedError):
        await patient(*[UnauthenticatedError("unknown")] * 100).predict(ROWS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[tokens]]\nname = 'a'\nrole = 'worker'", "token 1: give name, role and sha256"),
        ("[[tokens]]\nname = 'a'\nrole = 'boss'\nsha256 = ''", "role = 'boss': give one of worker"),
        ("[[tokens]]\nname = 'a b'\nrole = 'admin'\nsha256 = ''", "the name may have 64 letters"),
        ("[[tokens]]\nname = 'a'\nrole = 'admin'\nsha256 = 'zf_canary'", "64 hexadecimal digits"),
        ("[tokens", "are not TOML"),
        ("token = 'zf_canary'", "must hold"),
        (None, "cannot read"),
    ],
)
async def test_a_file_of_tokens_that_is_no_good(
    serve: Any, tmp_path: Path, text: str | None, message: str
) -> None:
    path = tmp_path / "roles.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        async with serve(ServerCredentials(token_roles_file=path)):
            pass
    assert "canary" not in str(caught.value)
    assert str(path) in str(caught.value)


async def test_a_token_that_cannot_be_sent(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("zf_canary\N{SNOWMAN}")
    with pytest.raises(ConfigError, match="cannot be sent") as caught:
        async with AsyncModel("127.0.0.1:1", RUN, **ClientCredentials(token_file=path)) as c:
            await asyncio.wait_for(c.server_ready(), 120)
    assert "canary" not in str(caught.value)
