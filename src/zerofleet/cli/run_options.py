"""Shared options of the commands: the run, and the files with secrets.

A command addresses the run of a data folder, or the run of its fleet: in the containers of a fleet
the environment names the stores (``ZEROFLEET_DATABASE_URL``).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zerofleet.cli.terminal import echo
from zerofleet.config.renamed import MARKER
from zerofleet.errors import ConfigError
from zerofleet.local.data_folder import DataFolder

if TYPE_CHECKING:
    from zerofleet.config import ProcessSettings
    from zerofleet.rpc.tls import ClientCredentials


DEFAULT_ROOT = Path("zerofleet-data")

RunFile = Annotated[
    Path | None,
    typer.Argument(
        metavar="RUN",
        help="Run file or name of a run; or a trained model: tictactoe, connect_four, othello, "
        "go9 or chess.",
    ),
]
OverrideOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a key of the run file: search.c_puct=2; may be repeated.",
    ),
]
DataOption = Annotated[
    Path | None,
    typer.Option("--data", help="Data folder of the run [the one in ./zerofleet-data used last]."),
]

PasswordFile = Annotated[
    Path | None,
    typer.Option(
        envvar="ZEROFLEET_DATABASE_PASSWORD_FILE",
        metavar="FILE",
        help="Its first line is the password for --database-url.",
    ),
]
RedisPasswordFile = Annotated[
    Path | None,
    typer.Option(
        envvar="ZEROFLEET_REDIS_PASSWORD_FILE",
        metavar="FILE",
        help="Its first line is the password for --redis-url.",
    ),
]
TlsFolder = Annotated[
    Path | None,
    typer.Option(
        "--tls",
        envvar="ZEROFLEET_TLS_FOLDER",
        metavar="DIR",
        help="With --address: TLS by the ca.crt (and tls.crt, tls.key) of this folder.",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        envvar="ZEROFLEET_TOKEN_FILE",
        metavar="FILE",
        help="With --address: its first line is the token to send.",
    ),
]
AllowPlaintext = Annotated[
    bool,
    typer.Option(
        "--allow-plaintext",
        envvar="ZEROFLEET_ALLOW_PLAINTEXT",
        help="With --address: no TLS, even to another machine.",
    ),
]


def default_folder(run_name: str) -> Path:
    """Return the default data folder of a run, without ``--data``."""
    return DEFAULT_ROOT / run_name


def chosen_folder(data: Path | None, run_file: Path | None = None) -> DataFolder:
    """Return the given data folder, else the run file's, else the most recent one.

    The most recent one is looked for in zerofleet-data. The choice is printed on stderr if it was a
    guess. A start that was killed there before it succeeded is undone.

    Raises:
        ConfigError: there is none, the given path is not a data folder, or the folder belongs to
            another run than the run file.
    """
    folder = _chosen_folder(data, run_file)
    folder.undo_killed_start()
    return folder


def _chosen_folder(data: Path | None, run_file: Path | None) -> DataFolder:
    if run_file is not None:
        from zerofleet.config import load_run

        if data is None and (named := _named_folder(run_file)) is not None:
            return named
        name = load_run(run_file).name
        folder = DataFolder.open(data or default_folder(name))
        if folder.run != name:
            raise ConfigError(
                f"{folder.root} belongs to the run '{folder.run}', and {run_file} is of '{name}': "
                "give one of them"
            )
        return folder
    if data is not None:
        return DataFolder.open(data)
    folders = _data_folders()
    if not folders:
        raise ConfigError(
            f"no data folder under {DEFAULT_ROOT}/ here: give --data DIR, or start a run with "
            "`zerofleet up RUN.toml`"
        )
    folder = max(folders, key=_last_use)
    others = (
        f", the most recent of {len(folders)} runs; choose with --data" if len(folders) > 1 else ""
    )
    echo(f"data folder: {folder}{others}", err=True)
    return DataFolder.open(folder)


def _named_folder(name: Path) -> DataFolder | None:
    """Return the data folder of the run or trained model with a name; None: it is a run file's.

    Raises:
        ConfigError: neither a trained model nor a run has the name.
    """
    from zerofleet.config import find_run_file
    from zerofleet.local.trained_models import trained_models

    try:
        if name.parent != Path() or name.suffix or name.is_file():
            return None
    except (OSError, ValueError):  # too long for a name: load_run says so
        return None
    own = default_folder(str(name))
    if (own / MARKER).exists():
        return DataFolder.open(own)
    models = trained_models()
    if str(name) in models:
        echo(f"no run {name} here: using the trained model that comes with zerofleet", err=True)
        return models[str(name)].data_folder()
    if find_run_file(name).is_file():
        return None
    runs = sorted(folder.name for folder in _data_folders())
    here = f"; runs in {DEFAULT_ROOT}/: {', '.join(runs)}" if runs else ""
    raise ConfigError(
        f"there is no run and no trained model '{name}'. Trained models: {', '.join(models)}{here}"
    )


def _data_folders() -> list[Path]:
    """Return the data folders under zerofleet-data."""
    return [marker.parent for marker in DEFAULT_ROOT.glob(f"*/{MARKER}")]


def _last_use(folder: Path) -> float:
    lock = folder / "lock"
    return (lock if lock.exists() else folder).stat().st_mtime


def in_fleet(data: Path | None) -> bool:
    """Return whether the environment names a run's stores, and no data folder was given."""
    return data is None and "ZEROFLEET_DATABASE_URL" in os.environ


def fleet_database(data: Path | None, given: str | None) -> str | None:
    """Return the given Postgres URL, else the fleet's; None: use a data folder's."""
    return given or (os.environ["ZEROFLEET_DATABASE_URL"] if in_fleet(data) else None)


def fleet_settings(run_file: Path | None) -> ProcessSettings:
    """Return the settings of the fleet: its stores and its run file.

    Args:
        run_file: overrides ZEROFLEET_RUN_FILE.

    Raises:
        ConfigError: there is no run file, or a value is not valid.
    """
    from zerofleet.config import ProcessSettings, read_settings

    if run_file is None and "ZEROFLEET_RUN_FILE" not in os.environ:
        raise ConfigError(
            "ZEROFLEET_DATABASE_URL is set, so the run is a fleet's: give its run file, or "
            "ZEROFLEET_RUN_FILE; for a run of `zerofleet up`, give --data DIR"
        )
    return read_settings(ProcessSettings, [] if run_file is None else [str(run_file)])


def logged_in(url: str, password_file: Path | None) -> str:
    """Return a store's URL with its password file."""
    from zerofleet.secrets.files import with_password_file

    return with_password_file(url, password_file)


def client_credentials(
    tls: Path | None, token_file: Path | None, allow_plaintext: bool
) -> ClientCredentials:
    """Return the credentials for an inference service elsewhere."""
    return {"tls_folder": tls, "token_file": token_file, "allow_plaintext": allow_plaintext}
