"""A Docker engine, the images, and a Compose project for each test module.

Every wait has a timeout. Its error names the condition and shows the logs. The timeouts are long,
because a slow machine is no error. The tests leave only the images behind. Without an engine the
tests are skipped; under ``make compose-test``, which sets ``NEEDS_DOCKER``, they fail.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeVar

import docker
import pytest
from docker.models.containers import Container

import zerofleet
from tests.missing import is_missing
from zerofleet.local.processes import free_port

ROOT = Path(__file__).resolve().parents[2]
PORTS = ("INFERENCE_PORT", "DASHBOARD_PORT", "CONSOLE_PORT", "PROMETHEUS_PORT", "GRAFANA_PORT")
SERVICES = ("inference", "selfplay", "trainer", "evaluator")
LOG_LINES = 40
NEEDED = "NEEDS_DOCKER"
PYTHON_IMAGE = "python:3.11-slim-bookworm"
BUILD_SECONDS = 5400.0

_T = TypeVar("_T")


@dataclass
class Stack:
    """One project of docker-compose.yml.

    Args:
        engine: the Docker engine.
        run: the run file's path from the repository's root.
        files: more Compose files.
        environment: variables of the Compose files.
    """

    engine: docker.DockerClient
    run: str
    files: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    project: str = field(default_factory=lambda: f"zerofleet-test-{token_hex(3)}")
    started_at: float = 0.0

    def __post_init__(self) -> None:
        ports = {name: str(free_port()) for name in PORTS}
        self.environment = {**os.environ, **ports, "RUN": self.run, **self.environment}

    @property
    def address(self) -> str:
        """Address of the inference service, seen from the host."""
        return f"127.0.0.1:{self.environment['INFERENCE_PORT']}"

    def url(self, port: str) -> str:
        """Return the URL of a web page that is published on this port."""
        return f"http://127.0.0.1:{self.environment[port]}"

    def compose(self, *arguments: str, seconds: float = 600.0, quiet: bool = True) -> str:
        """Run ``docker compose`` and return its standard output."""
        files = [part for file in ("docker-compose.yml", *self.files) for part in ("-f", file)]
        command = ["docker", "compose", "-p", self.project, *files, *arguments]
        try:
            done = subprocess.run(
                command,
                cwd=ROOT,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if quiet else None,
                text=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            pytest.fail(f"not in {seconds:g} s: {' '.join(command)}\n{self.report()}")
        if done.returncode:
            output = f"{done.stdout}\n{done.stderr or ''}"
            pytest.fail(f"status {done.returncode}: {' '.join(command)}\n{output}\n{self.report()}")
        return done.stdout

    def containers(self, service: str, *, stopped: bool = False) -> list[Container]:
        """Return the containers of a service, oldest first."""
        labels = [
            f"com.docker.compose.project={self.project}",
            f"com.docker.compose.service={service}",
            "com.docker.compose.oneoff=False",
        ]
        found = self.engine.containers.list(all=stopped, filters={"label": labels})
        return sorted(found, key=lambda container: container.name or "")

    def states(self) -> dict[str, str]:
        """Return the state of each container of the project."""
        label = {"label": f"com.docker.compose.project={self.project}"}
        return {
            str(container.name): state_of(container)
            for container in self.engine.containers.list(all=True, filters=label)
        }

    def until(self, what: str, condition: Callable[[], _T], seconds: float = 600.0) -> _T:
        """Wait until a condition is true and return its value."""
        deadline = time.monotonic() + seconds
        while True:
            with contextlib.suppress(docker.errors.NotFound):  # the container has just been removed
                value = condition()
                if value:
                    return value
            if time.monotonic() > deadline:
                pytest.fail(f"not in {seconds:g} s: {what}\n{self.report()}")
            time.sleep(0.5)

    def until_healthy(self, *services: str, seconds: float = 600.0) -> None:
        """Wait until every container of these services is healthy."""

        def all_are() -> bool:
            found = [each for service in services for each in self.containers(service)]
            return len(found) >= len(services) and all(
                container.attrs["State"]["Health"]["Status"] == "healthy" for container in found
            )

        self.until(f"{', '.join(services)} healthy", all_are, seconds)

    def sql(self, query: str) -> list[list[str]]:
        """Return the rows of a query, run as the database's owner; empty while Postgres is down.

        The query goes through the standard input of the ``docker`` command. A long query does not
        fit into an argument, and the engine's exec API then never returns.
        """
        psql = ["psql", "-U", "zerofleet", "-AtX", "-F", "\t", "-v", "ON_ERROR_STOP=1"]
        for container in self.containers("postgres"):
            command = ["docker", "exec", "-i", "--user", "postgres", str(container.id), *psql]
            with contextlib.suppress(subprocess.TimeoutExpired):
                done = subprocess.run(
                    command, input=query, capture_output=True, text=True, timeout=60, check=False
                )
                if done.returncode == 0:
                    return [line.split("\t") for line in done.stdout.splitlines()]
        return []

    def number(self, query: str) -> int:
        """Return the one number of a query's result; 0 while there is none."""
        rows = self.sql(query)
        return int(rows[0][0] or 0) if rows else 0

    def games(self) -> int:
        """Return the number of stored self-play games."""
        return self.number("SELECT count(*) FROM games WHERE kind = 'selfplay'")

    def secret(self, name: str) -> str:
        """Return the content of a secret that the service ``tools`` may read."""
        arguments = ["run", "--rm", "-T", "--entrypoint", "cat", "tools", f"/run/secrets/{name}"]
        return self.compose(*arguments).strip()

    def report(self) -> str:
        """Return the state of each container and the last lines of its log."""
        parts = [f"{name}: {state}" for name, state in sorted(self.states().items())]
        for service in ("secrets", "migrate", "postgres", "redis", *SERVICES):
            for container in self.containers(service, stopped=True):
                log = container.logs(tail=LOG_LINES).decode(errors="replace")
                parts.append(f"== {container.name}\n{log}")
        return "\n".join(parts)

    @contextlib.contextmanager
    def up(self, *arguments: str) -> Iterator[None]:
        """Start the project; remove it at the end, with its volumes."""
        self.started_at = time.monotonic()
        try:
            self.compose("up", "-d", "--no-build", *arguments)
            yield
        finally:
            everything = ("--profile", "*", "down", "-v", "--remove-orphans", "--timeout", "30")
            self.compose(*everything)

    def since_up(self) -> str:
        """Return the seconds since ``up`` was called."""
        return f"{time.monotonic() - self.started_at:.1f} s"


