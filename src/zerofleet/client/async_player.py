"""A player over the wire, for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias, Unpack

import grpc.aio

from zerofleet.errors import InferenceUnavailableError, InvalidRequestError
from zerofleet.rpc import player_service as codec
from zerofleet.rpc.channel import Channel, retrying, rpc_error, server_stream, unary
from zerofleet.rpc.codec import BEST
from zerofleet.rpc.methods import PLAYER
from zerofleet.rpc.player_service import (
    Actions,
    PlayedAction,
    PlayerDescription,
    PositionPrediction,
    SearchOptions,
    SearchTable,
    Sgf,
)
from zerofleet.rpc.schema import player as pb

Position: TypeAlias = Sequence[int] | Sequence[str] | Sgf | str | bytes
"""A position: the actions from the start of the game, or from the ``start`` of a call.

Actions are numbers, or names as the game writes them (``["e5", "c3"]`` or ``"e5 c3"``), or an SGF
file as text or as bytes in any encoding. An empty position is the start.
"""


class AsyncPlayer:
    """Calls an inference service; for ``async with``, in one event loop.

    Args:
        address: ``host:port``, ``unix:path`` or any gRPC target.
        run: name of the run whose models answer; empty: the server's.
        timeout: seconds for an answer, all tries together; in ``analyze`` for each table.
        tls_folder: folder with ``ca.crt``, and with ``tls.crt`` and ``tls.key`` if the server wants
            a certificate; None: plaintext.
        token_file: file whose first line is the bearer token.
        allow_plaintext: allow a server on another machine without a ``tls_folder``.

    All methods raise ``InvalidRequestError`` for an unknown game, an illegal action (named, with
    its ply), a wrong start position, a finished game, or numbers out of range. They raise
    ``ModelNotFoundError``, ``OverloadedError`` when the server has no room, ``AccessDeniedError``
    when it refuses the token, and ``InferenceUnavailableError`` when no answer came in time.

    Raises:
        ConfigError: on entering, if a file cannot be used, or the connection would be plaintext to
            another machine.
    """

    def __init__(
        self,
        address: str,
        *,
        run: str = "",
        timeout: float = 60.0,
        tls_folder: str | Path | None = None,
        token_file: str | Path | None = None,
        allow_plaintext: bool = False,
    ) -> None:
        self._address = address
        self._connect = lambda: Channel(
            address, tls_folder=tls_folder, token_file=token_file, allow_plaintext=allow_plaintext
        )
        self._run = run
        self._timeout = timeout
        self._sets_up_positions = False  # not known yet

    async def __aenter__(self) -> Self:
        self._channel = channel = self._connect()
        self._describe = unary(channel, PLAYER, "Describe", pb.DescribeRequest, pb.DescribeResponse)
        self._predict = unary(channel, PLAYER, "Predict", pb.PredictRequest, pb.PredictResponse)
        self._search = unary(channel, PLAYER, "Search", pb.SearchRequest, pb.SearchResponse)
        self._analyze = server_stream(
            channel, PLAYER, "Analyze", pb.AnalyzeRequest, pb.SearchResponse
        )
        self._play = unary(channel, PLAYER, "Play", pb.PlayRequest, pb.PlayResponse)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._channel.close()

    async def describe(self) -> PlayerDescription:
        """Return which game the server plays, with which models."""
        request = pb.DescribeRequest()
        return codec.decode_description(
            await retrying(
                self._address, self._timeout, lambda left: self._describe(request, timeout=left)
            )
        )

    async def predict(
        self,
        position: Position = (),
        *,
        start: str = "",
        game: str = "",
        version: int | str = BEST,
    ) -> PositionPrediction:
        """Predict a position with the network, without search.

        Args:
            position: the actions that lead to it.
            start: position that the actions begin at, in the game's notation (the reference page of
                the games); empty: the usual start.
            game: game name; empty: the server's.
            version: model version; ``"best"``: the promoted one.
        """
        await self._check_start(start)
        request = pb.PredictRequest(
            position=codec.encode_position(game, to_actions(position), start),
            model=self._model(version),
        )
        return codec.decode_prediction(
            await retrying(
                self._address, self._timeout, lambda left: self._predict(request, timeout=left)
            )
        )

    async def search(
        self,
        position: Position = (),
        *,
        start: str = "",
        game: str = "",
        version: int | str = BEST,
        **options: Unpack[SearchOptions],
    ) -> SearchTable:
        """Return the table at the root after a whole search.

        Args:
            position: the actions that lead to it.
            start: position that the actions begin at, in the game's notation (the reference page of
                the games); empty: the usual start.
            game: game name; empty: the server's.
            version: model version; ``"best"``: the promoted one.
            options: ``simulations``, ``leaves``, ``seed``, ``noise`` and ``actions``; see
                ``SearchOptions``.
        """
        await self._check_start(start)
        request = self._search_request(game, position, start, version, options)
        return codec.decode_table(
            await retrying(
                self._address, self._timeout, lambda left: self._search(request, timeout=left)
            )
        )

    async def analyze(
        self,
        position: Position = (),
        *,
        start: str = "",
        every_simulations: int = 0,
        every_seconds: float = 0.0,
        game: str = "",
        version: int | str = BEST,
        **options: Unpack[SearchOptions],
    ) -> AsyncGenerator[SearchTable]:
        """Yield tables while the search runs; the last one is ``done``.

        ``describe().max_analysis_simulations`` is the upper limit of simulations. An analysis ends
        earlier if its result is proven, or if the server has no memory for a larger tree.

        The search ends when the generator is closed (``contextlib.aclosing``). A broken stream is
        an error and is not retried.

        Args:
            position: the actions that lead to it.
            start: position that the actions begin at, in the game's notation (the reference page of
                the games); empty: the usual start.
            every_simulations: a table about every this many simulations; 0: a tenth of all, unless
                ``every_seconds`` is given.
            every_seconds: a table when this many seconds have passed since the last one.
            game: game name; empty: the server's.
            version: model version; ``"best"``: the promoted one.
            options: ``simulations``, ``leaves``, ``seed``, ``noise`` and ``actions``; see
                ``SearchOptions``.
        """
        await self._check_start(start)
        request = pb.AnalyzeRequest(
            search=self._search_request(game, position, start, version, options),
            every_simulations=every_simulations,
            every_seconds=every_seconds,
        )
        call = self._analyze(request)
        try:
            while (response := await self._next(call)) is not None:
                yield codec.decode_table(response)
        except grpc.aio.AioRpcError as error:
            raise rpc_error(self._address, error) from error
        finally:
            call.cancel()

    async def _next(
        self, call: grpc.aio.UnaryStreamCall[pb.AnalyzeRequest, pb.SearchResponse]
    ) -> pb.SearchResponse | None:
        """Return the next table; None after the last one."""
        try:
            async with asyncio.timeout(self._timeout):
                response = await call.read()
        except TimeoutError as error:
            raise InferenceUnavailableError(
                f"inference at {self._address} gave no table for {self._timeout:g} s"
            ) from error
        return response if isinstance(response, pb.SearchResponse) else None

    async def play(
        self,
        position: Position = (),
        *,
        start: str = "",
        temperature: float = 0.0,
        game: str = "",
        version: int | str = BEST,
        **options: Unpack[SearchOptions],
    ) -> PlayedAction:
        """Search, then choose an action.

        Args:
            position: the actions that lead to it.
            start: position that the actions begin at, in the game's notation (the reference page of
                the games); empty: the usual start.
            temperature: 0 plays the best action; above 0 draws one with probability ~
                visits^(1 / temperature).
            game: game name; empty: the server's.
            version: model version; ``"best"``: the promoted one.
            options: ``simulations``, ``leaves``, ``seed``, ``noise`` and ``actions``; see
                ``SearchOptions``.
        """
        await self._check_start(start)
        request = pb.PlayRequest(
            position=codec.encode_position(game, to_actions(position), start),
            model=self._model(version),
            options=codec.encode_options(options),
            temperature=temperature,
        )
        return codec.decode_played(
            await retrying(
                self._address, self._timeout, lambda left: self._play(request, timeout=left)
            )
        )

    async def _check_start(self, start: str) -> None:
        """Refuse a start position that the server would not read.

        A server of an earlier version ignores the field, and would answer for the usual start.
        """
        if not start or self._sets_up_positions:
            return
        description = await self.describe()
        if not description.sets_up_positions:
            raise InvalidRequestError(
                f"{self._address} takes no start positions: {description.game} has no notation for "
                "positions, or the server's version is older than this client's"
            )
        self._sets_up_positions = True

    def _model(self, version: int | str) -> pb.Model:
        return pb.Model(run=self._run, version=str(version))

    def _search_request(
        self,
        game: str,
        position: Position,
        start: str,
        version: int | str,
        options: SearchOptions,
    ) -> pb.SearchRequest:
        return pb.SearchRequest(
            position=codec.encode_position(game, to_actions(position), start),
            model=self._model(version),
            options=codec.encode_options(options),
        )


def to_actions(position: Position) -> Actions:
    """Return the actions that a position stands for, as the wire has them."""
    if isinstance(position, bytes):
        return Sgf(position)
    if not isinstance(position, str):
        return position
    if position.lstrip("\ufeff \t\r\n").startswith("("):  # a byte order mark may come first
        return Sgf(position)
    return position.split()
