"""A player over the wire, for programs without asyncio."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Self

from zerofleet.client.async_player import AsyncPlayer, Position
from zerofleet.client.blocking import Blocking
from zerofleet.rpc.codec import BEST
from zerofleet.rpc.player_service import (
    PlayedAction,
    PlayerDescription,
    PositionPrediction,
    SearchTable,
)


class Player:
    """``AsyncPlayer``, whose methods block here; many threads may share one.

    It connects with the first call. Use it in a ``with`` block, or ``close`` it.

    Args:
        address: ``host:port``, ``unix:path`` or any gRPC target.
        run: name of the run whose models answer; empty: the server's.
        timeout: seconds for an answer, all tries together; in ``analyze`` for each table.
        tls_folder: folder with ``ca.crt``, and with ``tls.crt`` and ``tls.key`` where the server
            wants a certificate; None: plaintext.
        token_file: file whose first line is the bearer token.
        allow_plaintext: without a ``tls_folder``, let the server be on another machine.

    Methods raise what ``AsyncPlayer``'s do; the first one raises ``ConfigError`` for files that
    cannot be used, and any one in a process that was forked after it.
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
        self._blocking = Blocking(
            lambda: AsyncPlayer(
                address,
                run=run,
                timeout=timeout,
                tls_folder=tls_folder,
                token_file=token_file,
                allow_plaintext=allow_plaintext,
            )
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection; calls that are out are given up."""
        self._blocking.close()

    def describe(self) -> PlayerDescription:
        """What the server plays, with which models."""
        return self._blocking.call(lambda player: player.describe())

    def predict(
        self, position: Position = (), *, game: str = "", version: int | str = BEST
    ) -> PositionPrediction:
        """See ``AsyncPlayer.predict``."""
        return self._blocking.call(
            lambda player: player.predict(position, game=game, version=version)
        )

    def search(
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
        """See ``AsyncPlayer.search``."""
        return self._blocking.call(
            lambda player: player.search(
                position,
                simulations=simulations,
                leaves=leaves,
                seed=seed,
                noise=noise,
                game=game,
                version=version,
            )
        )

    def analyze(
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
    ) -> Generator[SearchTable, None, None]:
        """See ``AsyncPlayer.analyze``; the search ends when the generator is closed or left."""
        return self._blocking.iterate(
            lambda player: player.analyze(
                position,
                every_simulations=every_simulations,
                every_seconds=every_seconds,
                simulations=simulations,
                leaves=leaves,
                seed=seed,
                game=game,
                version=version,
            )
        )

    def play(
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
        """See ``AsyncPlayer.play``."""
        return self._blocking.call(
            lambda player: player.play(
                position,
                temperature=temperature,
                simulations=simulations,
                leaves=leaves,
                seed=seed,
                game=game,
                version=version,
            )
        )
