"""A player over the wire, for asyncio."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from types import TracebackType
from typing import Self

from zerofleet.client.connection import credentials
from zerofleet.client.position import Position, to_actions
from zerofleet.rpc.codec import BEST
from zerofleet.rpc.player import (
    PlayedAction,
    PlayerDescription,
    PositionPrediction,
    SearchOptions,
    SearchTable,
)
from zerofleet.rpc.player_client import PlayerClient


class AsyncPlayer:
    """Asks an inference service; for ``async with``, in one event loop.

    Args:
        address: ``host:port``, ``unix:path`` or any gRPC target.
        timeout: seconds for an answer, all tries together; in ``analyze`` for each table.
        tls_folder: folder with ``ca.crt``, and with ``tls.crt`` and ``tls.key`` where the server
            wants a certificate; None: plaintext.
        token_file: file whose first line is the bearer token.
        allow_plaintext: without a ``tls_folder``, let the server be on another machine.

    All methods raise ``InvalidRequestError`` for an unknown game, an illegal action (named, with
    its ply), a finished game, or numbers without sense; ``ModelNotFoundError``;
    ``OverloadedError`` when the server has no room; ``AccessDeniedError`` when it refuses the
    token; and ``InferenceUnavailableError`` when nobody answered in time.

    Raises:
        ConfigError: on entering, when a file cannot be used, or it would be plaintext to another
            machine.
    """

    def __init__(
        self,
        address: str,
        *,
        timeout: float = 60.0,
        tls_folder: str | Path | None = None,
        token_file: str | Path | None = None,
        allow_plaintext: bool = False,
    ) -> None:
        shown = credentials(tls_folder, token_file, allow_plaintext=allow_plaintext)
        self._client = PlayerClient(address, timeout=timeout, credentials=shown)

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._client.__aexit__(kind, error, trace)

    async def describe(self) -> PlayerDescription:
        """What the server plays, with which models."""
        return await self._client.describe()

    async def predict(
        self, position: Position = (), *, game: str = "", version: int | str = BEST
    ) -> PositionPrediction:
        """The network's opinion of a position, without search.

        Args:
            position: the actions that lead to it.
            game: what is played; empty: whatever the server plays.
            version: of the model; ``"best"``: the promoted one.
        """
        return await self._client.predict(game, to_actions(position), version=str(version))

    async def search(
        self,
        position: Position = (),
        *,
        simulations: int | None = None,
        leaves: int = 1,
        seed: int | None = None,
        noise: bool = False,
        game: str = "",
        version: int | str = BEST,
    ) -> SearchTable:
        """The table at the root after a whole search.

        Args:
            position: the actions that lead to it.
            simulations: of the search; None: as the server's run says.
            leaves: of the tree that may be at the network together: more is faster and weaker.
            seed: the same seed, model and position give the same table; None: drawn by the server.
            noise: mix Dirichlet noise into the priors of the root, as self-play does.
            game: what is played; empty: whatever the server plays.
            version: of the model; ``"best"``: the promoted one.
        """
        return await self._client.search(
            game,
            to_actions(position),
            version=str(version),
            options=SearchOptions(simulations, leaves, seed, noise),
        )

    async def analyze(
        self,
        position: Position = (),
        *,
        every_simulations: int = 0,
        every_seconds: float = 0.0,
        simulations: int | None = None,
        leaves: int = 1,
        seed: int | None = None,
        game: str = "",
        version: int | str = BEST,
    ) -> AsyncGenerator[SearchTable]:
        """The table while the search runs; the last one is ``done``.

        The search ends when the generator is closed (``contextlib.aclosing``). A broken stream is
        an error, not another try.

        Args:
            position: the actions that lead to it.
            every_simulations: a table about every so many; 0: a tenth of all, unless the next is
                given.
            every_seconds: a table when so much time has passed since the last one.
            simulations: see ``search``, as the rest.
            leaves: more is faster and weaker.
            seed: the same tables again.
            game: empty: whatever the server plays.
            version: of the model.
        """
        tables = self._client.analyze(
            game,
            to_actions(position),
            version=str(version),
            options=SearchOptions(simulations, leaves, seed),
            every_simulations=every_simulations,
            every_seconds=every_seconds,
        )
        try:
            async for table in tables:
                yield table
        finally:
            await tables.aclose()

    async def play(
        self,
        position: Position = (),
        *,
        temperature: float = 0.0,
        simulations: int | None = None,
        leaves: int = 1,
        seed: int | None = None,
        game: str = "",
        version: int | str = BEST,
    ) -> PlayedAction:
        """Search, then choose an action.

        Args:
            position: the actions that lead to it.
            temperature: 0 plays the most visited action; above 0 draws one with probability
                ~ visits^(1 / temperature).
            simulations: see ``search``, as the rest.
            leaves: more is faster and weaker.
            seed: the same action again.
            game: empty: whatever the server plays.
            version: of the model.
        """
        return await self._client.play(
            game,
            to_actions(position),
            version=str(version),
            options=SearchOptions(simulations, leaves, seed),
            temperature=temperature,
        )
