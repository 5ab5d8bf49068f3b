"""A whole fleet with all of its secrets, and none of them anywhere but in its file."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg2
import pytest

from zerofleet.local.postgres import USERS, EmbeddedPostgres
from zerofleet.local.processes import free_port, start_child
from zerofleet.local.valkey import find_valkey
from zerofleet.rpc.probe import probe
from zerofleet.secrets.fleet_secrets import FleetSecrets

pytestmark = [pytest.mark.fleet, pytest.mark.timeout(1800)]

ROOT = Path(__file__).resolve().parents[3]
SERVICES = {  # role in Postgres, user of Redis, certificate
    "inference": ("worker", "inference", "inference"),
    "trainer": ("trainer", "trainer", None),
    "selfplay": ("worker", "worker", "selfplay"),
    "evaluator": ("evaluator", "evaluator", "evaluator"),
}
RUN = """
name = "canary"
preset = "plain"
[game]
name = "tic_tac_toe"
[search]
num_simulations = 8
[network]
blocks = 1
channels = 8
[selfplay]
games_per_engine = 16
[trainer]
min_positions = 1000000
window_positions = 1000000
[inference]
max_batch_rows = 64
"""


class Fleet:
    """All services of one run, each with its own secrets as files."""

    def __init__(self, folder: Path, postgres: EmbeddedPostgres, database: str) -> None:
        self.folder = folder
        self.secrets = folder / "secrets"
        self._database = f"127.0.0.1:{postgres.port}/{database}"
        self._redis_port, self._port = free_port(), free_port()
        self.health = {service: free_port() for service in SERVICES}
        self.processes: list[subprocess.Popen[bytes]] = []
        (folder / "run.toml").write_text(RUN)
        self._take_passwords(postgres)
        FleetSecrets(self.secrets).make()

    def _take_passwords(self, postgres: EmbeddedPostgres) -> None:
        """The server has random ones already: they become ours before the others are made."""
        roles = self.secrets / "postgres"
        roles.mkdir(parents=True)
        for user in USERS.values():
            stored = (postgres.folder / "passwords" / user).read_text()
            (roles / user).write_text(stored.strip().rpartition(":")[2])

    def start_redis(self) -> None:
        configuration = self.folder / "valkey.conf"
        configuration.write_text(
            f'port {self._redis_port}\nbind 127.0.0.1\nsave ""\n'
            f"aclfile {self.secrets}/redis/users.acl\n"
        )
        self._launch("redis", [find_valkey(), configuration], {})

    def environment(self, service: str) -> dict[str, str]:
        role, user, certificate = SERVICES[service]
        at = f"127.0.0.1:{self._port}"
        settings = {
            "DATABASE_URL": f"postgresql://zerofleet_{role}@{self._database}?sslmode=disable",
            "DATABASE_PASSWORD_FILE": f"{self.secrets}/postgres/zerofleet_{role}",
            "REDIS_URL": f"redis://{user}@127.0.0.1:{self._redis_port}/0",
            "REDIS_PASSWORD_FILE": f"{self.secrets}/redis/{user}",
            "HEALTH_ADDRESS": f"127.0.0.1:{self.health[service]}",
            "MODEL_FOLDER": f"{self.folder}/models",
            "CHECKPOINT_FOLDER": f"{self.folder}/checkpoints",
            "LOG_LEVEL": "debug",
        }
        if certificate is not None:
            settings["TLS_FOLDER"] = f"{self.secrets}/tls/{certificate}"
        if service == "inference":
            settings |= {"LISTEN_ADDRESS": at, "REFLECTION": "true"}
            settings["TOKEN_ROLES_FILE"] = f"{self.secrets}/tokens/roles.toml"
        else:
            settings["INFERENCE_ADDRESS"] = f"localhost:{self._port}"
            settings["TOKEN_FILE"] = f"{self.secrets}/tokens/worker"
        path = os.pathsep.join(map(str, (ROOT, ROOT / "src")))
        return {f"ZEROFLEET_{key}": value for key, value in settings.items()} | {"PYTHONPATH": path}

    def start(self, service: str, name: str = "", **changes: str) -> subprocess.Popen[bytes]:
        arguments = [
            sys.executable,
            "-m",
            f"zerofleet.services.{service}",
            self.folder / "run.toml",
        ]
        environment = self.environment(service)
        if name:
            environment.pop("ZEROFLEET_HEALTH_ADDRESS")
        return self._launch(name or service, arguments, environment | changes)

    def _launch(
        self, name: str, arguments: list[str | Path], environment: dict[str, str]
    ) -> subprocess.Popen[bytes]:
        process = start_child(arguments, environment, self.folder / f"{name}.log")
        self.processes.append(process)
        return process

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def canaries(self) -> dict[str, str]:
        """Every secret there is, by its file."""
        found: dict[str, str] = {}
        for path in sorted(self.secrets.rglob("*")):
            if path.suffix in {".crt", ".toml", ".acl"} or path.is_dir():
                continue
            lines = path.read_text().splitlines()
            found[str(path)] = lines[1] if path.suffix == ".key" else lines[0]
        return found

    def leaks(self) -> list[tuple[str, str]]:
        """Where a secret is that ought not to be there."""
        places = {path.name: path.read_bytes() for path in self.folder.glob("*.log")}
        for process in self.processes:
            for name in ("cmdline", "environ"):
                path = Path(f"/proc/{process.pid}/{name}")
                if process.poll() is None:
                    places[str(path)] = path.read_bytes()
        return [
            (place, secret)
            for place, content in places.items()
            for secret, canary in self.canaries().items()
            if canary.encode() in content
        ]

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 300
        while not condition():
            logs = "\n".join(
                f"== {path.name}\n{path.read_text()[-2000:]}"
                for path in sorted(self.folder.glob("*.log"))
            )
            assert time.monotonic() < deadline, logs
            time.sleep(0.05)


@pytest.fixture
def fleet(tmp_path: Path, postgres: EmbeddedPostgres, database_url: str) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path, postgres, urlsplit(database_url).path.lstrip("/"))
    try:
        fleet.start_redis()
        yield fleet
    finally:
        for process in fleet.processes:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_a_fleet_plays_and_tells_nobody_its_secrets(fleet: Fleet, database_url: str) -> None:
    fleet.start("inference")
    inference = f"127.0.0.1:{fleet.health['inference']}"
    fleet.until(lambda: not probe(inference, "live"))
    for name in ("", "inference.GRPCInferenceService"):  # there is no model yet
        assert probe(inference, name) == "NOT_SERVING"
    for service in SERVICES.keys() - {"inference"}:
        fleet.start(service)
    connection = psycopg2.connect(database_url)
    connection.autocommit = True
    cursor = connection.cursor()

    def games() -> int:
        cursor.execute("SELECT count(*) FROM games WHERE kind = 'selfplay'")
        return cursor.fetchone()[0]

    fleet.until(lambda: games() > 20)
    fleet.until(lambda: all(not probe(f"127.0.0.1:{port}") for port in fleet.health.values()))
    assert probe(inference, "inference.GRPCInferenceService") == ""
    connection.close()
    assert fleet.leaks() == []

    # The same while everything is refused: each says why, none says what it tried.
    wrong = fleet.secrets / "wrong"
    wrong.write_text("zf_a-canary-that-nobody-knows\n")
    denied = fleet.start(
        "selfplay", "denied", ZEROFLEET_TOKEN_FILE=f"{fleet.secrets}/tokens/client"
    )
    fleet.start("selfplay", "unknown", ZEROFLEET_TOKEN_FILE=str(wrong))
    fleet.start("evaluator", "locked-out", ZEROFLEET_DATABASE_PASSWORD_FILE=str(wrong))
    fleet.start("selfplay", "silent", ZEROFLEET_REDIS_PASSWORD_FILE=str(wrong))
    assert denied.wait(300) == 2
    assert "the role client, which may not call" in fleet.log("denied").splitlines()[-1]
    fleet.until(lambda: "does not know the token" in fleet.log("unknown"))
    fleet.until(lambda: "password authentication failed" in fleet.log("locked-out"))
    fleet.until(lambda: '"playing"' in fleet.log("silent"))  # heartbeats are not worth stopping for
    assert fleet.leaks() == []


def test_the_search_for_canaries_finds_them(fleet: Fleet) -> None:
    assert len(fleet.canaries()) > 20
    (fleet.folder / "some.log").write_text(f"oh: {fleet.canaries().popitem()[1]}")
    assert [place for place, _ in fleet.leaks()] == ["some.log"]
