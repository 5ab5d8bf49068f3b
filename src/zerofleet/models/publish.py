"""Publication of a model: the file first, checked by another process; the row last.

Whoever kills the trainer at any point leaves either a row whose file loads, or no row. What else
may be left (a temporary file, a file without a row) is swept or published again at the next start.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable

from zerofleet.errors import IncompatibleModelError
from zerofleet.models.folder import ModelFolder, StagedModel
from zerofleet.models.golden import Difference, Golden
from zerofleet.models.shape import Shape

CHECK_SECONDS = 120.0
POINTS = ("staged", "checked", "published", "exposed", "recorded")
"""Names of the points between two steps of a publication, in order."""


def _pass(point: str) -> None:
    del point


def publish(
    folder: ModelFolder,
    model_bytes: bytes,
    version: int,
    golden: Golden,
    record: Callable[[str, str], None],
    *,
    passing: Callable[[str], None] = _pass,
) -> str:
    """Publish a model under its sha256 and record it.

    Args:
        folder: where the run's models live.
        model_bytes: the exported model.
        version: its number within the run.
        golden: what the network says about some positions, for the check.
        record: writes the row, given sha256 and the file's place relative to the folder; called
            once everything else is on disk.
        passing: called with each name of ``POINTS`` as it is passed, for tests that stop there.

    Returns:
        The sha256.

    Raises:
        IncompatibleModelError: the file does not load or disagrees with the network; nothing is
            published.
        OSError: the folder cannot be written.
    """
    staged = folder.stage(model_bytes)
    try:
        passing("staged")
        check_in_child(staged, golden)
        passing("checked")
        path = folder.publish(staged)
    finally:
        staged.path.unlink(missing_ok=True)
    passing("published")
    shape = Shape(golden.observations.shape[1], golden.policy_logits.shape[1])
    folder.expose(staged.sha256, version, shape)
    passing("exposed")
    record(staged.sha256, str(path.relative_to(folder.root)))
    passing("recorded")
    return staged.sha256


def check_in_child(staged: StagedModel, golden: Golden) -> Difference:
    """Let a process without torch load the file and compare its answers.

    Raises:
        IncompatibleModelError: it refused, died, or took longer than ``CHECK_SECONDS``.
    """
    command = [sys.executable, "-m", "zerofleet.models.check", str(staged.path), staged.sha256]
    # numpy's thread pool is of no use to so small a job, and starting it costs time.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    try:
        child = subprocess.run(
            command,
            input=golden.to_bytes(),
            capture_output=True,
            check=False,
            timeout=CHECK_SECONDS,
            env=environment,
        )
    except subprocess.TimeoutExpired as error:
        raise IncompatibleModelError(
            f"the check of {staged.path} took over {CHECK_SECONDS:.0f} s"
        ) from error
    if child.returncode != 0:
        lines = child.stderr.decode("utf-8", "replace").strip().splitlines()
        reason = lines[-1] if lines else f"the check ended with status {child.returncode}"
        raise IncompatibleModelError(f"model not published: {reason}")
    return Difference(**json.loads(child.stdout))
