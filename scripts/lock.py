"""Lock what goes into each image, with hashes: ``python scripts/lock.py``; ``--check`` only looks.

Versions are those of constraints.txt, which this changes nothing about; uv finds what they ask for
and the hashes of their wheels. One file in deploy/requirements for each layer of the Dockerfile,
without what the layers below it have already. Needs uv (``pip install uv``) and the network.
"""

from __future__ import annotations

import argparse
import functools
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "deploy" / "requirements"
CONSTRAINTS = ROOT / "constraints.txt"
INDEX = "https://pypi.org/simple"
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
# What the images are: Debian 12 has glibc 2.36.
PYTHON = "3.11"
MACHINES = ("x86_64-manylinux_2_36", "aarch64-manylinux_2_36")
WITHOUT_CUDA = "windows"  # torch asks for nothing of CUDA there, as its build for CPUs

Packages = dict[str, tuple[str, frozenset[str]]]
"""Version and sha256 of the wheels, by name."""


class LockError(Exception):
    """A person must mend something; the text says what."""


@dataclass(frozen=True)
class Layer:
    """One file of requirements.

    Args:
        roots: extras of zerofleet as ``zerofleet[one,two]``, or packages by name.
        below: files whose packages are installed already.
        cuda: what torch asks for includes CUDA.
    """

    roots: tuple[str, ...]
    below: tuple[str, ...] = ()
    cuda: bool = False


LAYERS = {
    "build": Layer(("scikit-build-core", "nanobind", "cmake", "ninja", "setuptools")),
    "runtime": Layer(("zerofleet[fleet]",)),
    "tools": Layer(("zerofleet[secrets]",), ("runtime",)),
    "dashboard": Layer(("zerofleet[dashboard]",), ("runtime",)),
    "inference": Layer(("zerofleet[inference,s3]",), ("runtime",)),
    "inference-gpu": Layer(("zerofleet[gpu,s3]",), ("runtime",)),
    "torch-cpu": Layer(("torch",)),
    "torch-cuda": Layer(("torch",), ("runtime", "inference", "trainer"), cuda=True),
    "trainer": Layer(("zerofleet[trainer,s3]",), ("runtime", "inference", "torch-cpu")),
    # What the Dockerfile's EXTRAS names, on top of runtime and below all others.
    "openspiel": Layer(("zerofleet[openspiel]",), ("runtime",)),
    "tensorboard": Layer(("zerofleet[tensorboard]",), ("runtime",)),
}


