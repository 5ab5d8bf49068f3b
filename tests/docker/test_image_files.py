"""The inputs of the images: locks that fit constraints.txt, sources that exist."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import zerofleet

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("compose", "kubernetes")
DOCKERFILE = (ROOT / "Dockerfile").read_text()
IMAGES = {
    "selfplay",
    "inference",
    "inference-gpu",
    "trainer",
    "evaluator",
    "autoscaler",
    "dashboard",
    "tools",
}


@pytest.fixture
def lock(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    specification = importlib.util.spec_from_file_location("lock", ROOT / "scripts" / "lock.py")
    assert specification
    assert specification.loader
    module = importlib.util.module_from_spec(specification)
    monkeypatch.setitem(sys.modules, "lock", module)
    specification.loader.exec_module(module)
    return module


def lock_file(name: str) -> str:
    return (ROOT / "deploy" / "requirements" / f"{name}.txt").read_text()


def locked(name: str) -> dict[str, tuple[str, list[str]]]:
    """Version and hashes of each package of a file."""
    found = {}
    for line in lock_file(name).replace("\\\n", " ").splitlines():
        if line.startswith(("#", "--")):
            continue
        pin, *hashes = line.split(" --hash=sha256:")
        package, version = re.split("={2,3}", pin.partition(";")[0].strip())
        found[package] = (version, [each.strip() for each in hashes])
    return found


def test_every_locked_package_has_the_pinned_version_and_a_hash(lock: ModuleType) -> None:
    for name in lock.LAYERS:
        packages = locked(name)
        assert packages, name
        for package, (version, hashes) in packages.items():
            assert lock.pins()[package] == version.removesuffix("+cpu"), f"{name}: {package}"
            assert hashes, f"{name}: {package}"
            assert all(re.fullmatch("[0-9a-f]{64}", each) for each in hashes), package


def test_every_layer_was_locked_for_what_pyproject_asks_for_now(lock: ModuleType) -> None:
    """After a dependency was added, scripts/lock.py has to run."""
    for name, layer in lock.LAYERS.items():
        assert lock.header(name) in lock_file(name), f"{name}: run scripts/lock.py"
        there = locked(name).keys() | {
            package for below in layer.below for package in locked(below)
        }
        if layer.checkout:
            there |= {"torch"}  # Which build is installed depends on the machine.
        for line in lock.requirements(*layer.roots):
            assert canonicalize_name(Requirement(line).name) in there, name


def test_an_extra_that_is_not_there_and_a_machine_without_uv_are_named(
    lock: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(lock.LockError, match=r"pyproject\.toml has no extra fleat"):
        lock.requirements("zerofleet[fleat]")
    monkeypatch.setattr(lock.shutil, "which", lambda name, path: None)
    with pytest.raises(lock.LockError, match="there is no uv: pip install uv"):
        lock.resolve(("numpy",), lock.MACHINES[0])


def test_no_layer_repeats_what_is_below_it(lock: ModuleType) -> None:
    for name, layer in lock.LAYERS.items():
        for below in layer.below:
            assert not locked(name).keys() & locked(below).keys(), (name, below)


def test_small_images_have_neither_torch_nor_onnxruntime() -> None:
    heavy = {"torch", "onnx", "onnxruntime", "onnxruntime-gpu", "sympy", "scipy"}
    assert not locked("runtime").keys() & heavy


def test_torch_is_the_build_for_cpus_or_the_one_with_cuda_and_never_the_other() -> None:
    """Pip takes the build whose hash an index names, even if a folder has the right one."""
    (for_cpus, its_hashes), (with_cuda, others) = (
        locked("torch-cpu")["torch"],
        locked("torch-cuda")["torch"],
    )
    assert for_cpus == f"{with_cuda}+cpu"
    assert len(its_hashes) == len(others) == 2
    assert not {*its_hashes} & {*others}
    assert {"nvidia-cudnn-cu13", "triton"} <= locked("torch-cuda").keys()
    assert not [package for package in locked("trainer") if package.startswith("nvidia")]


def test_every_image_is_a_target() -> None:
    stages = set(re.findall(r"^FROM \S+ AS (\S+)$", DOCKERFILE, re.MULTILINE))
    assert stages >= IMAGES


def test_every_file_that_is_copied_is_there_and_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    let_in = {line[1:] for line in ignored if line.startswith("!")}
    for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE):
        *sources, _ = line.split()
        for source in sources:
            named = source.replace("${TORCH}", "cpu")
            assert (ROOT / named).exists(), source
            assert any(named == each or named.startswith(f"{each}/") for each in let_in), source


@pytest.mark.parametrize(
    ("extras", "status", "installed"),
    [
        ("", 0, []),
        ("openspiel", 0, ["openspiel"]),
        ("openspiel tensorboard", 0, ["openspiel", "tensorboard"]),
        ("openspeil", 1, []),
    ],
)
def test_extras_are_what_is_asked_for_by_hash_and_a_typo_ends_the_build(
    tmp_path: Path, extras: str, status: int, installed: list[str]
) -> None:
    """The Dockerfile's own words, with a pip that only says what it was asked for."""
    (script,) = re.findall(r"(?ms)^RUN (for name in \$EXTRAS; .*?done)$", DOCKERFILE)
    pip = tmp_path / "pip"
    pip.write_text('#!/bin/sh\necho "$@"\n')
    pip.chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", "-c", script.replace("\\\n", "")],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "EXTRAS": extras},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stderr
    assert ("'openspeil'" in done.stderr) == (status == 1)
    lines = done.stdout.splitlines()
    assert [re.findall(r"/requirements/(\S+)\.txt", line) for line in lines] == [
        [name] for name in installed
    ]
    assert all("--require-hashes" in line for line in lines)


