"""The repository keeps its shape: sizes, walls that no linter sees, no machine's paths."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST_LINES = 800
PACKAGES = ("src/zerofleet", "services")


def tracked(*patterns: str) -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "--", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / line for line in listing.stdout.splitlines() if (ROOT / line).is_file()]


def test_no_source_file_has_outgrown_its_idea() -> None:
    sources = tracked("*.py", "*.h", "*.cpp")
    assert len(sources) > 50
    long = [path.name for path in sources if len(path.read_text().splitlines()) > MOST_LINES]
    assert long == []


def test_only_the_bindings_include_nanobind() -> None:
    headers = tracked("core/include/*.h", "core/tests/*.cpp")
    assert headers
    assert [path.name for path in headers if "nanobind" in path.read_text()] == []


def words_found(banned: tuple[str, ...], *, without: str = "no such file") -> list[tuple[str, str]]:
    sources = [path for root in PACKAGES for path in tracked(f"{root}/*.py")]
    assert sources
    return [
        (path.name, word)
        for path in sources
        for word in banned
        if word in path.read_text() and not str(path).endswith(without)
    ]


def test_no_pickle_anywhere() -> None:
    """Catches uses that ruff's list of banned names does not see."""
    banned = ("import pickle", "torch.load(", "torch.save(", "allow_pickle=True")
    assert words_found((*banned, "__reduce__", "weights_only")) == []


def test_one_module_opens_connections_and_ports() -> None:
    """A port is a method of a server, which ruff's list cannot name."""
    banned = ("add_insecure_port", "add_secure_port", "insecure_channel", "secure_channel")
    assert words_found(banned, without="rpc/tls.py") == []
    assert len(words_found(banned)) >= len(banned)


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from torch import load",
        "import torch\ntorch.load('a')",
        "import grpc\ngrpc.insecure_channel('a')",
        "from grpc import aio\naio.insecure_channel('a')",
        "import joblib",
        "import shelve",
    ],
)
def test_the_linter_refuses(code: str) -> None:
    """The list of banned names is one that ruff understands."""
    ruff = [Path(sys.executable).with_name("ruff"), "check", "-", "--select", "TID251"]
    checked = subprocess.run(
        [*ruff, "--stdin-filename", "services/selfplay/x.py"],
        input=code,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "TID251" in checked.stdout, checked


def test_importing_any_module_does_nothing() -> None:
    """Each module imports in one bare process that prints nothing and starts no thread."""
    modules = [
        ".".join(("zerofleet", *path.relative_to(ROOT / root).with_suffix("").parts))
        if root == "src/zerofleet"
        else ".".join(("zerofleet", *path.relative_to(ROOT).with_suffix("").parts))
        for root in PACKAGES
        for path in tracked(f"{root}/*.py")
        if "migrations" not in path.parts and path.name != "__main__.py"
    ]
    program = (
        "import importlib, sys, threading\n"
        "for name in sys.argv[1:]: importlib.import_module(name.removesuffix('.__init__'))\n"
        "assert threading.active_count() == 1, threading.enumerate()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *modules],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_every_test_directory_of_the_plan_has_tests() -> None:
    for name in ("unit", "games", "contract", "integration", "e2e", "chaos", "repo"):
        assert list((ROOT / "tests" / name).glob("test_*.py")), name
