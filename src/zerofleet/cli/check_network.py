"""``zerofleet check-network``: try the network of a run file."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from zerofleet.cli.compare import NO_TORCH
from zerofleet.cli.run_options import OverrideOption
from zerofleet.errors import ConfigError


def check_network(
    run_file: Annotated[Path, typer.Argument(metavar="RUN.toml", help="The run file.")],
    override: OverrideOption = None,
) -> None:
    """Try the network of a run file: shapes, gradient, a few steps, export and speed.

    It takes some seconds. It stops at the first mistake with exit status 1 and prints what to
    change. It needs torch, as the trainer does.
    """
    if find_spec("torch") is None:
        raise ConfigError(NO_TORCH)
    command = [sys.executable, "-m", "zerofleet.learning.network_check", str(run_file)]
    raise typer.Exit(subprocess.run([*command, *(override or [])], check=False).returncode)
