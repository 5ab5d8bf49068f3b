"""The services of a local run as child processes, with their arguments and environment."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from zerofleet.config import SET_VARIABLE
from zerofleet.errors import ConfigError
from zerofleet.local.data_folder import DataFolder, full_disk_named
from zerofleet.local.processes import LOOPBACK, PAGE_PORTS, free_port, take_port
from zerofleet.local.stores import StoreUrls
from zerofleet.local.supervisor import Program, service_of

_ROLE = {"trainer": "trainer", "evaluator": "evaluator", "dashboard": "console"}
_NOT_HERE = tuple(
    f"ZEROFLEET_{name}"
    for name in (
        *("DATABASE_PASSWORD_FILE", "REDIS_PASSWORD_FILE", "TLS_FOLDER", "TOKEN_FILE"),
        "VISITOR_DATABASE_PASSWORD_FILE",
        *("TOKEN_ROLES_FILE", "HEALTH_ADDRESS", "WORKER"),
        *("DASHBOARD_TLS_FOLDER", "DASHBOARD_BEHIND_PROXY", "DASHBOARD_RUN_STOPPED"),
        "DASHBOARD_OTHER_RUNS",
    )
)
_TORCHRUN = ("RANK", "LOCAL_RANK", "WORLD_SIZE")
_HIGHEST_PORT = 65_535
# A trainer writes a checkpoint. A worker with large searches may need seconds before it can begin
# to store its games.
_STOP_SECONDS = {"trainer": 20.0, "selfplay": 20.0}


def chosen_address(port: int | None, option: str = "--port") -> str:
    """Return where a service of this run will listen: the given port, else a free one.

    Args:
        port: None takes a free one.
        option: option of the command that gave it.

    Raises:
        ConfigError: the port is in use.
    """
    if port is None:
        return f"{LOOPBACK}:{free_port()}"
    try:
        take_port(port)
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"port {port} cannot be used: {getattr(error, 'strerror', None) or error}; "
            f"give another {option}, or none to take a free one"
        ) from error
    return f"{LOOPBACK}:{port}"


def chosen_page_address(folder: DataFolder, port: int | None, say: Callable[[str], None]) -> str:
    """Choose the address of a run's dashboard: the given port, the folder's own, or from 8080 on.

    Args:
        port: value of --dashboard-port.
        say: called if the folder's own port is in use and the dashboard uses another one this time.

    Raises:
        ConfigError: the given port is in use.
    """
    if port is not None:
        return chosen_address(port, "--dashboard-port")
    own = folder.page_port()
    for candidate in (*([own] if own is not None else []), *PAGE_PORTS):
        try:
            take_port(candidate)
        except (OSError, OverflowError):
            continue
        break
    else:
        candidate = free_port()
    if own is not None and candidate != own:
        say(
            f"port {own}, which this run's dashboard usually has, is in use. "
            f"This time the dashboard is on port {candidate}."
        )
    return f"{LOOPBACK}:{candidate}"


def keep_page_port(folder: DataFolder, address: str, port: int | None) -> None:
    """Save the port of the dashboard for later starts, unless it replaces one that was in use.

    Args:
        port: value of --dashboard-port.
    """
    if port is not None or folder.page_port() is None:
        folder.keep_page_port(port_of(address))


def port_of(address: str) -> int:
    """Return the port of ``HOST:PORT``."""
    return int(address.rpartition(":")[2])


def chosen_metrics_ports(
    base: int | None, workers: int, *, page: bool, others: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Choose the port at which each program of a run serves its metrics.

    The order from ``base`` on is trainer, evaluator, dashboard (even without one), each self-play
    process, inference. Inference is last because it uses further ports on several GPUs.

    Args:
        base: value of --metrics-port; None takes free ports.
        page: whether there is a dashboard.
        others: ports that this run uses for something else, by use.

    Raises:
        ConfigError: a port is in use, higher than 65535, or one of the others.
    """
    players = _players(workers)
    names = ["trainer", "evaluator", "dashboard", *players, "inference"]
    used = [name for name in names if page or name != "dashboard"]
    if base is None:
        return {name: free_port() for name in used}
    if base + len(names) - 1 > _HIGHEST_PORT:
        raise ConfigError(
            f"--metrics-port {base}: {len(names)} processes need {len(names)} ports from there "
            f"on, and the highest port is {_HIGHEST_PORT}: choose a lower one"
        )
    ports = {name: base + number for number, name in enumerate(names)}
    metrics = {f"the metrics of {name} (--metrics-port)": ports[name] for name in used}
    require_different_ports({**(others or {}), **metrics})
    for name in used:
        try:
            take_port(ports[name])
        except OSError as error:
            raise ConfigError(
                f"--metrics-port {base}: port {ports[name]}, for the metrics of {name}, cannot be "
                f"used: {error.strerror}; give another --metrics-port"
            ) from error
    return {name: ports[name] for name in used}


