"""docker-compose.yml as it is written: closed by default, least reach, one version."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import zerofleet
from zerofleet.config import SET_VARIABLE
from zerofleet.services.autoscaler.service import AutoscalerSettings
from zerofleet.services.dashboard.settings import DashboardSettings
from zerofleet.services.inference.settings import InferenceSettings
from zerofleet.services.selfplay.settings import SelfplaySettings

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docker-compose.yml").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {"inference", "selfplay", "trainer", "evaluator", "dashboard"}
JOBS = {"secrets", "migrate", "tools"}
PUBLISHED = {"inference", "dashboard", "console", "prometheus", "grafana"}
OVERRIDES = ("deploy/compose/tls.yml", "deploy/compose/gpu.yml")


def each(*without: str) -> list[Any]:
    return [
        pytest.param(service, id=name) for name, service in SERVICES.items() if name not in without
    ]


@pytest.mark.parametrize("service", each())
def test_a_container_can_do_no_more_than_it_must(service: dict[str, Any]) -> None:
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not service.keys() & {"privileged", "pid", "ipc", "devices", "container_name"}
    limits = service["deploy"]["resources"]["limits"]
    assert limits.keys() == {"cpus", "memory", "pids"}


def test_only_the_entrypoint_of_postgres_keeps_capabilities() -> None:
    assert [name for name, service in SERVICES.items() if "cap_add" in service] == ["postgres"]


def test_only_the_job_that_makes_secrets_is_root_and_it_has_no_network() -> None:
    assert SERVICES["secrets"]["user"] == "0:0"
    assert SERVICES["secrets"]["network_mode"] == "none"
    assert all(SERVICES[name]["user"] == "10001:10001" for name in (*OURS, "migrate", "tools"))


@pytest.mark.parametrize("service", each(*JOBS))
def test_whoever_stays_is_watched_and_started_again(service: dict[str, Any]) -> None:
    assert service["healthcheck"]["test"]
    assert service["restart"] == "unless-stopped"


@pytest.mark.parametrize("name", sorted(JOBS))
def test_a_job_is_not_started_again(name: str) -> None:
    assert SERVICES[name]["restart"] == "no"


def test_every_published_port_is_on_loopback() -> None:
    ports = {name: each["ports"] for name, each in SERVICES.items() if "ports" in each}
    assert ports.keys() == PUBLISHED
    assert all(port.startswith("127.0.0.1:") for one in ports.values() for port in one)


def test_a_network_has_those_who_need_what_is_in_it() -> None:
    members = {
        network: {name for name in SERVICES if network in SERVICES[name].get("networks", [])}
        for network in COMPOSE["networks"]
    }
    assert members == {
        "postgres": {"postgres", "migrate", "tools", "console", "grafana"} | OURS,
        "redis": {"redis", "tools"} | OURS,
        "inference": {"inference", "selfplay", "evaluator", "dashboard", "tools"},
        "metrics": {"prometheus", "grafana"} | OURS,
        **{f"published-{name}": {name} for name in PUBLISHED},
    }
    for name, network in COMPOSE["networks"].items():
        if name.startswith("published-"):
            options = network["driver_opts"]
            assert options["com.docker.network.bridge.enable_ip_masquerade"] == "false"
        else:
            assert network["internal"]


def test_each_sees_its_own_secrets_alone() -> None:
    for name, service in SERVICES.items():
        mounted = [each for each in service.get("volumes", []) if each.startswith("secrets")]
        if name == "secrets":
            assert {each.partition(":")[0] for each in mounted} == {
                volume for volume in COMPOSE["volumes"] if volume.startswith("secrets")
            }
        else:
            allowed = [f"secrets-{name}:/run/secrets:ro"]
            assert mounted in ([], allowed), name


def test_no_secret_is_in_the_environment_or_in_an_argument() -> None:
    for name, service in SERVICES.items():
        for key, value in service.get("environment", {}).items():
            if re.search("PASSWORD|TOKEN|SECRET|KEY", key):
                assert key.endswith(("_FILE", "__FILE")), f"{name}: {key}"
                assert value.startswith("/run/secrets/"), f"{name}: {key}"
            assert not re.search(r"://\w+:[^/@]+@", value), f"{name}: {key}"


def test_each_service_is_its_own_user_of_the_stores() -> None:
    roles = {
        name: role_of(SERVICES[name]["environment"]["ZEROFLEET_DATABASE_URL"]) for name in OURS
    }
    users = {name: role_of(SERVICES[name]["environment"]["ZEROFLEET_REDIS_URL"]) for name in OURS}
    assert roles == {
        "inference": "zerofleet_worker",
        "selfplay": "zerofleet_worker",
        "trainer": "zerofleet_trainer",
        "evaluator": "zerofleet_evaluator",
        "dashboard": "zerofleet_console",
    }
    dashboard = SERVICES["dashboard"]["environment"]
    assert role_of(dashboard["ZEROFLEET_VISITOR_DATABASE_URL"]) == "zerofleet_visitor"
    assert users == {
        "inference": "inference",
        "selfplay": "worker",
        "trainer": "trainer",
        "evaluator": "evaluator",
        "dashboard": "dashboard",
    }


def role_of(url: str) -> str:
    found = re.fullmatch(r"\w+://(\w+)@[a-z]+:\d+/\w+", url)
    assert found, url
    return found[1]


@pytest.mark.parametrize("file", ["docker-compose.yml", *OVERRIDES])
def test_every_setting_is_one_that_somebody_reads(file: str) -> None:
    known = {
        f"ZEROFLEET_{field.upper()}"
        for settings in (
            AutoscalerSettings,
            DashboardSettings,
            InferenceSettings,
            SelfplaySettings,
        )
        for field in settings.model_fields
    } | {SET_VARIABLE}
    content = yaml.safe_load((ROOT / file).read_text())
    for name, service in content["services"].items():
        for key in service.get("environment", {}):
            assert not key.startswith("ZEROFLEET_") or key in known, f"{name}: {key}"


@pytest.mark.parametrize("file", ["docker-compose.yml", *OVERRIDES])
def test_the_images_have_the_version_of_the_sources(file: str) -> None:
    versions = re.findall(r"ZEROFLEET_VERSION:-([^}]+)\}", (ROOT / file).read_text())
    assert set(versions) <= {zerofleet.__version__}
    assert versions or file.endswith("tls.yml")


def test_what_is_built_is_a_target_of_its_own_name_and_never_pulled() -> None:
    for name, service in SERVICES.items():
        if "build" in service:
            target = service["build"]["target"]
            assert target == ("tools" if name in JOBS else name)
            assert service["image"].startswith(f"zerofleet-{target}:")
            assert service["pull_policy"] == "never"
            assert f" AS {target}\n" in (ROOT / "Dockerfile").read_text()


def test_every_file_that_is_mounted_is_there() -> None:
    files = {name: config["file"] for name, config in COMPOSE["configs"].items()}
    assert files.pop("run") == "${RUN:-runs/tictactoe.toml}"
    files["run"] = "runs/tictactoe.toml"
    assert all((ROOT / file).is_file() for file in files.values())
    folders = [
        volume.partition(":")[0]
        for service in SERVICES.values()
        for volume in service.get("volumes", [])
        if volume.startswith("./")
    ]
    assert len(folders) == 2
    assert all((ROOT / folder).is_dir() for folder in folders)


def test_the_memory_of_postgres_is_enough_for_three_of_its_largest_sessions() -> None:
    """Visitors' queries have three at once; a container without room restarts Postgres for all."""
    postgres = SERVICES["postgres"]
    session = postgres["ulimits"]["data"]
    [memory] = re.findall(r":-(\d+)g}", postgres["deploy"]["resources"]["limits"]["memory"])
    assert "shared_buffers=256MB" in postgres["command"]
    assert int(memory) << 30 > 3 * session + (256 << 20) + (256 << 20)
    assert "max_notify_queue_pages=1024" in postgres["command"]


