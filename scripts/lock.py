"""Lock the packages of images and checkouts, with hashes: ``python scripts/lock.py``.

``--check`` only compares. Versions come from constraints.txt, which stays as it is; uv finds what
the packages ask for, and the hashes of their files. deploy/requirements has one file for each layer
of the Dockerfile, and one for each layer of scripts/setup.py (``checkout-NAME.txt``), without the
packages of the layers below it. Needs uv (``pip install uv``) and the network.
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
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "deploy" / "requirements"
CONSTRAINTS = ROOT / "constraints.txt"
INDEX = "https://pypi.org/simple"
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
# Platform of the images: Debian 12 has glibc 2.36.
PYTHON = "3.11"
MACHINES = ("x86_64-manylinux_2_36", "aarch64-manylinux_2_36")
# Files that no checkout installs: of other systems, processors, interpreters and C libraries.
OF_NO_CHECKOUT = re.compile(
    r"-(pp|graalpy)\d|-cp(2\d|3[0-9]|310)-cp\d|-(win|musllinux|ios|android|pyodide|emscripten|wasm)"
    r"|_(i686|ppc64|ppc64le|s390x|armv\dl|riscv64|loongarch64)\."
)
ANY_PYTHON = f"python_full_version >= '{PYTHON}'"
IS_FOR_WINDOWS = re.compile(r"(sys_platform|os_name|platform_system) == '(win32|nt|Windows)'$")
WITHOUT_CUDA = "windows"  # torch asks for nothing of CUDA there, as its build for CPUs


class Package(NamedTuple):
    """One pinned package.

    Args:
        version: as the index spells it.
        hashes: sha256 of its files.
        marker: machines that need it, as in PEP 508; empty for all.
    """

    version: str
    hashes: frozenset[str]
    marker: str = ""


Packages = dict[str, Package]
"""Packages by name."""


class LockError(Exception):
    """A person must mend something; the text says what."""


@dataclass(frozen=True)
class Layer:
    """One file of requirements.

    Args:
        roots: extras of zerofleet as ``zerofleet[one,two]``, or packages by name.
        below: files whose packages are installed already.
        cuda: what torch asks for includes CUDA.
        checkout: for Linux and macOS and every Python we support, instead of an image.
    """

    roots: tuple[str, ...]
    below: tuple[str, ...] = ()
    cuda: bool = False
    checkout: bool = False


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
    # Extras for the Dockerfile's EXTRAS, on top of runtime and below all others.
    "openspiel": Layer(("zerofleet[openspiel]",), ("runtime",)),
    "tensorboard": Layer(("zerofleet[tensorboard]",), ("runtime",)),
    "checkout-build": Layer(
        ("scikit-build-core", "nanobind", "cmake", "ninja", "setuptools"), checkout=True
    ),
    "checkout-run": Layer(("zerofleet[local]",), checkout=True),
    "checkout-torch": Layer(("torch",), ("checkout-run",), cuda=True, checkout=True),
    "checkout-test": Layer(
        ("zerofleet[test,data,openspiel,s3,secrets,tensorboard]",), ("checkout-run",), checkout=True
    ),
    "checkout-check": Layer(
        ("zerofleet[dev,data,openspiel,s3,secrets,tensorboard]",), ("checkout-run",), checkout=True
    ),
    "checkout-browser": Layer(("zerofleet[browser]",), ("checkout-run",), checkout=True),
    "checkout-docs": Layer(("mkdocs-material", "mkdocstrings[python]"), checkout=True),
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
    layer = LAYERS[name]
    machines = "Linux and macOS" if layer.checkout else f"Linux, Python {PYTHON}"
    lines = [f"# Written by scripts/lock.py from constraints.txt: {machines}.\n", header(name)]
    if name == "torch-cpu":
        lines.append("# The build for CPUs, from torch's own index or from PIP_FIND_LINKS.\n")
        lines.append(f"--extra-index-url {TORCH_CPU_INDEX}\n")
    for package, (version, hashes, marker) in sorted(packages(name).items()):
        # "===" leaves out builds with a suffix, and a suffix leaves out the build without.
        equals = "===" if layer.cuda and package == "torch" else "=="
        condition = f" ; {marker}" if marker else ""
        options = "".join(f" \\\n    --hash=sha256:{sha256}" for sha256 in sorted(hashes))
        lines.append(f"{package}{equals}{version}{condition}{options}\n")
    return "".join(lines)


def header(name: str) -> str:
    """Return the line that says what the file was resolved from, without the packages below it."""
    layer = LAYERS[name]
    below = f", without {' and '.join(layer.below)}" if layer.below else ""
    return f"# Requirements: {' '.join(requirements(*layer.roots))}{below}\n"


@functools.cache
def packages(name: str) -> Packages:
    """Return the packages that one file installs.

    Raises:
        LockError: of ``resolve`` and ``requirements``, or constraints.txt lacks a pin.
    """
    layer = LAYERS[name]
    if name == "torch-cpu":
        return torch_for_cpus()
    found: Packages = {}
    for machine in [None] if layer.checkout else MACHINES:
        for package, new in resolve(requirements(*layer.roots), machine).items():
            old = found.get(package, new)
            found[package] = new._replace(hashes=new.hashes | old.hashes)
    unknown = sorted(found.keys() - pins().keys())
    if unknown:
        lines = ", ".join(f"{package}=={found[package].version}" for package in unknown)
        raise LockError(f"{name} needs {', '.join(unknown)}: constraints.txt has no pin: {lines}")
    have = {
        package
        for below in layer.below
        for package, (_, _, marker) in packages(below).items()
        if marker in ("", found.get(package, Package("", frozenset())).marker)
    }
    if "torch" in found:
        with_cuda = resolve(("torch",), MACHINES[0]).keys()
        cuda = with_cuda - resolve(("torch",), WITHOUT_CUDA).keys()
        if not layer.cuda:
            have |= {"torch", *cuda} if layer.checkout else cuda
        elif layer.checkout:
            have |= found.keys() - {"torch", *cuda}
    # As constraints.txt spells versions: 13.0.3 is 13.0.3.0 of the index.
    return {
        name: package._replace(version=pins()[name])
        for name, package in found.items()
        if name not in have
    }


def torch_for_cpus() -> Packages:
    """Torch's build for CPUs; with the hashes that its file has where its index does not answer."""
    version = f"{pins()['torch']}+cpu"
    hashes: frozenset[str] = frozenset()
    try:
        for machine in MACHINES:
            options = ("--no-deps", "--index", TORCH_CPU_INDEX)
            hashes |= resolve((f"torch=={version}",), machine, *options)["torch"].hashes
    except LockError as error:
        print(f"lock: {error}\nlock: torch-cpu.txt keeps its hashes", file=sys.stderr)
        old = content_of(FOLDER / "torch-cpu.txt")
        hashes = frozenset(re.findall(r"sha256:([0-9a-f]{64})", old))
        if f"torch=={version} " not in old or not hashes:
            raise LockError(f"and torch-cpu.txt has none of {version}") from error
    return {"torch": Package(version, hashes)}


