"""A peer's program as a process: it learns into a folder, or answers batches from a checkpoint.

Peers need packages that are not ours, so they run in an environment of their own, and nothing here
or in their modules imports ours. Checkpoints are called ``checkpoint-STEP``, and a file
``learner.jsonl`` beside them has a line of JSON for each step; that is how OpenSpiel keeps them.
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
"""Rows of one batch: shorter ones are filled up, because a compiled network has one size."""

Answer = Callable[[NDArray[np.float32]], tuple[NDArray[np.float32], NDArray[np.float32]]]
"""Observations ``[ROWS, ...]`` to policy logits ``[ROWS, 7]`` and values ``[ROWS]``."""


def run(
    doc: str | None,
    learn: Callable[[Path, int], None],
    load: Callable[[Path], Answer],
    shape: tuple[int, ...],
) -> None:
    """``learn FOLDER SEED`` or ``answer CHECKPOINT``, until standard input ends.

    Args:
        doc: of the peer's module.
        learn: learns into a folder with a seed, and never ends.
        load: reads a checkpoint.
        shape: of one observation.
    """
    found = argparse.ArgumentParser(description=doc)
    commands = found.add_subparsers(dest="command", required=True)
    learns = commands.add_parser("learn")
    learns.add_argument("folder", type=Path)
    learns.add_argument("seed", type=int)
    answers = commands.add_parser("answer")
    answers.add_argument("checkpoint", type=Path)
    options = found.parse_args()
    if options.command == "learn":
        threading.Thread(target=_end_with_input, daemon=True).start()
        learn(options.folder, options.seed)
    else:
        _serve(lambda: load(options.checkpoint), shape)


def _end_with_input() -> None:
    """Kill this process and its children, which are a process group, when whoever began it goes."""
    while os.read(0, 4096):  # without the lock of sys.stdin, which Python wants when it ends
        pass
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _serve(load: Callable[[], Answer], shape: tuple[int, ...]) -> None:
    """Answer batches: a count of rows, then float32 numbers; both ways."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # output of libraries is not an answer
    answer = load()
    size = int(np.prod(shape))
    while header := sys.stdin.buffer.read(4):
        (rows,) = struct.unpack("<I", header)
        batch = np.zeros((ROWS, *shape), np.float32)
        given = np.frombuffer(sys.stdin.buffer.read(4 * rows * size), np.float32)
        batch[:rows] = given.reshape(rows, *shape)
        logits, value = answer(batch)
        table = np.column_stack([logits[:rows], value[:rows]]).astype(np.float32)
        answers.write(table.tobytes())
        answers.flush()
