"""Make the virtual environment and install packages into it, as ``make setup`` and others do.

    python scripts/setup.py                    everything
    python scripts/setup.py run                what a run needs
    python scripts/setup.py test browser       what a run, the tests and the browser tests need
    python scripts/setup.py docs               what the documentation needs, and nothing of a run

Uses only the standard library. Does nothing if everything is installed and up to date. The
packages are listed in ``deploy/requirements/checkout-*.txt``, which scripts/lock.py writes: pip
refuses a file whose SHA-256 is not listed there.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "zerofleet-setup.json"
LOCKED = ROOT / "deploy" / "requirements"
PROGRESS_SECONDS = 30.0
PYPROJECT = ROOT / "pyproject.toml"
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")
TORCH_CPU_PYTHON = (3, 11)  # The Python whose build of torch has its hashes in torch-cpu.txt.
CORE_SOURCES = ("CMakeLists.txt", "pyproject.toml", "*.h", "*.cpp", "*.py")
# pip prints the second one where its settings name a constraints file with torch.
NO_SUCH_BUILD = ("No matching distribution found", "ResolutionImpossible")
OLDEST_COMPILERS = {"g++": 11, "clang": 14}
NO_CPU_BUILD = f"""\
    torch's build for CPUs could not be fetched from {TORCH_CPU_INDEX}.
    PyPI has only the build for NVIDIA GPUs, which does not start without its NVIDIA packages:
    {{cost}}. They are fetched now, though this machine has no NVIDIA driver.
    To avoid this, press Ctrl-C and name a place that has {{torch}}: a mirror of that index
    in PIP_EXTRA_INDEX_URL, or a folder with the wheel in PIP_FIND_LINKS. Then start again."""


class Cost(NamedTuple):
    """Rough megabytes of a step on Linux and x86-64."""

    fetched: int
    on_disk: int

    def __str__(self) -> str:
        """Return both figures, as a step announces them."""
        return f"{megabytes(self.fetched)} to fetch, {megabytes(self.on_disk)} on disk"

    def plus(self, other: Cost) -> Cost:
        """Return the sum."""
        return Cost(self.fetched + other.fetched, self.on_disk + other.on_disk)


class Layer(NamedTuple):
    """Packages that are installed together, when a make target first needs them."""

    purpose: str
    cost: Cost
    needs_run: bool = True


LAYERS = {
    "run": Layer("a run", Cost(130, 450)),
    "test": Layer("the tests", Cost(215, 710)),
    "check": Layer("make check", Cost(170, 560)),
    "browser": Layer("the browser tests", Cost(55, 180)),
    "docs": Layer("the documentation", Cost(35, 160), needs_run=False),
}
BUILD_COST = Cost(35, 150)  # with what is compiled
TORCH_CPU_COST = Cost(190, 700)
TORCH_CUDA_COST = Cost(2700, 4700)


class SetupError(Exception):
    """A step failed; the message says what to do."""


class PipError(SetupError):
    """pip failed; ``output`` is what it printed."""

    def __init__(self, message: str, output: str) -> None:
        super().__init__(message)
        self.output = output


def main(names: list[str]) -> int:
    """Bring the environment up to date and return the exit status of the process."""
    if sys.version_info < (3, 11):
        print(
            f"zerofleet needs Python 3.11 or newer. {sys.executable} is Python "
            f"{platform.python_version()}. Name another one, for example: "
            "make setup PYTHON=python3.12",
            file=sys.stderr,
        )
        return 2
    unknown = [name for name in names if name not in LAYERS]
    if unknown:
        known = ", ".join(LAYERS)
        print(f"set-up has no part named {unknown[0]}. Choose from: {known}", file=sys.stderr)
        return 2
    wanted = wanted_state(names or list(LAYERS))
    try:
        if missing(wanted):
            with only_one_at_a_time() as lock:
                # Another set-up may have installed it in the meantime.
                if missing(wanted):
                    SetUp(wanted, lock).bring_up_to_date()
    except SetupError as error:
        print(f"set-up stopped: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nset-up interrupted: the same command continues it", file=sys.stderr)
        return 130
    return 0


def wanted_state(names: list[str]) -> dict[str, str]:
    """Digests of what each part is made from, by the part's name."""
    if not any(LAYERS[name].needs_run for name in names):
        return {name: digest(files=requirements(name)) for name in names}
    names = ["run", *(name for name in names if name != "run")]
    core = ROOT / "core"
    sources = {path for pattern in CORE_SOURCES for path in core.rglob(pattern)}
    return {
        **{name: digest(files=requirements(name)) for name in names},
        "core": digest(
            files=sorted(path for path in sources if "build" not in path.relative_to(core).parts)
        ),
        "project": digest(files=[PYPROJECT]),
    }


