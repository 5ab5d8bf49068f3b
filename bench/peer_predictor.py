"""Networks of other programs ("peers") for Connect Four, as a ``Predictor``.

The predictor converts our observations to the peer's, and the peer's values to the player to move.
An action is the column in all programs.

Our packed observation has three planes of 6 rows and 7 columns, with row 0 at the top:

- the discs of the player to move
- the discs of the opponent
- ones everywhere if the second player is to move, else zeros
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

PeerNetwork = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""Predicts for the peer's observations ``[rows, ...]``. The result is ``[rows, 8]``: the policy
logits, then the value."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A program that learns Connect Four by self-play."""

    module: str
    """Full name of its module in ``bench``."""
    observe: Callable[[NDArray[np.uint8]], NDArray[np.float32]]
    """Converts our planes ``[rows, 3, 6, 7]`` to its observations."""
    values_first_player: bool
    """Whether its values are always for the first player, not for the player to move."""


def openspiel_observations(planes: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Convert our planes to OpenSpiel's, which have row 0 at the bottom.

    Args:
        planes: ``[rows, 3, 6, 7]``.

    Returns:
        ``[rows, 3, 6, 7]``: discs of the first player, discs of the second player, empty points.
    """
    own, opponents = planes[:, 0], planes[:, 1]
    is_second = planes[:, 2].astype(bool)
    first_discs = np.where(is_second, opponents, own)
    second_discs = np.where(is_second, own, opponents)
    stacked = np.stack([first_discs, second_discs, 1 - own - opponents], axis=1)
    return stacked[:, :, ::-1].astype(np.float32)


def pgx_observations(planes: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Convert our planes to pgx's, which also have row 0 at the top.

    Args:
        planes: ``[rows, 3, 6, 7]``.

    Returns:
        ``[rows, 6, 7, 2]``: discs of the player to move, discs of the opponent.
    """
    return np.moveaxis(planes[:, :2], 1, -1).astype(np.float32)


PEERS = {
    "openspiel": Peer("bench.peer_openspiel", openspiel_observations, values_first_player=True),
    "openspiel_jit": Peer(
        "bench.peer_openspiel_jit", openspiel_observations, values_first_player=True
    ),
    "mctx": Peer("bench.peer_mctx", pgx_observations, values_first_player=False),
}


class PeerPredictor:
    """A peer's network as a ``Predictor``.

    Args:
        peer: the program.
        network: its network, such as ``PeerProcess.predict``.
    """

    def __init__(self, peer: Peer, network: PeerNetwork) -> None:
        self._peer = peer
        self._network = network

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        """Predict for packed observations ``[batch, observation_bytes]``; blocks the event loop."""
        planes = np.unpackbits(observations, axis=1, count=int(np.prod(_SHAPE)))
        planes = planes.reshape(-1, *_SHAPE)
        predicted = self._network(self._peer.observe(planes))
        logits, value = predicted[:, :NUM_ACTIONS], predicted[:, NUM_ACTIONS].copy()
        if self._peer.values_first_player:
            value[planes[:, 2, 0, 0] == 1] *= -1
        return Prediction(np.ascontiguousarray(logits), value, model_version=1)


class PeerProcess:
    """Process of a peer in a Python environment of its own.

    It ends with the ``with`` block. If this process is killed, it ends as well.

    Args:
        python: interpreter of that environment.
        module: full name of the peer's module in ``bench``.
        arguments: arguments of the module.
        log: file to which its output is appended. Errors quote its last line.
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
                # Several threads would spin while they wait, which costs CPU-seconds.
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
        """PID of the process, and ID of its process group, to which its children belong."""
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.communicate(timeout=60)  # closes its standard input

    def check(self) -> None:
        """Check that the process is running.

        Raises:
            ChildGoneError: it has ended; the message has its status and the last line of its log.
        """
        status = self._process.poll()
        if status is not None:
            lines = self._log.read_text(encoding="utf-8", errors="replace").split("\n")
            last = next((line for line in reversed(lines) if line.strip()), "it printed nothing")
            raise ChildGoneError(f"{self._module} ended with status {status}: {last}")

    def predict(self, observations: NDArray[np.float32]) -> NDArray[np.float32]:
        """Predict with a process whose command is ``answer``; see ``PeerNetwork``.

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
