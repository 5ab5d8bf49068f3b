"""The services of a local run as child processes: what each is started with."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass, replace

from zerofleet.errors import ConfigError
from zerofleet.local.data_folder import DataFolder, full_disk_named
from zerofleet.local.ports import LOOPBACK, free_port, try_port
from zerofleet.local.stores import StoreUrls
from zerofleet.local.supervisor import Program, service_of

_ROLE = {"trainer": "trainer", "evaluator": "evaluator", "dashboard": "console"}
_NOT_HERE = tuple(
    f"ZEROFLEET_{name}"
    for name in (
        *("DATABASE_PASSWORD_FILE", "REDIS_PASSWORD_FILE", "TLS_FOLDER", "TOKEN_FILE"),
        *("TOKEN_ROLES_FILE", "HEALTH_ADDRESS", "WORKER"),
        *("DASHBOARD_TLS_FOLDER", "DASHBOARD_BEHIND_PROXY"),
    )
)
_STOP_SECONDS = {"trainer": 20.0}  # it writes a checkpoint before it leaves


def chosen_address(port: int | None, option: str = "--port") -> str:
    """Where a service of this run will listen: the port given, else a free one.

    Args:
        port: None takes a free one.
        option: of the command, that gave it.

    Raises:
        ConfigError: the port is in use.
    """
    if port is None:
        return f"{LOOPBACK}:{free_port()}"
    try:
        try_port(port)
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"port {port} cannot be used: {getattr(error, 'strerror', None) or error}; "
            f"give another {option}, or none to take a free one"
        ) from error
    return f"{LOOPBACK}:{port}"


@dataclass(frozen=True, slots=True)
class LocalPrograms:
    """What every service of a local run is told."""

    folder: DataFolder
    urls: StoreUrls
    inference_address: str
    dashboard_address: str | None = None
    """None: there is no dashboard."""

    def inference(self) -> Program:
        """The inference service alone: all that ``zerofleet play`` needs."""
        return self._program("inference", free_port())

    def trials(self) -> Program:
        """An evaluator that plays ``zerofleet match`` of a stopped run, and promotes nothing."""
        program = self._program("evaluator", free_port())
        environment = {**program.environment, "ZEROFLEET_TRIALS_ONLY": "true"}
        return replace(program, environment=environment)

    def loop(self, workers: int) -> list[Program]:
        """All services in the order of starting, with this many of self-play."""
        names = ["inference", "trainer", "evaluator"]
        if self.dashboard_address is not None:
            names.insert(0, "dashboard")
        names += ["selfplay"] if workers == 1 else [f"selfplay-{i + 1}" for i in range(workers)]
        return [self._program(name, free_port()) for name in names]

    def _program(self, name: str, metrics_port: int) -> Program:
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
            # Settings of servers that other machines reach; here only this machine does.
            **dict.fromkeys(_NOT_HERE, ""),
        }
        with full_disk_named(self.folder.root):
            self.folder.logs.mkdir(exist_ok=True)
        is_page = service == "dashboard"
        # What trains goes first; a page that takes a moment longer is no loss.
        patient = ("nice", "-n", "5") if is_page and shutil.which("nice") else ()
        return Program(
            name=name,
            arguments=(
                *patient,
                sys.executable,
                "-m",
                f"services.{service}",
                str(self.folder.run_file),
            ),
            environment=environment,
            log=self.folder.logs / f"{name}.log",
            stop_seconds=_STOP_SECONDS.get(service, 10.0),
            optional=is_page,
        )