def installed_state() -> dict[str, str]:
    """Digests that the installed parts were made from."""
    try:
        state = json.loads(STAMP.read_text()) if PYTHON.exists() else {}
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def missing(wanted: dict[str, str]) -> list[str]:
    """Return the parts that are not installed, or were made from other sources."""
    installed = installed_state()
    return [part for part, value in wanted.items() if installed.get(part) != value]


@contextlib.contextmanager
def only_one_at_a_time() -> Iterator[int]:
    """Wait until no other set-up is at work in this checkout; yield the descriptor of the lock.

    The processes of a set-up inherit the lock. When it is killed, the next one waits for them.
    """
    lock = os.open(ROOT, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            step("Wait for another set-up in this checkout, or the compiler of a killed one")
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError:  # The file system has no locks.
            pass
        yield lock
    finally:
        os.close(lock)


class SetUp:
    """One set-up, from the checks to the last step."""

    def __init__(self, wanted: dict[str, str], lock: int) -> None:
        self._wanted = wanted
        self._lock = lock
        self._fresh = False

    def bring_up_to_date(self) -> None:
        """Install what is missing.

        Raises:
            SetupError: a requirement is missing or a step failed.
        """
        started = time.monotonic()
        todo = self._checked()
        layers = [name for name in LAYERS if name in todo]
        if self._fresh:
            self._make_environment()
        self._discard_half_installed()
        with tempfile.TemporaryDirectory(prefix="zerofleet-setup-") as folder:
            # The compiler works while packages are fetched and unpacked.
            compiler = self._start_compiler(Path(folder)) if "core" in todo else None
            try:
                self._install(layers)
                if compiler is not None:
                    self._finish_core(compiler, Path(folder))
            finally:
                if compiler is not None and compiler.poll() is None:
                    os.killpg(compiler.pid, signal.SIGTERM)
                    compiler.wait()
        if "project" in todo:
            step("Install zerofleet itself")
            self._pip("--no-build-isolation", "--no-deps", "-e", str(ROOT))
            self._done("project")
        if "check" in todo:
            # A type checker, in an editor too, reads the types of the messages.
            self._run([PYTHON, ROOT / "proto" / "generate.py", "--types"])
        if {"run", "core"} & set(todo):
            self._load_everything()
        for name in layers:
            self._done(name)
        if "core" in todo:
            self._done("core")
        step(f"Ready after {time.monotonic() - started:.0f} s")

    def _checked(self) -> list[str]:
        """Make the checks that need no installation, and return the parts to install."""
        check_checkout_is_writable()
        self._fresh = not self._environment_works()
        if self._fresh:
            check_python_makes_environments()
        todo = list(self._wanted) if self._fresh else missing(self._wanted)
        if "core" in todo:
            check_compiler()
            check_headers()
        layers = [name for name in LAYERS if name in todo]
        if layers:
            cost = cost_of(layers, compiles="core" in todo)
            purposes = " and ".join(LAYERS[name].purpose for name in layers)
            step(f"Set up .venv for {purposes}: at most {cost}")
            if self._fresh:  # In an old one we do not know what is installed already.
                check_space(cost)
        return todo

    def _environment_works(self) -> bool:
        """Return whether .venv has a Python with pip; a killed set-up may leave neither."""
        if not PYTHON.exists() or not (VENV / "bin" / "pip").exists():
            return False
        command = [PYTHON, "-m", "pip", "--version"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def _make_environment(self) -> None:
        step(f"Make .venv with Python {platform.python_version()}")
        self._run([sys.executable, "-m", "venv", "--clear", VENV])

    def _discard_half_installed(self) -> None:
        """Remove the metadata of packages with missing files, so that pip installs them again."""
        for metadata in VENV.glob("lib/python*/site-packages/*.dist-info"):
            record = metadata / "RECORD"
            lines = record.read_text().splitlines() if record.exists() else [""]
            files = [metadata.parent / line.split(",")[0].strip('"') for line in lines]
            if not all(file.is_file() or file.suffix == ".pyc" for file in files):
                print(f"    {metadata.stem} is not complete and is installed again", flush=True)
                shutil.rmtree(metadata)

    def _start_compiler(self, folder: Path) -> subprocess.Popen[bytes]:
        """Start to compile the core into a wheel in the folder."""
        step(f"Install the build tools ({BUILD_COST.fetched} MB to fetch)")
        self._install_locked("checkout-build")
        step("Compile the C++ core in the background (1 to 5 minutes; more on a busy machine)")
        options = ["--no-build-isolation", "--no-deps", "--wheel-dir", folder]
        with (folder / "log").open("wb") as log:
            return subprocess.Popen(
                [*pip_command("wheel"), *options, ROOT / "core"],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment(),
                pass_fds=[self._lock],
                start_new_session=True,
            )

    def _install(self, layers: list[str]) -> None:
        for name in layers:
            layer = LAYERS[name]
            if name == "run":
                self._install_torch()
            step(f"Install the packages for {layer.purpose} (at most {layer.cost})")
            self._install_locked(f"checkout-{name}")

    def _install_torch(self) -> None:
        """Install torch, without gigabytes of CUDA where no NVIDIA driver could use them.

        The build for CPUs is on torch's own index, or in a place that pip's settings name.
        """
        if platform.system() != "Linux":
            step("Install torch")
        elif NVIDIA_DRIVER.exists():
            step(f"Install torch for this machine's NVIDIA GPU ({TORCH_CUDA_COST})")
        else:
            step(f"Install torch, the build for CPUs ({TORCH_CPU_COST})")
            patience = ("--retries", "1", "--timeout", "20")
            build = torch_for_cpus()
            try:
                if sys.version_info[:2] == TORCH_CPU_PYTHON:
                    self._install_locked("torch-cpu", *patience, shown=False)
                else:  # We know no hashes of these files. HTTPS protects them.
                    options = ("--extra-index-url", TORCH_CPU_INDEX)
                    self._pip("--no-deps", *patience, *options, build, shown=False)
                return
            except PipError as error:
                if not any(text in error.output for text in NO_SUCH_BUILD):
                    print(error.output, end="", file=sys.stderr)
                    raise
                print(NO_CPU_BUILD.format(torch=build, cost=TORCH_CUDA_COST), flush=True)
                if self._fresh:
                    check_space(TORCH_CUDA_COST)
        self._install_locked("checkout-torch")

    def _finish_core(self, compiler: subprocess.Popen[bytes], folder: Path) -> None:
        if compiler.poll() is None:
            step("Wait for the compiler")
        began, status = time.monotonic(), None
        while status is None:
            try:
                status = compiler.wait(PROGRESS_SECONDS)
            except subprocess.TimeoutExpired:
                print(f"    still compiling after {time.monotonic() - began:.0f} s", flush=True)
        if status != 0:
            log = (folder / "log").read_text(errors="replace")
            print(log, file=sys.stderr)
            hint = hint_for(log) or "The compiler's messages are above."
            raise SetupError(f"the C++ core does not compile. {hint}")
        self._pip("--no-deps", "--force-reinstall", *map(str, folder.glob("*.whl")))

    def _load_everything(self) -> None:
        """Import what a run imports, which checks it and compiles it for later starts."""
        step("Load every service once")
        services = sorted(path.parent.name for path in ROOT.glob("services/*/service.py"))
        modules = ["zerofleet.cli", *(f"zerofleet.services.{name}.service" for name in services)]
        self._run([PYTHON, "-c", f"import {', '.join(modules)}"])

    def _install_locked(self, name: str, *options: str, shown: bool = True) -> None:
        """Install the packages of a file in deploy/requirements, and check their hashes."""
        locked = ("--no-deps", "--require-hashes", "-r", str(LOCKED / f"{name}.txt"))
        self._pip(*locked, *options, shown=shown)

    def _pip(self, *arguments: str, shown: bool = True) -> None:
        """Install packages; with ``shown`` pass on the messages of pip."""
        process = subprocess.Popen(
            # Most modules are never imported. Python compiles the others on their first import.
            [*pip_command("install"), "--no-compile", *arguments],
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=environment(),
            pass_fds=[self._lock],
        )
        output = ""
        with process:
            assert process.stderr is not None
            try:
                for line in process.stderr:
                    output += line
                    if shown:
                        print(line, end="", file=sys.stderr, flush=True)
            except BaseException:
                process.terminate()
                raise
        if process.returncode != 0:
            status = process.returncode
            ended = f"Signal {-status} ended it." if status < 0 else "Its message is above."
            hint = hint_for(output) or ended
            raise PipError(f"pip could not install packages. {hint}", output)

    def _run(self, command: list[str | Path]) -> None:
        """Run a command that must succeed."""
        done = subprocess.run(
            command, cwd=ROOT, env=environment(), pass_fds=[self._lock], check=False
        )
        if done.returncode != 0:
            words = " ".join(map(str, command))
            raise SetupError(f"this command failed with status {done.returncode}: {words}")

    def _done(self, part: str) -> None:
        """Note that a part is installed."""
        STAMP.write_text(json.dumps({**installed_state(), part: self._wanted[part]}))


def check_checkout_is_writable() -> None:
    """Refuse a checkout that .venv cannot be made in."""
    try:
        with tempfile.TemporaryFile(dir=VENV if VENV.is_dir() else ROOT):
            pass
    except OSError as error:
        raise SetupError(
            f"cannot write to {ROOT} ({error.strerror}). .venv and the compiled core belong there: "
            "use a checkout that you may write to."
        ) from error


def check_python_makes_environments() -> None:
    """Refuse a Python whose modules for virtual environments are packaged separately."""
    for module in ("venv", "ensurepip"):
        if importlib.util.find_spec(module) is None:
            raise SetupError(
                f"{sys.executable} has no module {module}, which .venv needs. Install it (Debian "
                "and Ubuntu: apt-get install python3-venv), or name another Python: "
                "make setup PYTHON=python3.12"
            )


def check_compiler() -> None:
    """Refuse a machine without a compiler for C++20."""
    needed = "zerofleet needs a C++20 compiler: g++ 11 or newer, or clang 14 or newer"
    remedy = "Install one (Debian and Ubuntu: apt-get install g++), or name one in CXX"
    named = os.environ.get("CXX", "").split()
    candidates = named[:1] or ["c++", "g++", "clang++"]  # The order in which CMake looks.
    path = next(filter(None, map(shutil.which, candidates)), None)
    if path is None:
        raise SetupError(f"{needed}. Found none of {', '.join(candidates)}. {remedy}.")
    command = [path, "-dM", "-E", "-x", "c++", os.devnull]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    macros = dict(re.findall(r"#define (__(?:GNUC|clang_major)__) (\d+)", done.stdout))
    kind = "clang" if "__clang_major__" in macros else "g++"
    version = macros.get("__clang_major__") or macros.get("__GNUC__")
    if version is not None and int(version) < OLDEST_COMPILERS[kind]:
        raise SetupError(f"{needed}. {path} is {kind} {version}. {remedy}, as in CXX=g++-12.")


def check_headers() -> None:
    """Refuse a Python without its C headers."""
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if not header.exists():
        raise SetupError(
            f"zerofleet needs Python's C headers, and {header} does not exist. Install them "
            "(Debian and Ubuntu: apt-get install python3-dev), or name another Python: "
            "make setup PYTHON=python3.12"
        )


def check_space(cost: Cost) -> None:
    """Refuse a set-up that does not fit on the disk."""
    temporary = Path(tempfile.gettempdir())
    needed = {ROOT: cost.on_disk, temporary: cost.fetched}
    if ROOT.stat().st_dev == temporary.stat().st_dev:
        needed = {ROOT: cost.on_disk + cost.fetched}
    for folder, amount in needed.items():
        free = shutil.disk_usage(folder).free // 1_000_000
        if free < amount:
            raise SetupError(
                f"{folder} has {megabytes(free)} free, and {megabytes(amount)} are needed. Make "
                "room" + (", or set TMPDIR to another folder." if folder == temporary else ".")
            )


def cost_of(layers: list[str], *, compiles: bool) -> Cost:
    """Return the cost of these layers at most: packages that are installed cost nothing."""
    cost = BUILD_COST if compiles else Cost(0, 0)
    for name in layers:
        cost = cost.plus(LAYERS[name].cost)
    if "run" in layers:
        has_gpu = platform.system() == "Linux" and NVIDIA_DRIVER.exists()
        cost = cost.plus(TORCH_CUDA_COST if has_gpu else TORCH_CPU_COST)
    return cost


def hint_for(output: str) -> str | None:
    """Return advice for the failure that a program printed, if we know it."""
    if "No space left on device" in output:
        free = {folder: shutil.disk_usage(folder).free for folder in (ROOT, tempfile.gettempdir())}
        rooms = ", ".join(f"{folder} has {megabytes(n // 1_000_000)}" for folder, n in free.items())
        return f"The disk is full: {rooms} free. Make room and run the same command again."
    if "DO NOT MATCH THE HASHES" in output:
        return (
            "A package is not the one that deploy/requirements lists by sha256. Remove other "
            "indexes from pip's settings (pip config list) and run the same command again. If it "
            "stays, do not install it, and report it."
        )
    if re.search(r"NewConnectionError|NameResolutionError|ConnectTimeout|ProxyError", output):
        return (
            "The package index could not be reached. Check the network and HTTPS_PROXY, or name a "
            "mirror in PIP_INDEX_URL, and run the same command again."
        )
    if "Killed signal" in output:
        return (
            "The system killed the compiler, probably because memory ran out. Compile one file "
            "at a time: CMAKE_BUILD_PARALLEL_LEVEL=1 make setup"
        )
    return None


def requirements(layer: str) -> list[Path]:
    """Return the files that list a layer's packages."""
    names = [f"checkout-{layer}", *(["checkout-torch", "torch-cpu"] if layer == "run" else [])]
    return [LOCKED / f"{name}.txt" for name in names]


def torch_for_cpus() -> str:
    """Return the requirement of torch's build for CPUs."""
    lines = (LOCKED / "torch-cpu.txt").read_text().splitlines()
    return next(line.split()[0] for line in lines if line.startswith("torch=="))


def pip_command(verb: str) -> list[str | Path]:
    """Return the start of a pip command in the environment."""
    return [PYTHON, "-m", "pip", verb, "-q", "--disable-pip-version-check"]


def environment() -> dict[str, str]:
    """Return the environment variables for the processes of the set-up."""
    # setuptools warns about every editable installation, which the reader cannot change.
    settings = {**os.environ, "PYTHONWARNINGS": "ignore"}
    settings.pop("PYTHONDONTWRITEBYTECODE", None)
    return settings


def megabytes(amount: int) -> str:
    """Write an amount of megabytes for people."""
    return f"{amount} MB" if amount < 1000 else f"{amount / 1000:.1f} GB"


def step(text: str) -> None:
    """Say what happens now."""
    print(f"==> {text}", flush=True)


def digest(*texts: str, files: list[Path]) -> str:
    """Sha256 over texts, names and contents."""
    content = hashlib.sha256()
    for text in texts:
        content.update(text.encode() + b"\0")
    for path in files:
        content.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return content.hexdigest()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
