"""Fetch what ``make check-deploy`` checks with: ``python scripts/deploy_tools.py``.

It goes into .venv-tools, because checkov pins half of PyPI; and where there is no kubectl, that of
Debian's package, whose signature apt verifies. Does nothing when all of it is there.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from render_deploy import TOOLS, find_kubectl

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "deploy" / "check-requirements.txt"
STAMP = TOOLS / "stamp"
_RELEASE = "trixie"
_KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_MIRROR = "https://deb.debian.org/debian"


def main() -> int:
    """Fetch what is missing; the exit status of the process."""
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    if not STAMP.exists() or STAMP.read_text() != wanted:
        print("==> make .venv-tools with the scanners", flush=True)
        venv.create(TOOLS, with_pip=True, clear=True)
        install = [TOOLS / "bin" / "python", "-m", "pip", "install", "-q", "--no-deps"]
        subprocess.run(
            [*install, "--disable-pip-version-check", "-r", REQUIREMENTS],
            check=True,
        )
        STAMP.write_text(wanted)
    if find_kubectl() is None:
        apt, dpkg = shutil.which("apt-get"), shutil.which("dpkg")
        if apt is None or dpkg is None:
            print(
                "no kubectl 1.27 or newer on PATH, and no apt and dpkg to fetch one with: install "
                "kubectl (https://kubernetes.io/docs/tasks/tools)",
                file=sys.stderr,
            )
            return 1
        print(f"==> take kubectl out of Debian {_RELEASE}'s package", flush=True)
        fetch_kubectl(apt, dpkg, TOOLS / "kubectl")
        if find_kubectl() is None:
            print("the package's kubectl does not run here", file=sys.stderr)
            return 1
    return 0


def fetch_kubectl(apt: str, dpkg: str, folder: Path) -> None:
    """Put Debian's kubectl into .venv-tools/bin; nothing of the machine's own apt is touched.

    Args:
        apt: the program.
        dpkg: the program.
        folder: for the lists and the package; removed in the end.
    """
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("state/lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    signed = f"[signed-by={_KEYS}] " if _KEYS.exists() else ""
    sources = folder / "sources.list"
    sources.write_text(f"deb {signed}{mirror()} {_RELEASE} main\n")
    places = {
        "Dir::Etc::SourceList": sources,
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State": folder / "state",
        "Dir::State::status": "/dev/null",
        "Dir::Cache": folder / "cache",
        # Another user than root's would not get into the folder.
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
    }
    options = [word for key, value in places.items() for word in ("-o", f"{key}={value}")]
    for command in (["update"], ["download", "kubectl"]):
        subprocess.run([apt, "-qq", *options, *command], cwd=folder, check=True)
    (package,) = folder.glob("kubectl_*.deb")
    subprocess.run([dpkg, "-x", package, folder / "files"], check=True)
    shutil.copy2(folder / "files" / "usr" / "bin" / "kubectl", TOOLS / "bin" / "kubectl")
    shutil.rmtree(folder)


def mirror() -> str:
    """Where this machine gets Debian from, if it says so."""
    for path in sorted(Path("/etc/apt/sources.list.d").glob("*.sources")):
        for line in path.read_text().splitlines():
            if line.startswith("URIs:") and "debian" in line and "security" not in line:
                return line.split()[1]
    listed = Path("/etc/apt/sources.list")
    for line in listed.read_text().splitlines() if listed.exists() else ():
        words = [word for word in line.split() if not word.startswith("[")]
        if words[:1] == ["deb"] and "debian" in words[1] and "security" not in words[1]:
            return words[1]
    return _MIRROR


if __name__ == "__main__":
    sys.exit(main())
