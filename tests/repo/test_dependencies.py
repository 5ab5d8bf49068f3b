"""Requirements of the packages: one version of both, and plain zerofleet needs only a client's."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import zerofleet

ROOT = Path(__file__).resolve().parents[2]

# The client's modules, and the packages that each may have come from.
LOADED = """
import json, sys
from importlib.metadata import packages_distributions

import zerofleet.client
from zerofleet.client import AsyncPlayer, Model, Player

known = packages_distributions()
loaded = {name.partition(".")[0] for name in sys.modules}
print(json.dumps({name: known[name] for name in loaded & known.keys()}))
"""


def in_bare_interpreter(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def names(lines: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(line).name) for line in lines}


def test_the_client_loads_nothing_that_an_extra_brings() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    plain = names(project["dependencies"])
    brought = {
        name
        for extra, lines in project["optional-dependencies"].items()
        if extra
        not in ("test", "browser", "dev")  # gRPC itself loads its tools where they are there
        for name in names(lines) - {"zerofleet"}
    }
    done = in_bare_interpreter(LOADED)
    assert done.returncode == 0, done.stderr
    loaded = {module: names(packages) for module, packages in json.loads(done.stdout).items()}
    assert {"grpc", "numpy"} <= loaded.keys()
    # Some share a namespace: google is of protobuf, and of others.
    assert [each for each, of in loaded.items() if of & brought and not of & plain] == []
    assert {"sqlalchemy", "redis", "zerofleet-core"} <= brought


def test_without_the_extra_the_command_says_what_to_install() -> None:
    code = "import sys; sys.modules['typer'] = None; from zerofleet.command import main; main()"
    done = in_bare_interpreter(code)
    assert done.returncode == 2
    assert done.stderr == (
        "zerofleet: the commands need typer, which is not installed: "
        "pip install 'zerofleet[fleet]' ('zerofleet[local]' for zerofleet up)\n"
    )
    assert done.stdout == ""


def test_a_fault_of_our_own_is_no_missing_package() -> None:
    code = "import sys; sys.modules['zerofleet.errors'] = None; "
    done = in_bare_interpreter(code + "from zerofleet.command import main; main()")
    assert "ModuleNotFoundError" in done.stderr
    assert "pip install" not in done.stderr


def test_a_release_is_installed_with_its_own_core() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    core = tomllib.loads((ROOT / "core" / "pyproject.toml").read_text())["project"]
    assert core["version"] == zerofleet.__version__
    assert f"{core['name']}=={zerofleet.__version__}" in project["optional-dependencies"]["fleet"]
