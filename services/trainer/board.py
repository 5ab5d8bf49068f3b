"""The figures as TensorBoard events, for those who look at them there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zerofleet.errors import ConfigError


class TensorBoard:
    """Writes scalars to a folder that ``tensorboard --logdir`` shows.

    Args:
        folder: made at the first write.

    Raises:
        ConfigError: the package is not installed.
    """

    def __init__(self, folder: Path) -> None:
        try:
            # Here: a second of imports that only who wants it pays for.
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ConfigError(
                "trainer.tensorboard = true needs a package that is not installed: "
                "pip install 'zerofleet[tensorboard]', or leave the key out"
            ) from error
        self._kind: Any = SummaryWriter
        self._folder = folder
        self._writer: Any = None

    def write(self, step: int, figures: Mapping[str, float]) -> None:
        """Add one point to each curve; training and held-out curves share a section.

        What a trainer before this one wrote for the first step and later is not shown any more.
        """
        if self._writer is None:
            self._writer = self._kind(str(self._folder), purge_step=step)
        for name, figure in figures.items():
            split = next((s for s in ("train", "held_out") if name.startswith(f"{s}_")), None)
            tag = f"{name.removeprefix(f'{split}_')}/{split}" if split else f"trainer/{name}"
            self._writer.add_scalar(tag, figure, step)
        self._writer.flush()

    def close(self) -> None:
        """Write what is left."""
        if self._writer is not None:
            self._writer.close()
