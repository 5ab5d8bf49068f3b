"""Lock what goes into each image, with hashes: ``python scripts/lock.py``; ``--check`` only looks.

Versions are those of constraints.txt, which this changes nothing about; what a package asks for is
read from its wheel on the index. One file in deploy/requirements for each layer of the Dockerfile,
without what the layers below it have already. Needs ``packaging`` and the network.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import functools
import html
import io
import re
import sys
import time
import tomllib
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "deploy" / "requirements"
INDEX = "https://pypi.org/simple"
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
MACHINES = ("x86_64", "aarch64")
PYTHON = (3, 11)
TRIES = 3
TAIL = 1 << 18  # bytes
# What pip asks the machine that it runs on; the images are Linux with this Python.
LINUX = {
    "implementation_name": "cpython",
    "implementation_version": "3.11.0",
    "os_name": "posix",
    "platform_python_implementation": "CPython",
    "platform_system": "Linux",
    "platform_release": "",
    "platform_version": "",
    "python_full_version": "3.11.0",
    "python_version": "3.11",
    "sys_platform": "linux",
}
# Where there is no CUDA, torch asks for nothing of it: that is what its build for CPUs asks for.
WITHOUT_CUDA = {**LINUX, "platform_system": "Windows"}


class LockError(Exception):
    """A person must mend something; the text says what."""


@dataclass(frozen=True)
class Layer:
    """One file of requirements.

    Args:
        roots: extras of zerofleet, or packages by name.
        below: files whose packages are installed already.
        alone: the roots themselves, without what they ask for.
        cuda: what torch asks for includes CUDA.
    """

    roots: tuple[str, ...]
    below: tuple[str, ...] = ()
    alone: bool = False
    cuda: bool = False

    def extras(self) -> set[str]:
        """Extras of zerofleet among the roots."""
        return {extra for root in self.roots for extra in Requirement(root).extras}


LAYERS = {
    "build": Layer(("scikit-build-core", "nanobind", "cmake", "ninja", "setuptools")),
    "runtime": Layer(("zerofleet[fleet]",)),
    "tools": Layer(("zerofleet[secrets]",), ("runtime",)),
    "inference": Layer(("zerofleet[inference,s3]",), ("runtime",)),
    "inference-gpu": Layer(("zerofleet[gpu,s3]",), ("runtime",)),
    "torch-cpu": Layer(("torch",), alone=True),
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
            FOLDER.mkdir(parents=True, exist_ok=True)
            (FOLDER / name).write_text(texts[name], encoding="utf-8")
    return 1 if only_check and stale else 0


def text(name: str) -> str:
    """The content of one file."""
    names = packages(name)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        hashes = dict(zip(names, pool.map(hashes_of, names), strict=True))
    if name == "torch-cpu":
        hashes["torch"] = sorted(torch_cpu_hashes(not_these=hashes["torch"]))
    lines = ["# Written by scripts/lock.py from constraints.txt: Linux, Python 3.11.\n"]
    if name == "torch-cpu":
        lines.append("# The build for CPUs, from torch's own index or from PIP_FIND_LINKS.\n")
        lines.append(f"--extra-index-url {TORCH_CPU_INDEX}\n")
    for package in names:
        options = "".join(f" \\\n    --hash=sha256:{sha256}" for sha256 in hashes[package])
        lines.append(f"{package}{pin_of(name, package)}{options}\n")
    return "".join(lines)


def pin_of(name: str, package: str) -> str:
    """How one file asks for the version of a package."""
    version = pins()[package]
    if package != "torch":
        return f"=={version}"
    # "===" leaves out builds with a suffix, and a suffix leaves out the build without.
    return f"==={version}" if name == "torch-cuda" else f"=={version}+cpu"


def packages(name: str) -> list[str]:
    """Names of what one file installs, in order."""
    layer = LAYERS[name]
    if layer.alone:
        return sorted(layer.roots)
    have = {package for below in layer.below for package in packages(below)}
    return sorted(closure(layer.roots, cuda=layer.cuda) - have)


def closure(roots: Iterable[str], *, cuda: bool) -> set[str]:
    """Everything that the roots need, themselves included (but not zerofleet's own packages)."""
    found: set[str] = set()
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = {(canonicalize_name(r.name), frozenset(r.extras)) for r in map(Requirement, roots)}
    while waiting:
        seen |= waiting
        found |= {name for name, _ in waiting}
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            asked = list(pool.map(lambda item: needs(*item, cuda=cuda), waiting))
        waiting = set().union(*asked) - seen
    return found - {"zerofleet"}


def needs(name: str, extras: frozenset[str], *, cuda: bool) -> set[tuple[str, frozenset[str]]]:
    """What a package needs with these extras, each by name and extras."""
    environment = LINUX if cuda or name != "torch" else WITHOUT_CUDA
    asked = [each for each in asked_by(name) if applies(each, extras, environment)]
    for each in asked:
        if each.name != "zerofleet":  # extras that ask for an extra
            check_pin(name, each)
    return {(canonicalize_name(each.name), frozenset(each.extras)) for each in asked}


def applies(requirement: Requirement, extras: Iterable[str], environment: dict[str, str]) -> bool:
    """Whether a requirement holds on any of the machines, with these extras or none."""
    if requirement.marker is None:
        return True
    return any(
        requirement.marker.evaluate({**environment, "platform_machine": machine, "extra": extra})
        for machine in MACHINES
        for extra in ("", *extras)
    )


def check_pin(asker: str, asked: Requirement) -> None:
    """Raise ``LockError`` unless constraints.txt pins the package to a version that fits."""
    name = canonicalize_name(asked.name)
    pin = pins().get(name)
    if pin is None:
        newest = ", ".join(list(wheels(name))[-1:]) or "nothing on the index"
        raise LockError(f"{asker} needs {asked}, and constraints.txt has no pin of it ({newest})")
    if not asked.specifier.contains(pin, prereleases=True):
        raise LockError(f"{asker} needs {asked}, but constraints.txt pins {name}=={pin}")


@functools.cache
def pins() -> dict[str, str]:
    """Versions by name."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if "==" in line and not line.startswith("#"))
    return {canonicalize_name(name): version.strip() for name, version in pairs}


@functools.cache
def asked_by(name: str) -> tuple[Requirement, ...]:
    """What a package asks for, with its markers; the core is built in the image."""
    if name == "zerofleet":
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        unknown = {extra for layer in LAYERS.values() for extra in layer.extras()}
        unknown -= project["optional-dependencies"].keys()
        if unknown:
            raise LockError(f"pyproject.toml has no extra {', '.join(sorted(unknown))}")
        extras = project["optional-dependencies"]
        marked = [f'{line}; extra == "{extra}"' for extra in extras for line in extras[extra]]
        lines = map(Requirement, [*project["dependencies"], *marked])
        return tuple(each for each in lines if each.name != "zerofleet-core")
    for url in pinned_wheels(name).values():
        lines = HeaderParser().parsestr(metadata(url)).get_all("Requires-Dist") or []
        return tuple(map(Requirement, lines))
    raise LockError(f"the index has no wheel of {name}=={pins()[name]} for Linux, Python 3.11")


def hashes_of(name: str) -> list[str]:
    """Sha256 of every wheel of the pinned version that one of the machines can install."""
    return sorted({fragment(url) for url in pinned_wheels(name).values()})


def torch_cpu_hashes(not_these: Iterable[str]) -> set[str]:
    """Those of torch's builds for CPUs; as they were where its index cannot be reached.

    Args:
        not_these: of the builds with CUDA.
    """
    try:
        found = pinned_wheels("torch", TORCH_CPU_INDEX, f"{pins()['torch']}+cpu")
        return {fragment(url) for url in found.values()}
    except LockError as error:
        print(f"lock: {error}: torch-cpu.txt keeps the hashes that it has", file=sys.stderr)
        old = content_of(FOLDER / "torch-cpu.txt")
        found = set(re.findall(r"sha256:([0-9a-f]{64})", old)).difference(not_these)
        if f"torch{pin_of('torch-cpu', 'torch')} " not in old or not found:
            raise LockError("and torch-cpu.txt has none of this version") from error
        return found


def pinned_wheels(name: str, index: str = INDEX, version: str | None = None) -> dict[str, str]:
    """Wheels of the pinned version by file name, with their URLs."""
    wanted = Version(version or pins()[name])
    return {
        file: url
        for file, url in wheels(name, index).items()
        if parse_wheel_filename(file)[1] == wanted
    }


@functools.cache
def wheels(name: str, index: str = INDEX) -> dict[str, str]:
    """URLs by file name of all wheels on an index that one of the machines can install."""
    page = fetch(f"{index}/{name}/").decode()
    links = re.findall(r'<a\s[^>]*href="([^"]+)"', page)
    urls = (urllib.parse.urljoin(f"{index}/{name}/", html.unescape(link)) for link in links)
    files = {urllib.parse.unquote(url.partition("#")[0].rpartition("/")[2]): url for url in urls}
    return {file: url for file, url in files.items() if installs(file)}


def installs(file: str) -> bool:
    """Whether a file is a wheel for one of the machines."""
    if not file.endswith(".whl"):
        return False
    try:
        tags = parse_wheel_filename(file)[3]
    except ValueError:
        return False  # an old name that is none
    return any(
        fits_python(tag.interpreter, tag.abi) and fits_platform(tag.platform) for tag in tags
    )


def fits_python(interpreter: str, abi: str) -> bool:
    """Whether a wheel's tags are for the images' Python, or for any that is not newer."""
    if interpreter in {"py3", f"cp{PYTHON[0]}{PYTHON[1]}"}:
        return abi in {"none", "abi3", f"cp{PYTHON[0]}{PYTHON[1]}"}
    minor = re.fullmatch(r"cp3(\d+)", interpreter)
    return abi == "abi3" and minor is not None and int(minor[1]) <= PYTHON[1]


def fits_platform(platform: str) -> bool:
    """Whether a wheel's tag is for one of the machines under glibc."""
    return platform == "any" or ("manylinux" in platform and platform.endswith(MACHINES))


def fragment(url: str) -> str:
    """The sha256 that an index names for a file."""
    found = re.search(r"#sha256=([0-9a-f]{64})", url)
    if found is None:
        raise LockError(f"the index names no sha256 of {url}")
    return found[1]


def metadata(url: str) -> str:
    """The METADATA of a wheel, for which a few of its bytes are fetched."""
    with zipfile.ZipFile(io.BufferedReader(RemoteFile(url.partition("#")[0]), 1 << 16)) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        return wheel.read(name).decode()


class RemoteFile(io.RawIOBase):
    """A file on a web server that is read in pieces, its end first, where wheels keep METADATA."""

    def __init__(self, url: str) -> None:
        self._url = url
        headers = {"Range": f"bytes=-{TAIL}"}
        with answer(urllib.request.Request(url, headers=headers)) as response:
            self._tail = response.read()
            of = response.headers["Content-Range"]
        self._size = int(of.rpartition("/")[2]) if of else len(self._tail)
        self._at = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go on reading elsewhere."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = start + offset
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Give as much as the buffer holds."""
        end = min(self._size, self._at + len(buffer))
        if end <= self._at:
            return 0
        in_tail = self._at - (self._size - len(self._tail))
        if in_tail >= 0:
            piece = self._tail[in_tail : in_tail + end - self._at]
        else:
            piece = fetch(self._url, {"Range": f"bytes={self._at}-{end - 1}"})
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)


def fetch(url: str, headers: dict[str, str] | None = None) -> bytes:
    """What a web server answers."""
    with answer(urllib.request.Request(url, headers=headers or {})) as response:
        return response.read()


def answer(request: urllib.request.Request):  # noqa: ANN201  (urllib's own type has no name)
    """An open answer, after some tries."""
    for pause in (*range(1, TRIES), None):
        try:
            return urllib.request.urlopen(request, timeout=30)  # nosec B310
        except OSError as error:
            if pause is None or isinstance(error, urllib.error.HTTPError):
                raise LockError(f"{request.full_url} does not answer: {error}") from error
            time.sleep(pause)
    raise AssertionError


def content_of(path: Path) -> str:
    """A file's text; nothing where there is none."""
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
