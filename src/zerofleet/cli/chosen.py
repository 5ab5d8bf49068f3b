"""Which data folder a command means when it is not told."""

from __future__ import annotations

from pathlib import Path

import typer

from zerofleet.errors import ConfigError
from zerofleet.local.folder import MARKER, DataFolder

DEFAULT_ROOT = Path("zerofleet-data")


def default_folder(run_name: str) -> Path:
    """Where a run keeps its data unless ``--data`` says otherwise."""
    return DEFAULT_ROOT / run_name


def chosen_folder(data: Path | None, run_file: Path | None = None) -> DataFolder:
    """The folder given, else the run file's, else the one used last; a guess is said on stderr.

    Raises:
        ConfigError: there is none, or what was given is not a data folder.
    """
    if data is not None:
        return DataFolder.open(data)
    if run_file is not None:
        from zerofleet.config import load_run

        return DataFolder.open(default_folder(load_run(run_file).name))
    folders = [marker.parent for marker in DEFAULT_ROOT.glob(f"*/{MARKER}")]
    if not folders:
        raise ConfigError(
            f"no data folder under {DEFAULT_ROOT}/ here: give --data DIR, or start a run with "
            "`zerofleet up RUN.toml`"
        )
    folder = max(folders, key=_last_use)
    others = f", used last of {len(folders)}" if len(folders) > 1 else ""
    typer.echo(f"data folder: {folder}{others}", err=True)
    return DataFolder.open(folder)


def _last_use(folder: Path) -> float:
    lock = folder / "lock"
    return (lock if lock.exists() else folder).stat().st_mtime
