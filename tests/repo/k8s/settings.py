"""Rules about the settings of processes: every variable has a meaning, and every value loads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import redis
from typer.main import get_command

from tests.repo.k8s.manifests import Manifests, Workload
from zerofleet.cli import app
from zerofleet.config import SET_VARIABLE, ProcessSettings, load_run
from zerofleet.config.process_settings import ENV_PREFIX
from zerofleet.database.connection import connection_parameters
from zerofleet.errors import ZerofleetError

_SETTINGS = {
    "selfplay": "zerofleet.services.selfplay.settings:SelfplaySettings",
    "inference": "zerofleet.services.inference.settings:InferenceSettings",
    "autoscaler": "zerofleet.services.autoscaler.service:AutoscalerSettings",
    "dashboard": "zerofleet.services.dashboard.settings:DashboardSettings",
}
_ROLES = {
    "migrate": "zerofleet",
    "selfplay": "zerofleet_worker",
    "inference": "zerofleet_worker",
    "trainer": "zerofleet_trainer",
    "evaluator": "zerofleet_evaluator",
    "dashboard": "zerofleet_console",
    "tools": "zerofleet_console",
}
_POSTGRES_MAY_BE_AWAY = 300  # seconds, as docs/how-to/kubernetes.md says
# users in Redis; others are named after the service
_USERS = {"selfplay": "worker", "tools": "console"}


def settings_of(name: str) -> type[ProcessSettings]:
    """Return the settings class of a service."""
    if name not in _SETTINGS:
        return ProcessSettings
    module, _, attribute = _SETTINGS[name].partition(":")
    return getattr(import_module(module), attribute)


def every_variable_means_something(fleet: Manifests) -> Iterator[str]:
    for workload in fleet.workloads:
        names = [entry["name"] for entry in workload.container.get("env", [])]
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield f"{workload.name} has {name} twice"
        for name in names:
            if name.startswith(ENV_PREFIX) and not _is_known(workload, name):
                yield f"{workload.name}: {name} is no setting"
        for name, value in fleet.environment(workload).items():
            if "$(" in value:
                yield f"{workload.name}: {name} = {value} refers to what comes later or nowhere"


def _is_known(workload: Workload, variable: str) -> bool:
    name = variable.removeprefix(ENV_PREFIX).lower()
    return variable == SET_VARIABLE or name in settings_of(workload.name).model_fields


def every_process_reads_what_it_is_told(fleet: Manifests) -> Iterator[str]:
    """The services' own code loads the settings and the run file of each container."""
    with TemporaryDirectory() as folder:
        yield from _unread(fleet, Path(folder))


def _unread(fleet: Manifests, folder: Path) -> Iterator[str]:
    for workload in fleet.workloads:
        environment = fleet.environment(workload)
        if "ZEROFLEET_RUN_FILE" not in environment:
            continue
        volume = workload.volumes[workload.mounts["/etc/zerofleet"]["name"]]
        config_map = fleet.get("ConfigMap", volume["configMap"]["name"])
        assert config_map is not None
        path = folder / "run.toml"
        path.write_text(config_map["data"]["run.toml"])
        with _environment({**environment, "ZEROFLEET_RUN_FILE": str(path)}):
            try:
                settings_of(workload.name)()  # pyright: ignore[reportCallIssue]
                load_run(path)
            except (ZerofleetError, ValueError) as error:
                yield f"{workload.name}: {error}"


def the_migration_waits_for_postgres(fleet: Manifests) -> Iterator[str]:
    """The command itself parses the Job's arguments."""
    job = fleet.workload("migrate")
    assert job is not None
    name, *arguments = job.container["args"]
    with _environment(fleet.environment(job)):
        options = get_command(app).commands[name].make_context(name, arguments).params
    if options["wait"] < _POSTGRES_MAY_BE_AWAY:
        yield f"the migration waits {options['wait']:g} s for Postgres"


def stores_are_entered_by_the_right_role(fleet: Manifests) -> Iterator[str]:
    for workload in fleet.workloads:
        environment = fleet.environment(workload)
        if "ZEROFLEET_DATABASE_URL" in environment:
            parameters = connection_parameters(environment["ZEROFLEET_DATABASE_URL"])
            if parameters["user"] != _ROLES[workload.name]:
                yield f"{workload.name} enters Postgres as {parameters['user']}"
            if "ZEROFLEET_DATABASE_PASSWORD_FILE" not in environment:
                yield f"{workload.name} has no password for Postgres"
            if not _is_inside(fleet, parameters["host"]) and (
                parameters.get("sslmode") != "verify-full" or "sslrootcert" not in parameters
            ):
                yield f"{workload.name} does not verify Postgres' certificate"
        if workload.name == "dashboard":
            url = environment["ZEROFLEET_VISITOR_DATABASE_URL"]
            if connection_parameters(url)["user"] != "zerofleet_visitor":
                yield "visitors' queries have no role of their own"
            if "ZEROFLEET_VISITOR_DATABASE_PASSWORD_FILE" not in environment:
                yield "visitors' queries have no password for Postgres"
        if "ZEROFLEET_REDIS_URL" in environment:
            url = environment["ZEROFLEET_REDIS_URL"]
            with redis.Redis.from_url(url) as client:
                arguments = client.connection_pool.connection_kwargs
            user = _USERS.get(workload.name, workload.name)
            if arguments.get("username") != user:
                yield f"{workload.name} enters Redis as {arguments.get('username')}"
            if "ZEROFLEET_REDIS_PASSWORD_FILE" not in environment:
                yield f"{workload.name} has no password for Redis"
            if not _is_inside(fleet, arguments["host"]) and not url.startswith("rediss://"):
                yield f"{workload.name} speaks plaintext to Redis"


def _is_inside(fleet: Manifests, host: str) -> bool:
    return fleet.get("Service", host) is not None


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Set exactly these variables of ours inside the block."""
    before = dict(os.environ)
    for name in [name for name in os.environ if name.startswith(ENV_PREFIX)]:
        del os.environ[name]
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
