"""A peer's network of Connect Four as a ``Predictor``: its own observations, and whose value it is.

A packed observation of ours has three planes of 6 rows and 7 columns, row 0 at the top: the discs
of the player to move, the opponent's, and all ones where the second player moves. An action is the
column in all three programs.
"""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bench.children import ChildGoneError
from zerofleet.prediction import Prediction

NUM_ACTIONS = 7
_SHAPE = (3, 6, 7)

ROOT = Path(__file__).resolve().parents[1]

Ask = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""The peer's observations ``[rows, ...]`` to logits and, last, the value ``[rows, 8]``."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A program that learns the same game by its own play."""

    module: str  # module of bench
    observe: Callable[[NDArray[np.uint8]], NDArray[np.float32]]
    """Our planes ``[rows, 3, 6, 7]`` to its observations."""
    values_first_player: bool
    """Its value is for the first player, whoever is to move."""


def openspiel_observations(planes: NDArray[np.uint8]) -> NDArray[np.float32]:
    """``[rows, 3, 6, 7]``: first player's discs, second player's, empty points; row 0 below."""
    mine, others = planes[:, 0], planes[:, 1]
    second = planes[:, 2].astype(bool)
    first_discs, second_discs = np.where(second, others, mine), np.where(second, mine, others)
    ours = np.stack([first_discs, second_discs, 1 - mine - others], axis=1)
    return ours[:, :, ::-1].astype(np.float32)


def pgx_observations(planes: NDArray[np.uint8]) -> NDArray[np.float32]:
    """``[rows, 6, 7, 2]``: discs of the player to move, the opponent's; row 0 at the top."""
    return np.moveaxis(planes[:, :2], 1, -1).astype(np.float32)


PEERS = {
    "openspiel": Peer("bench.peer_openspiel", openspiel_observations, values_first_player=True),
    "openspiel_jit": Peer(
        "bench.peer_openspiel_jit", openspiel_observations, values_first_player=True
    ),
    "mctx": Peer("bench.peer_mctx", pgx_observations, values_first_player=False),
}


class PeerPredictor:
    """A peer's network behind our interface.

    Args:
        peer: whose it is.
        ask: asks the network.
    """

    def __init__(self, peer: Peer, ask: Ask) -> None:
        self._peer = peer
        self._ask = ask

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        """Predict packed observations ``[batch, observation_bytes]``; blocks meanwhile."""
        planes = np.unpackbits(observations, axis=1, count=int(np.prod(_SHAPE)))
        planes = planes.reshape(-1, *_SHAPE)
        answers = self._ask(self._peer.observe(planes))
        logits, value = answers[:, :NUM_ACTIONS], answers[:, NUM_ACTIONS].copy()
        if self._peer.values_first_player:
            value[planes[:, 2, 0, 0] == 1] *= -1
        return Prediction(np.ascontiguousarray(logits), value, model_version=1)


class PeerProcess:
    """A module of a peer in its own environment; it ends with ``with``, or when we are killed.

    Args:
        python: the interpreter of that environment.
        module: of ``bench``.
        arguments: of the module.
        log: gets what it says; its last line is quoted when it fails.
    """

    def __init__(self, python: Path, module: str, *arguments: str, log: Path) -> None:
        self._module = module
        self._log = log
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                [python, "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if arguments[0] == "answer" else file,
                stderr=file,
                cwd=ROOT,
                # CPU-seconds of several threads would hold their waits.
                env={
                    **os.environ,
                    "JAX_PLATFORMS": "cpu",
                    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
                    "OMP_NUM_THREADS": "1",
                },
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """PID of the process, and ID of the group of its children."""
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.communicate(timeout=60)  # closes its standard input

    def check(self) -> None:
        """See that it is there.

        Raises:
            ChildGoneError: it has ended.
        """
        status = self._process.poll()
        if status is not None:
            said = self._log.read_text(encoding="utf-8", errors="replace").split("\n")
            last = next((line for line in reversed(said) if line.strip()), "it said nothing")
            raise ChildGoneError(f"{self._module} ended with status {status}: {last}")

    def ask(self, observations: NDArray[np.float32]) -> NDArray[np.float32]:
        """An ``Ask``, of a process that answers.

        Raises:
            ChildGoneError: it has ended.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        rows = len(observations)
        try:
            stdin.write(struct.pack("<I", rows) + observations.tobytes())
            stdin.flush()
        except BrokenPipeError:
            self._process.wait()
            self.check()
        size = 4 * rows * (NUM_ACTIONS + 1)
        answers = stdout.read(size)
        if len(answers) < size:
            self._process.wait()
            self.check()
        return np.frombuffer(answers, np.float32).reshape(rows, NUM_ACTIONS + 1)