def requirements(*roots: str) -> tuple[str, ...]:
    """Return the roots' requirements, with zerofleet's extras replaced by pyproject.toml's.

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
def resolve(wanted: tuple[str, ...], machine: str | None, *options: str) -> Packages:
    """Return the packages that uv installs on a machine, or on every machine of a checkout.

    Raises:
        LockError: there is no uv, no network, or no such set of versions; in uv's words.
    """
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if uv is None:
        raise LockError("there is no uv: pip install uv")
    places = ["--default-index", INDEX, "--constraints", str(CONSTRAINTS), *options]
    if machine is None:
        target = ["--python-version", PYTHON, "--universal"]
    else:
        only_wheels = ["--only-binary", ":all:"]
        target = ["--python-version", PYTHON, "--python-platform", machine, *only_wheels]
    done = subprocess.run(
        [uv, "pip", "compile", "-", "--quiet", "--format", "pylock.toml", *places, *target],
        input="\n".join(wanted),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LockError(f"uv, for {machine or 'checkouts'}: {done.stderr.strip()}")
    return {
        each["name"]: Package(
            each["version"],
            frozenset(file["hashes"]["sha256"] for file in files(each, of_image=bool(machine))),
            "" if machine else condition(each.get("marker", "")),
        )
        for each in tomllib.loads(done.stdout)["packages"]
        if machine or not IS_FOR_WINDOWS.search(each.get("marker", ""))
    }


def files(package: dict[str, Any], *, of_image: bool) -> list[dict[str, Any]]:
    """Return the files of a package that may be installed."""
    wheels: list[dict[str, Any]] = package.get("wheels", [])
    if of_image:
        return wheels
    # A Python without a wheel builds the package from its source.
    source = [package["sdist"]] if "sdist" in package else []
    return source + [each for each in wheels if not OF_NO_CHECKOUT.search(each["url"])]


def condition(marker: str) -> str:
    """Return a marker without the Python that every checkout has."""
    return " and ".join(part for part in marker.split(" and ") if part != ANY_PYTHON)


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
