"""Publication of a model's files, each checked by another process; the caller writes its rows.

A trainer that is killed at any point leaves either rows whose files load, or no rows. A temporary
file or a file without a row, which it may leave as well, is swept or published again at the next
start.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from zerofleet.database import Variant
from zerofleet.errors import IncompatibleModelError, StoreUnavailableError
from zerofleet.models.check import Difference, Golden
from zerofleet.models.folder import StagedModel
from zerofleet.models.graph import Shape
from zerofleet.models.model_store import ModelStore
from zerofleet.models.variant import VariantRequest

CHECK_SECONDS = 120.0

_VARIANT_SECONDS = 900.0
_POLL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Published:
    """A model whose files are in the store; no row names them yet."""

    sha256: str  # names the fp32 file
    location: str  # path of the fp32 file within the store
    variants: tuple[Variant, ...]
    _withdraw: Callable[[], None]  # removes the note of its files

    def recorded(self) -> None:
        """Remove the note by which a sweep finds its files; call it once the rows are written.

        A note that cannot be removed is left to the next sweep.
        """
        with contextlib.suppress(OSError, StoreUnavailableError):
            self._withdraw()


def publish(
    store: ModelStore,
    model_bytes: bytes,
    version: int,
    golden: Golden,
    *,
    wanted: VariantRequest | None = None,
    waiting: Callable[[str], None] = lambda precision: None,
) -> Published:
    """Put a model into the store under its sha256, with its variants.

    Args:
        store: where the run's models live.
        model_bytes: the exported model.
        version: its number within the run.
        golden: what the network says about some positions, for the check.
        wanted: the variants; None: none. One that is refused, or whose process dies, does not
            hinder the others or the model.
        waiting: called about every second with the precision of the variant that is being made. If
            it raises, the publication ends.

    Returns:
        What the rows must name. The files are swept unless a row names them.

    Raises:
        IncompatibleModelError: the fp32 file does not load or disagrees with the network; nothing
            is published.
        OSError: the folder cannot be written.
        StoreUnavailableError: the bucket cannot be written.
    """
    shape = Shape(golden.observations.shape[1], golden.policy_logits.shape[1])
    staged = store.stage(model_bytes)
    files, variants = [staged], list[Variant]()
    try:
        check_in_child(staged, golden)
        if wanted is not None:
            for precision in wanted.precisions:
                variant, file = make_in_child(
                    store, staged, shape, precision, wanted, partial(waiting, precision)
                )
                variants.append(variant)
                files += [file] if file else []
        # Noted first: after a crash the next try may make other files, from later weights and other
        # positions, and no row would name these ones.
        withdraw = store.announce(file.sha256 for file in files)
        for file in files:
            store.publish(file)
    finally:
        for file in files:
            file.path.unlink(missing_ok=True)
    store.expose(staged.sha256, version, shape)
    return Published(staged.sha256, store.location(staged.sha256), tuple(variants), withdraw)


def check_in_child(staged: StagedModel, golden: Golden) -> Difference:
    """Let a process without torch load the file and compare its answers.

    Raises:
        IncompatibleModelError: it refused, died twice, or took longer than ``CHECK_SECONDS``.
    """
    command = ["zerofleet.models.check", str(staged.path), staged.sha256]
    try:
        try:
            answer = _ask_child(command, golden.to_bytes(), CHECK_SECONDS)
        except _KilledError:
            # A signal to the whole process group may have ended it, because the trainer stops.
            answer = _ask_child(command, golden.to_bytes(), CHECK_SECONDS)
    except _ChildError as error:
        raise IncompatibleModelError(f"model not published: {error}") from error
    return Difference(**json.loads(answer))


def make_in_child(
    store: ModelStore,
    fp32: StagedModel,
    shape: Shape,
    precision: str,
    wanted: VariantRequest,
    waiting: Callable[[], None] = lambda: None,
) -> tuple[Variant, StagedModel | None]:
    """Let another process make a variant and measure it.

    ``waiting`` is called about every second.

    Returns:
        The variant, and its staged file if it is accepted.
    """
    bounds = wanted.bounds
    command = [
        "zerofleet.models.variant",
        str(store.staging),
        store.run,
        str(fp32.path),
        str(shape.num_actions),
        precision,
        repr(bounds.policy_kl),
        repr(bounds.value_difference),
    ]
    try:
        answer = _ask_child(command, wanted.positions.to_bytes(), _VARIANT_SECONDS, waiting)
        outcome = json.loads(answer.splitlines()[-1])  # zerofleet.models.variant.Outcome
    except _ChildError as error:
        return Variant(precision, reason=str(error)), None
    except (ValueError, IndexError):
        return Variant(precision, reason=f"{command[0]} gave no answer"), None
    sha256, staged = outcome["sha256"], outcome.pop("staged")
    location = store.location(sha256) if staged else None
    variant = Variant(precision, location=location, **outcome)
    return variant, StagedModel(Path(staged), sha256) if staged else None


class _ChildError(Exception):
    """A child process gave no answer; the message says why."""


class _KilledError(_ChildError):
    """A signal ended the child process."""


def _ask_child(
    command: Sequence[str],
    content: bytes,
    seconds: float,
    waiting: Callable[[], None] = lambda: None,
) -> bytes:
    """Run a module in a process of its own; returns what it writes to standard output.

    Args:
        command: the module and its arguments.
        content: its standard input.
        seconds: the most that it may take.
        waiting: called about every second.

    Raises:
        _ChildError: it failed, died, or took too long.
    """
    # The work is too small for numpy's thread pool, which takes time to start.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", *command],  # no module of the working directory
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
    deadline = time.monotonic() + seconds
    # A thread exchanges the data with the child. After a timeout, another call of
    # subprocess.communicate would lose the input that is not written yet (CPython, _communicate),
    # so a slow child would never get content larger than a pipe.
    with ThreadPoolExecutor(1) as thread:
        exchange = thread.submit(child.communicate, content)
        try:
            while not wait([exchange], timeout=_POLL_SECONDS).done:
                if time.monotonic() >= deadline:
                    raise _ChildError(f"{command[0]} took over {seconds:.0f} s")
                waiting()
        except BaseException:
            child.kill()  # its pipes close, which ends the thread
            raise
        answer, complaint = exchange.result()
    if child.returncode != 0:
        waiting()  # SIGTERM may have ended the child and reached this process at the same time
        lines = complaint.decode("utf-8", "replace").strip().splitlines()
        ended = f"{command[0]} ended with status {child.returncode}"
        if child.returncode < 0:
            raise _KilledError(ended)
        raise _ChildError(lines[-1] if lines else ended)
    return answer
