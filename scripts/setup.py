"""Make the virtual environment and install everything into it: what ``make setup`` runs.

Only the standard library. Does nothing when the installed state already fits the sources.
"""

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "zerofleet-setup.json"
CONSTRAINTS = ROOT / "constraints.txt"
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
OTHER_RUNTIMES = {"gpu", "openvino"}
BUILD_TOOLS = ["scikit-build-core", "nanobind", "cmake", "ninja", "setuptools"]
CORE_SOURCES = ("CMakeLists.txt", "pyproject.toml", "*.h", "*.cpp", "*.py")


def main() -> int:
    """Bring the environment up to date; the exit status of the process."""
    if sys.version_info < (3, 11):
        print(
            f"zerofleet needs Python 3.11 or newer, this is {platform.python_version()}: "
            "run 'make setup PYTHON=python3.12' or the like",
            file=sys.stderr,
        )
        return 2
    wanted = {"packages": digest([CONSTRAINTS, ROOT / "pyproject.toml"]), "core": core_digest()}
    have = json.loads(STAMP.read_text()) if STAMP.exists() else {}
    if have == wanted:
        return 0
    if shutil.which(os.environ.get("CXX", "c++")) is None and shutil.which("g++") is None:
        print(
            "zerofleet needs a C++20 compiler and found none: install g++ 11 or newer, or clang 14 "
            "or newer, or set CXX",
            file=sys.stderr,
        )
        return 2
    headers = Path(sysconfig.get_path("include")) / "Python.h"
    if not headers.exists():
        print(
            f"zerofleet needs Python's C headers and found no {headers}: install python3-dev or "
            "the like",
            file=sys.stderr,
        )
        return 2
    started = time.monotonic()
    try:
        lacks_packages = have.get("packages") != wanted["packages"]
        if lacks_packages:
            install_build_tools()
        with tempfile.TemporaryDirectory() as folder:
            # The compiler is at work while packages are fetched and unpacked.
            step("compile the C++ core (a minute or two)")
            with compiling_core(folder) as compiler:
                if lacks_packages:
                    install_others()
                if compiler.wait() != 0:
                    raise subprocess.CalledProcessError(compiler.returncode, ["the compiler"])
            pip("--no-deps", "--force-reinstall", *map(str, Path(folder).glob("*.whl")))
        step("install zerofleet itself")
        pip("--no-build-isolation", "--no-deps", "-e", str(ROOT))
        # What a type checker, in an editor too, reads of the messages.
        subprocess.run([PYTHON, ROOT / "proto" / "generate.py", "--types"], check=True)
    except subprocess.CalledProcessError as error:
        print(f"set-up stopped: {' '.join(map(str, error.cmd))} failed", file=sys.stderr)
        return 1
    STAMP.write_text(json.dumps(wanted))
    step(f"ready after {time.monotonic() - started:.0f} s")
    return 0


def compiling_core(folder: str) -> subprocess.Popen[bytes]:
    """The compiler at work; in the end the folder holds the core's wheel."""
    options = ["--no-build-isolation", "--no-deps", "--wheel-dir", folder]
    command = [PYTHON, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", *options]
    return subprocess.Popen([*command, ROOT / "core"])


def install_build_tools() -> None:
    """The interpreter's environment, and what compiles the core."""
    if not (VENV / "bin" / "pip").exists():  # an environment that failed half-way has none
        step("make .venv")
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=True)
    step("install the build tools")
    pip(*BUILD_TOOLS)


def install_others() -> None:
    """Every pinned package."""
    step("install torch for this machine")
    install_torch()
    step("install the other packages")
    pip(*requirements())


def install_torch() -> None:
    """Torch without gigabytes of CUDA where there is no NVIDIA driver to use them.

    Its build for CPUs is on torch's own index, or among the links that this machine's pip knows.
    """
    lines = CONSTRAINTS.read_text().splitlines()
    torch = next(line for line in lines if line.startswith("torch=="))
    if platform.system() == "Linux" and not Path("/proc/driver/nvidia/version").exists():
        index = ["--retries", "1", "--extra-index-url", TORCH_CPU_INDEX]
        try:
            pip("--no-deps", *index, f"{torch}+cpu", quiet=True)
        except subprocess.CalledProcessError:
            print("    the CPU build of torch is out of reach: fetching the CUDA build, several GB")
    pip(torch)  # all that it asks for, and torch itself where it is not there yet


def requirements() -> list[str]:
    """What pyproject.toml lists, without the two packages of this repository.

    All extras but those that would replace ONNX Runtime for the CPU.
    """
    import tomllib  # Here, because main must run on a Python without it and say so.

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = list(project["dependencies"])
    for name, extra in project["optional-dependencies"].items():
        if name not in OTHER_RUNTIMES:
            names += extra
    return sorted({name for name in names if not name.startswith("zerofleet")})


def pip(*arguments: str, quiet: bool = False) -> None:
    """Install under the one constraints file; quiet: what pip says against it is not shown."""
    options = ["-q", "--disable-pip-version-check", "-c", CONSTRAINTS]
    subprocess.run(
        [PYTHON, "-m", "pip", "install", *options, *arguments],
        # setuptools warns of any editable installation: nothing that the reader could mend.
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        stderr=subprocess.DEVNULL if quiet else None,
        check=True,
    )


def step(text: str) -> None:
    """Say what happens now."""
    print(f"==> {text}", flush=True)


def core_digest() -> str:
    """Digest of everything that the compiled core depends on."""
    core = ROOT / "core"
    files = {path for pattern in CORE_SOURCES for path in core.rglob(pattern)}
    return digest(sorted(path for path in files if "build" not in path.relative_to(core).parts))


def digest(paths: list[Path]) -> str:
    """Sha256 over names and contents."""
    content = hashlib.sha256()
    for path in paths:
        content.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return content.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
