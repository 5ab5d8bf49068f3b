"""``zerofleet check-network``: try the network of a run file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from zerofleet.cli.run_options import OverrideOption


def check_network(
    run_file: Annotated[Path, typer.Argument(metavar="RUN.toml", help="The run file.")],
    override: OverrideOption = None,
) -> None:
    """Try the network of a run file: shapes, gradient, a few steps, export and speed.

    It takes some seconds. It stops at the first mistake with exit status 1 and prints what to
    change. It needs torch, as the trainer does.
    """
    command = [sys.executable, "-m", "zerofleet.learning.network_check", str(run_file)]
    raise typer.Exit(subprocess.run([*command, *(override or [])], check=False).returncode)