@pytest.fixture(scope="session")
def engine() -> Iterator[docker.DockerClient]:
    """The Docker engine of this machine."""
    if shutil.which("docker") is None:
        is_missing("no Docker here: there is no program 'docker' on PATH", NEEDED)
    # Ask the docker command first: the library leaves its socket open if it finds no engine.
    for words, what in ((["version"], "engine"), (["compose", "version"], "plugin for Compose")):
        done = subprocess.run(["docker", *words], capture_output=True, text=True, check=False)
        if done.returncode:
            error = done.stderr.strip().splitlines()[-1]
            is_missing(f"no Docker {what} answers: {error}", NEEDED)
    client = docker.from_env(timeout=120)
    with contextlib.closing(client):
        yield client


@pytest.fixture(scope="session")
def images(engine: docker.DockerClient) -> dict[str, int]:
    """Build all images that need no GPU; return the bytes that each adds to the base image."""
    began = time.monotonic()
    files = ("-f", "docker-compose.yml", "-f", "tests/docker/autoscaler.yml")
    build("compose", *files, "--profile", "*", "build")
    seconds = time.monotonic() - began
    base = engine.images.get(PYTHON_IMAGE).attrs["Size"]
    names = ("selfplay", "evaluator", "autoscaler", "inference", "trainer", "tools")
    sizes = {name: engine.images.get(image(name)).attrs["Size"] - base for name in names}
    print(f"\nbuilt in {seconds:.0f} s; MB on top of {PYTHON_IMAGE} ({base / 1e6:.0f} MB):")
    print(", ".join(f"{name} {size / 1e6:.0f}" for name, size in sizes.items()))
    return sizes


@pytest.fixture(scope="session", name="image")
def image_fixture() -> Callable[[str], str]:
    """Return ``image(name)``, which returns the tag of one of our images."""
    return image


@pytest.fixture(scope="session")
def make_stack(engine: docker.DockerClient) -> Callable[..., Stack]:
    """Return ``make_stack(run, files=, environment=)``: a project that is not started yet."""
    return lambda run, **options: Stack(engine, run, **options)


@pytest.fixture(scope="session")
def image_of_others(engine: docker.DockerClient) -> Callable[[str, str], None]:
    """Return ``image_of_others(tag, standin)``, which makes sure that an image has this tag."""

    def have(tag: str, standin: str) -> None:
        with contextlib.suppress(docker.errors.ImageNotFound):
            engine.images.get(tag)
            return
        try:
            engine.images.pull(tag)
        except (docker.errors.APIError, OSError):
            print(f"\n{tag} cannot be had here: a stand-in is built from Debian's packages")
            folder = ROOT / "tests" / "docker" / "standins"
            build("build", "-f", str(folder / f"{standin}.Dockerfile"), "-t", tag, str(folder))

    return have


def build(*arguments: str) -> None:
    """Run a ``docker`` build; the output is shown if it fails."""
    done = subprocess.run(
        ["docker", *arguments],
        cwd=ROOT,
        env={**os.environ, "BUILDKIT_PROGRESS": "plain"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    if done.returncode:
        pytest.fail(f"docker {' '.join(arguments)}:\n{done.stdout[-8000:]}")


def state_of(container: Container) -> str:
    """Return a container's state, with its health or exit status."""
    state: dict[str, Any] = container.attrs["State"]
    health = state.get("Health", {}).get("Status")
    ended = f" with {state['ExitCode']}" if state["Status"] == "exited" else ""
    return f"{state['Status']}{ended}{f', {health}' if health else ''}"


def image(name: str) -> str:
    """Return the tag of one of our images."""
    return f"zerofleet-{name}:{zerofleet.__version__}"