def test_gpus_are_reserved_for_inference_and_the_trainer_and_each_has_an_image_with_cuda() -> None:
    content = yaml.safe_load((ROOT / "deploy/compose/gpu.yml").read_text())
    services = content["services"]
    devices = {
        name: service["deploy"]["resources"]["reservations"]["devices"]
        for name, service in services.items()
    }
    assert devices == {
        name: [{"driver": "nvidia", "device_ids": [device], "capabilities": ["gpu"]}]
        for name, device in (
            ("inference", "${INFERENCE_DEVICE:-0}"),
            ("trainer", "${TRAINER_DEVICE:-0}"),
        )
    }
    assert services["inference"]["build"] == {"target": "inference-gpu"}
    assert services["inference"]["image"].startswith("zerofleet-inference-gpu:")
    assert services["trainer"]["build"] == {"args": {"TORCH": "cuda"}}
    assert services["trainer"]["image"].endswith("-cuda")
    assert (ROOT / "deploy/requirements/torch-cuda.txt").is_file()
    # A list of volumes is added to the one of docker-compose.yml.
    mounted = [each for service in services.values() for each in service.get("volumes", [])]
    assert mounted == ["engines:/var/lib/zerofleet/engines"]
    assert content["volumes"].keys() == {"engines"}
    assert "ZEROFLEET_ENGINE_FOLDER=/var/lib/zerofleet/engines" in (ROOT / "Dockerfile").read_text()
