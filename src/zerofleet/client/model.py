"""A run's models over the wire, for programs without asyncio."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from zerofleet.client.async_model import AsyncModel
from zerofleet.client.blocking import Blocking
from zerofleet.prediction import Prediction
from zerofleet.rpc.codec import BEST


class Model:
    """``AsyncModel``, whose method blocks here; many threads may share one.

    It connects with the first call. Use it in a ``with`` block, or ``close`` it.

    Args:
        address: ``host:port``, ``unix:path`` or any gRPC target.
        run: name of the run whose models answer.
        version, precision, message_rows, timeout: see ``AsyncModel``.
        tls_folder, token_file, allow_plaintext: see ``AsyncPlayer``.
    """

    def __init__(
        self,
        address: str,
        run: str,
        *,
        version: int | str = BEST,
        precision: str | None = None,
        message_rows: int = 256,
        timeout: float = 30.0,
        tls_folder: str | Path | None = None,
        token_file: str | Path | None = None,
        allow_plaintext: bool = False,
    ) -> None:
        self._blocking = Blocking(
            lambda: AsyncModel(
                address,
                run,
                version=version,
                precision=precision,
                message_rows=message_rows,
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

    def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        """See ``AsyncModel.predict``."""
        return self._blocking.call(lambda model: model.predict(observations))
