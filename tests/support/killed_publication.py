"""Publications whose process is killed right after one of their steps."""

from __future__ import annotations

import os
import signal
from typing import Any

from zerofleet.models import publish
from zerofleet.models.folder import ModelFolder

STEPS = {
    "stage": ModelFolder,
    "check_in_child": publish,
    "make_in_child": publish,
    "announce": ModelFolder,
    "publish": ModelFolder,
    "expose": ModelFolder,
}
"""The steps of a publication in order, by the name of their function, and where it is."""


def kill_after(step: str) -> None:
    """Have this process killed as soon as it has taken a step of a publication."""
    owner: Any = STEPS[step]
    function = getattr(owner, step)

    def killed(*arguments: object) -> None:
        function(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, step, killed)