def require_different_ports(ports: Mapping[str, int]) -> None:
    """Refuse one port for two servers.

    Args:
        ports: ports by use, in the words of the message.

    Raises:
        ConfigError: two of them are the same.
    """
    uses: dict[int, str] = {}
    for use, port in ports.items():
        if port in uses:
            raise ConfigError(
                f"port {port} is for {uses[port]} and for {use}: choose different ports"
            )
        uses[port] = use


def _players(workers: int) -> list[str]:
    return ["selfplay"] if workers == 1 else [f"selfplay-{i + 1}" for i in range(workers)]


@dataclass(frozen=True, slots=True)
class LocalPrograms:
    """The settings of every service of a local run."""

    folder: DataFolder
    urls: StoreUrls
    inference_address: str
    dashboard_address: str | None = None
    """Address of the dashboard; None: there is none."""
    metrics_ports: Mapping[str, int] = field(default_factory=dict[str, int])
    """Ports by program; other programs take a free one."""

    def inference(self) -> Program:
        """Return the inference service alone, which is all that ``zerofleet play`` needs."""
        return self._program("inference")

    def trials(self, engines: Sequence[str] = ()) -> Program:
        """Return an evaluator that plays test matches of a stopped run, and promotes nothing.

        Args:
            engines: commands that anchors may start, in addition to ``ZEROFLEET_ENGINES``.
        """
        program = self._program("evaluator")
        allowed = ";".join([os.environ.get("ZEROFLEET_ENGINES", ""), *engines])
        environment = {
            **program.environment,
            "ZEROFLEET_TRIALS_ONLY": "true",
            "ZEROFLEET_ENGINES": allowed,
        }
        return replace(program, environment=environment)

    def page(self, *, run_is_stopped: bool, others: Sequence[Mapping[str, str]] = ()) -> Program:
        """Return the dashboard alone, for ``zerofleet page``.

        Args:
            others: runs of other databases to compare with, as in ``dashboard_other_runs``.
        """
        program = self._program("dashboard")
        environment = {
            **program.environment,
            "ZEROFLEET_DASHBOARD_RUN_STOPPED": "true" if run_is_stopped else "",
            "ZEROFLEET_DASHBOARD_OTHER_RUNS": json.dumps(list(others)) if others else "",
        }
        return replace(program, environment=environment, optional=False)

    def loop(self, workers: int) -> list[Program]:
        """Return all services in the order of starting, with this many of self-play."""
        names = ["inference", "trainer", "evaluator", *_players(workers)]
        if self.dashboard_address is not None:
            names.insert(0, "dashboard")
        return [self._program(name) for name in names]

    def _program(self, name: str) -> Program:
        metrics_port = self.metrics_ports.get(name) or free_port()
        service = service_of(name)
        environment = {
            "ZEROFLEET_DATABASE_URL": self.urls.database[_ROLE.get(service, "worker")],
            "ZEROFLEET_REDIS_URL": self.urls.redis,
            "ZEROFLEET_INFERENCE_ADDRESS": self.inference_address,
            "ZEROFLEET_LISTEN_ADDRESS": self.inference_address,
            "ZEROFLEET_DASHBOARD_ADDRESS": self.dashboard_address or "",
            "ZEROFLEET_METRICS_ADDRESS": f"{LOOPBACK}:{metrics_port}",
            "ZEROFLEET_MODEL_FOLDER": str(self.folder.models),
            "ZEROFLEET_CHECKPOINT_FOLDER": str(self.folder.checkpoints),
            "ZEROFLEET_ENGINE_FOLDER": str(self.folder.root / "engines"),
            "PYTHONUNBUFFERED": "1",
            SET_VARIABLE: "",  # the folder's run file has its keys
            # Settings for servers that other machines reach; here only this machine does.
            **dict.fromkeys(_NOT_HERE, ""),
            # Job schedulers set these. A trainer of `up` is alone and waits for no other process.
            **dict(zip(_TORCHRUN, ("0", "0", "1"), strict=True)),
        }
        with full_disk_named(self.folder.root):
            for folder in (self.folder.logs, self.folder.models, self.folder.checkpoints):
                folder.mkdir(mode=0o700, exist_ok=True)
        is_page = service == "dashboard"
        if is_page:  # missing where an older zerofleet holds the stores
            environment["ZEROFLEET_VISITOR_DATABASE_URL"] = self.urls.database.get("visitor", "")
            environment["ZEROFLEET_DASHBOARD_USAGE_FILE"] = str(self.folder.usage_file)
        # Training goes first; the dashboard may take a moment longer.
        patient = ("nice", "-n", "5") if is_page and shutil.which("nice") else ()
        return Program(
            name=name,
            arguments=(
                *patient,
                sys.executable,
                "-P",  # a redis.py in the working directory must not replace the library
                "-m",
                f"zerofleet.services.{service}",
                str(self.folder.run_file),
            ),
            environment=environment,
            log=self.folder.logs / f"{name}.log",
            stop_seconds=_STOP_SECONDS.get(service, 10.0),
            optional=is_page,
        )
