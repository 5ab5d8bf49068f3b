"""Process of another program ("peer"): it trains into a folder, or predicts with a checkpoint.

Peers need other packages, so they run in a Python environment of their own. Neither this module nor
theirs imports zerofleet.

A checkpoint is called ``checkpoint-STEP``. In the same folder, ``learner.jsonl`` has a line of JSON
for each step. OpenSpiel chose this format.
"""

from __future__ import annotations

import argparse
import os
import signal
import struct
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROWS = 256
"""Rows of a batch. Smaller batches are padded, because compiled networks have a fixed size."""

Answer = Callable[[NDArray[np.float32]], tuple[NDArray[np.float32], NDArray[np.float32]]]
"""Returns policy logits ``[ROWS, 7]`` and values ``[ROWS]`` for observations ``[ROWS, ...]``."""


def run(
    doc: str | None,
    learn: Callable[[Path, int], None],
    load: Callable[[Path], Answer],
    shape: tuple[int, ...],
) -> None:
    """Run the command line of a peer's module: ``learn FOLDER SEED`` or ``answer CHECKPOINT``.

    Both commands run until standard input closes.

    Args:
        doc: docstring of the peer's module.
        learn: trains forever, into a folder and with a seed.
        load: loads a checkpoint.
        shape: shape of one observation.
    """
    parser = argparse.ArgumentParser(description=doc)
    commands = parser.add_subparsers(dest="command", required=True)
    learn_command = commands.add_parser("learn", help="train until standard input closes")
    learn_command.add_argument("folder", type=Path, help="folder for the checkpoints")
    learn_command.add_argument("seed", type=int, help="seed of the training")
    answer_command = commands.add_parser("answer", help="predict batches from standard input")
    answer_command.add_argument("checkpoint", type=Path, help="checkpoint to load")
    options = parser.parse_args()
    if options.command == "learn":
        threading.Thread(target=_end_with_input, daemon=True).start()
        learn(options.folder, options.seed)
    else:
        _serve(lambda: load(options.checkpoint), shape)


def _end_with_input() -> None:
    """Kill this process group, with all children, when standard input closes.

    It closes when the process that started this one ends.
    """
    while os.read(0, 4096):  # sys.stdin has a lock that Python needs at its exit
        pass
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _serve(load: Callable[[], Answer], shape: tuple[int, ...]) -> None:
    """Predict batches from standard input until it closes.

    A request has the number of rows as a little-endian uint32, and the observations as float32. The
    response on standard output has the logits and the value of each row as float32.
    """
    responses = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # libraries must not print into responses
    answer = load()
    size = int(np.prod(shape))
    while header := sys.stdin.buffer.read(4):
        (rows,) = struct.unpack("<I", header)
        batch = np.zeros((ROWS, *shape), np.float32)
        received = np.frombuffer(sys.stdin.buffer.read(4 * rows * size), np.float32)
        batch[:rows] = received.reshape(rows, *shape)
        logits, value = answer(batch)
        table = np.column_stack([logits[:rows], value[:rows]]).astype(np.float32)
        responses.write(table.tobytes())
        responses.flush()
