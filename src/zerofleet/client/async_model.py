"""A run's models over the wire, for asyncio: observations in, predictions out."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from zerofleet.client.connection import credentials
from zerofleet.errors import InvalidRequestError
from zerofleet.prediction import Prediction
from zerofleet.rpc.client import InferenceClient
from zerofleet.rpc.codec import BEST

_IN_FLIGHT = 4  # messages: one is computed, one is on its way in, one on its way out


class AsyncModel:
    """Predicts batches of any size; for ``async with``. It is a ``Predictor``.

    Each message is a call of its own, several at once: so they spread over all servers of an
    address, and a token of the role ``client`` is enough.

    Args:
        address: ``host:port``, ``unix:path`` or any gRPC target.
        run: name of the run whose models answer.
        version: of the model; ``"best"``: the promoted one, at each moment.
        message_rows: rows of one message; larger batches travel in several.
        timeout: seconds for the answer to a message, all tries together.
        tls_folder, token_file, allow_plaintext: see ``AsyncPlayer``.

    Raises:
        ConfigError: on entering, when a file cannot be used, or it would be plaintext to another
            machine.
    """

    def __init__(
        self,
        address: str,
        run: str,
        *,
        version: int | str = BEST,
        message_rows: int = 256,
        timeout: float = 30.0,
        tls_folder: str | Path | None = None,
        token_file: str | Path | None = None,
        allow_plaintext: bool = False,
    ) -> None:
        if message_rows < 1:
            raise InvalidRequestError(f"message_rows is {message_rows}: give 1 or more")
        shown = credentials(tls_folder, token_file, allow_plaintext=allow_plaintext)
        self._client = InferenceClient(address, timeout=timeout, credentials=shown)
        self._run = run
        self._version = str(version)
        self._message_rows = message_rows

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        self._room = asyncio.Semaphore(_IN_FLIGHT)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._client.__aexit__(kind, error, trace)

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        """Predict any number of rows; one version of the model answers all of them.

        Args:
            observations: bit-packed planes, ``[rows, observation_bytes]`` uint8, as
                ``zerofleet.games.State(game).observation()`` gives one of.

        Raises:
            ModelNotFoundError: no such run or version.
            InvalidRequestError: the array cannot be what the model takes.
            OverloadedError: the server's queue is full; back off first.
            AccessDeniedError: the server refuses the token.
            InferenceUnavailableError: nobody answered within the timeout.
        """
        starts = range(0, max(1, len(observations)), self._message_rows)
        parts = [observations[start : start + self._message_rows] for start in starts]
        tasks = [asyncio.create_task(self._ask(part, self._version)) for part in parts]
        try:
            answers = await asyncio.gather(*tasks)
        finally:  # one error is enough: the rest need not be asked
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        newest = max(answer.model_version for answer in answers)
        for number, part in enumerate(parts):
            if answers[number].model_version != newest:  # a promotion came in between
                answers[number] = await self._ask(part, str(newest))
        return _joined(answers)

    async def _ask(self, observations: NDArray[np.uint8], version: str) -> Prediction:
        async with self._room:
            return await self._client.predict(self._run, observations, version)


def _joined(parts: list[Prediction]) -> Prediction:
    if len(parts) == 1:
        return parts[0]
    return Prediction(
        np.concatenate([part.policy_logits for part in parts]),
        np.concatenate([part.value for part in parts]),
        parts[0].model_version,
        parts[0].precision if len({part.precision for part in parts}) == 1 else "",
    )