def test_the_pages_name_the_images_that_make_builds() -> None:
    makefile = (ROOT / "Makefile").read_text()
    (listed,) = re.findall(r"^IMAGES \?= (.+)$", makefile, re.MULTILINE)
    built = listed.split()
    assert {*built} == IMAGES - {"inference-gpu"}
    pages = {name: (ROOT / "docs/how-to" / f"{name}.md").read_text() for name in PAGES}
    [listing] = re.findall(
        r"`make images` builds the images for CPUs(.+?)\.$", pages["compose"], re.MULTILINE
    )
    assert {*re.findall("`([a-z-]+)`", listing)} == {*built}
    for name, text in pages.items():
        assert "make images IMAGES=inference-gpu" in text, name
        assert f"TAG={zerofleet.__version__}-cuda" in text, name


def test_the_images_carry_the_version() -> None:
    assert f'image.version="{zerofleet.__version__}"' in DOCKERFILE


def stage(name: str) -> str:
    """Return the part of the Dockerfile for one target."""
    [text] = re.findall(rf"(?ms)^FROM \S+ AS {name}$(.+?)(?=^FROM |\Z)", DOCKERFILE)
    return text


@pytest.mark.parametrize("name", sorted(IMAGES))
def test_every_image_ends_as_nobody_in_particular_and_tini_is_its_first_process(name: str) -> None:
    assert re.findall(r"^USER (\S+)$", stage(name), re.MULTILINE)[-1] == "10001:10001"
    # A list, for of any other form a shell would be the first process.
    [entrypoint] = re.findall(r"^ENTRYPOINT (.+)$", stage(name), re.MULTILINE)
    assert json.loads(entrypoint)[:2] == ["tini", "--"]
    assert f'image.title="zerofleet-{name}"' in stage(name)


def test_tini_is_in_what_every_image_begins_with() -> None:
    assert re.search(r"apt-get install .*\btini\b", stage("base"))


def test_every_requirement_of_the_build_is_locked() -> None:
    """The wheels are built without isolation, by what the lock names."""
    for file in (ROOT / "pyproject.toml", ROOT / "core" / "pyproject.toml"):
        for line in tomllib.loads(file.read_text())["build-system"]["requires"]:
            requirement = Requirement(line)
            version, _ = locked("build")[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(version), line