def main() -> int:
    """Write the files; the exit status of the process."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing; 1 if stale")
    only_check = parser.parse_args().check
    try:
        texts = {f"{name}.txt": text(name) for name in LAYERS}
    except LockError as error:
        print(f"lock: {error}", file=sys.stderr)
        return 2
    stale = [name for name, new in texts.items() if content_of(FOLDER / name) != new]
    for name in stale:
        print(f"{'stale' if only_check else 'written'}: deploy/requirements/{name}")
        if not only_check:
            (FOLDER / name).write_text(texts[name], encoding="utf-8")
    return 1 if only_check and stale else 0


def text(name: str) -> str:
    """The content of one file."""
    lines = [
        "# Written by scripts/lock.py from constraints.txt: Linux, Python 3.11.\n",
        header(name),
    ]
    if name == "torch-cpu":
        lines.append("# The build for CPUs, from torch's own index or from PIP_FIND_LINKS.\n")
        lines.append(f"--extra-index-url {TORCH_CPU_INDEX}\n")
    for package, (version, hashes) in sorted(packages(name).items()):
        # "===" leaves out builds with a suffix, and a suffix leaves out the build without.
        equals = "===" if name == "torch-cuda" and package == "torch" else "=="
        options = "".join(f" \\\n    --hash=sha256:{sha256}" for sha256 in sorted(hashes))
        lines.append(f"{package}{equals}{version}{options}\n")
    return "".join(lines)


def header(name: str) -> str:
    """Return the line that says what the file was resolved from, without the packages below it."""
    layer = LAYERS[name]
    below = f", without {' and '.join(layer.below)}" if layer.below else ""
    return f"# Requirements: {' '.join(requirements(*layer.roots))}{below}\n"


@functools.cache
def packages(name: str) -> Packages:
    """What one file installs.

    Raises:
        LockError: of ``resolve`` and ``requirements``, or constraints.txt lacks a pin.
    """
    layer = LAYERS[name]
    if name == "torch-cpu":
        return torch_for_cpus()
    found: Packages = {}
    for machine in MACHINES:
        for package, (version, hashes) in resolve(requirements(*layer.roots), machine).items():
            others = found.get(package, (version, frozenset()))[1]
            found[package] = version, hashes | others
    unknown = sorted(found.keys() - pins().keys())
    if unknown:
        lines = ", ".join(f"{package}=={found[package][0]}" for package in unknown)
        raise LockError(f"{name} needs {', '.join(unknown)}: constraints.txt has no pin: {lines}")
    have = {package for below in layer.below for package in packages(below)}
    if not layer.cuda and "torch" in found:
        with_cuda = resolve(("torch",), MACHINES[0]).keys()
        have |= with_cuda - resolve(("torch",), WITHOUT_CUDA).keys()
    # As constraints.txt spells versions: 13.0.3 is 13.0.3.0 of the index.
    return {
        package: (pins()[package], hashes)
        for package, (_, hashes) in found.items()
        if package not in have
    }


def torch_for_cpus() -> Packages:
    """Torch's build for CPUs; with the hashes that its file has where its index does not answer."""
    version = f"{pins()['torch']}+cpu"
    hashes: frozenset[str] = frozenset()
    try:
        for machine in MACHINES:
            options = ("--no-deps", "--index", TORCH_CPU_INDEX)
            hashes |= resolve((f"torch=={version}",), machine, *options)["torch"][1]
    except LockError as error:
        print(f"lock: {error}\nlock: torch-cpu.txt keeps its hashes", file=sys.stderr)
        old = content_of(FOLDER / "torch-cpu.txt")
        hashes = frozenset(re.findall(r"sha256:([0-9a-f]{64})", old))
        if f"torch=={version} " not in old or not hashes:
            raise LockError(f"and torch-cpu.txt has none of {version}") from error
    return {"torch": (version, hashes)}


def requirements(*roots: str) -> tuple[str, ...]:
    """What the roots ask for, where zerofleet's extras stand for what pyproject.toml lists.

    Raises:
        LockError: pyproject.toml does not have an extra.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    found: set[str] = set()
    for root in roots:
        if root.startswith("zerofleet-core"):
            continue  # it is built in the image
        of_ours = re.fullmatch(r"zerofleet\[(.+)\]", root)
        if of_ours is None:
            found.add(root)
            continue
        for extra in of_ours[1].split(","):
            if extra not in extras:
                raise LockError(f"pyproject.toml has no extra {extra}")
            found |= {*project["dependencies"], *requirements(*extras[extra])}
    return tuple(sorted(found))


@functools.cache
def resolve(wanted: tuple[str, ...], machine: str, *options: str) -> Packages:
    """What uv installs on such a machine, under constraints.txt.

    Raises:
        LockError: there is no uv, no network, or no such set of versions; in uv's words.
    """
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if uv is None:
        raise LockError("there is no uv: pip install uv")
    places = ["--default-index", INDEX, "--constraints", str(CONSTRAINTS), *options]
    target = ["--python-version", PYTHON, "--python-platform", machine, "--only-binary", ":all:"]
    done = subprocess.run(
        [uv, "pip", "compile", "-", "--quiet", "--format", "pylock.toml", *places, *target],
        input="\n".join(wanted),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LockError(f"uv, for {machine}: {done.stderr.strip()}")
    return {
        each["name"]: (
            each["version"],
            frozenset(wheel["hashes"]["sha256"] for wheel in each["wheels"]),
        )
        for each in tomllib.loads(done.stdout)["packages"]
    }


@functools.cache
def pins() -> dict[str, str]:
    """Versions by name."""
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if "==" in line and not line.startswith("#"))
    return {re.sub(r"[-_.]+", "-", name).lower(): version.strip() for name, version in pairs}


def content_of(path: Path) -> str:
    """A file's text; nothing where there is none."""
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
