"""docker-compose.yml with deploy/compose/gpu.yml, as Compose merges them; no GPU is needed."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import zerofleet
from tests.missing import is_missing
from zerofleet.config import load_run

pytestmark = pytest.mark.docker

ROOT = Path(__file__).resolve().parents[2]
BASE = "docker-compose.yml"
GPU = "deploy/compose/gpu.yml"
TLS = "deploy/compose/tls.yml"


def merged(*files: str, **environment: str) -> dict[str, Any]:
    """The project that Compose makes of these files, with the variables of ``environment``."""
    given = [part for file in files for part in ("-f", file)]
    done = subprocess.run(
        ["docker", "compose", *given, "--profile", "*", "config", "--format", "json"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return json.loads(done.stdout)


@pytest.fixture(autouse=True)
def compose() -> None:
    """Skip without Compose; it merges files without an engine."""
    if shutil.which("docker") is None:
        is_missing("no Docker here: there is no program 'docker' on PATH", "NEEDS_DOCKER")
    asked = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    if asked.returncode:
        is_missing("no Docker plugin for Compose", "NEEDS_DOCKER")


def devices(service: dict[str, Any]) -> list[dict[str, Any]]:
    resources = service["deploy"]["resources"]
    return resources.get("reservations", {}).get("devices", [])


def test_only_inference_and_the_trainer_differ() -> None:
    plain, gpu = merged(BASE), merged(BASE, GPU)
    changed = {
        name for name, service in gpu["services"].items() if service != plain["services"][name]
    }
    assert changed == {"inference", "trainer"}
    assert gpu["services"].keys() == plain["services"].keys()
    assert gpu["volumes"].keys() - plain["volumes"].keys() == {"engines"}
    assert gpu["networks"] == plain["networks"]


def test_inference_requires_its_gpu_and_keeps_everything_else() -> None:
    plain, gpu = (merged(*files)["services"]["inference"] for files in ((BASE,), (BASE, GPU)))
    assert devices(gpu) == [{"capabilities": ["gpu"], "driver": "nvidia", "device_ids": ["0"]}]
    assert gpu["image"] == f"zerofleet-inference-gpu:{zerofleet.__version__}"
    assert gpu["build"] == {**plain["build"], "target": "inference-gpu"}
    assert gpu["environment"] == {
        **plain["environment"],
        "ZEROFLEET_SET": "inference.require_gpu=true,",
    }
    targets = {each["target"]: each["source"] for each in gpu["volumes"]}
    assert targets == {
        "/run/secrets": "secrets-inference",
        "/var/lib/zerofleet/models": "models",
        "/var/lib/zerofleet/engines": "engines",
    }
    assert [each for each in gpu["volumes"] if each not in plain["volumes"]] == [
        {
            "type": "volume",
            "source": "engines",
            "target": "/var/lib/zerofleet/engines",
            "volume": {},
        }
    ]
    limits = gpu["deploy"]["resources"]["limits"]
    assert int(limits["memory"]) == 8 << 30
    for key in ("read_only", "cap_drop", "security_opt", "user", "ports", "networks", "tmpfs"):
        assert gpu[key] == plain[key]


def test_the_trainer_has_torch_with_cuda_and_keeps_everything_else() -> None:
    plain, gpu = (merged(*files)["services"]["trainer"] for files in ((BASE,), (BASE, GPU)))
    assert devices(gpu) == [{"capabilities": ["gpu"], "driver": "nvidia", "device_ids": ["0"]}]
    assert gpu["image"] == f"zerofleet-trainer:{zerofleet.__version__}-cuda"
    args = {**plain["build"]["args"], "TORCH": "cuda"}
    assert gpu["build"] == {**plain["build"], "args": args}
    limits = gpu["deploy"]["resources"]["limits"]
    assert int(limits["memory"]) == 16 << 30
    assert limits["cpus"] == plain["deploy"]["resources"]["limits"]["cpus"]
    for key in ("environment", "volumes", "read_only", "cap_drop", "user", "networks"):
        assert gpu[key] == plain[key]


def test_variables_choose_gpus_and_add_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = merged(
        BASE,
        GPU,
        INFERENCE_DEVICE="1",
        TRAINER_DEVICE="2",
        ZEROFLEET_SET="inference.sessions=3",
        RUN="runs/go9_gpu.toml",
    )
    services = gpu["services"]
    assert [devices(services[name])[0]["device_ids"] for name in ("inference", "trainer")] == [
        ["1"],
        ["2"],
    ]
    assert gpu["configs"]["run"]["file"] == str(ROOT / "runs/go9_gpu.toml")
    monkeypatch.setenv("ZEROFLEET_SET", services["inference"]["environment"]["ZEROFLEET_SET"])
    section = load_run(ROOT / "runs/go9_gpu.toml").inference
    assert (section.require_gpu, section.sessions) == (True, 3)


def test_with_tls() -> None:
    """Compose adds the volumes of all files, and takes each variable from the last one."""
    inference = merged(BASE, GPU, TLS)["services"]["inference"]
    assert devices(inference)
    assert inference["environment"]["ZEROFLEET_SET"] == "inference.require_gpu=true,"
    assert "/var/lib/zerofleet/engines" in {each["target"] for each in inference["volumes"]}
