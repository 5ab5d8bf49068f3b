"""Validate and scan how zerofleet is deployed: ``make check-deploy``.

Every overlay rendered; each object against the schemas of several versions of Kubernetes,
strictly; checkov over manifests and Dockerfile, and for secrets that were left in a file; hadolint;
shellcheck. kubectl is the one that make setup installs on Linux, or the one on PATH. The others go
into .venv-tools, because checkov pins many packages.
Schemas of the kinds that operators bring, and the rules that no scanner knows, are tests:
tests/repo for Kubernetes, tests/docker/test_compose_file.py for Compose, of which checkov knows
nothing.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml
from render_deploy import NO_KUBECTL, find_kubectl, render

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".venv-tools"
REQUIREMENTS = ROOT / "deploy" / "check-requirements.txt"
# The oldest that the manifests are for, the newest that the schemas are there of, and between.
KUBERNETES = ("1.30", "1.32", "1.34", "1.37")
# A check that lets this pass checks nothing.
_TYPO = "{apiVersion: v1, kind: Service, metadata: {name: x}, spec: {prots: []}}"
# Kinds that operators bring; tests/repo/k8s/operator_kinds.yaml has their schemas.
OPERATORS = ("keda.sh/", "monitoring.coreos.com/", "cert-manager.io/")
# The others have the same Deployments, and would only be scanned again.
SCANNED = ("local", "production", "production-gpu")


def main() -> int:
    """Check all; 1 where something was found."""
    kubectl = find_kubectl()
    if kubectl is None:
        print(NO_KUBECTL, file=sys.stderr)
        return 1
    install_tools()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        rendered = render(kubectl, Path(folder) / "rendered")
        core, scanned = Path(folder) / "core", Path(folder) / "scanned"
        lay_out(rendered, core, scanned)
        typo = Path(folder) / "typo"
        typo.mkdir()
        (typo / "service.yaml").write_text(_TYPO)
        checks = [
            ("a typo is refused", ["!", *validation(KUBERNETES[-1], typo)]),
            *(("kubernetes " + version, validation(version, core)) for version in KUBERNETES),
            ("checkov", checkov(scanned)),
            ("hadolint", [str(TOOLS / "bin" / "hadolint"), str(ROOT / "Dockerfile")]),
            ("shellcheck", [str(TOOLS / "bin" / "shellcheck"), *shell_scripts()]),
        ]
        with ThreadPoolExecutor(max_workers=2) as pool:
            results = list(pool.map(lambda check: run(*check), checks))
    print(f"{len(rendered)} renderings, {time.monotonic() - started:.0f} s")
    return 0 if all(results) else 1


def install_tools() -> None:
    """Make .venv-tools, unless it is there and fits its requirements."""
    stamp, wanted = TOOLS / "stamp", hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print("==> make .venv-tools with the scanners", flush=True)
    venv.create(TOOLS, with_pip=True, clear=True)
    install = [TOOLS / "bin" / "python", "-m", "pip", "install", "-q", "--no-deps"]
    options = ["--disable-pip-version-check", "-r", REQUIREMENTS]
    subprocess.run([*install, *options], check=True)
    stamp.write_text(wanted)


def lay_out(rendered: dict[str, Path], core: Path, scanned: Path) -> None:
    """Write what is validated, and what is scanned, into folders of their own."""
    core.mkdir()
    scanned.mkdir()
    for name, path in rendered.items():
        documents = [each for each in yaml.safe_load_all(path.read_text()) if each]
        known = [each for each in documents if not each["apiVersion"].startswith(OPERATORS)]
        (core / f"{name}.yaml").write_text(yaml.safe_dump_all(known))
        if name in SCANNED:
            # Secrets made for the rendering are real secrets, and are in no file of ours.
            others = [each for each in documents if each["kind"] != "Secret"]
            (scanned / f"{name}.yaml").write_text(yaml.safe_dump_all(others))
    shutil.copy(ROOT / "Dockerfile", scanned)
    shutil.copy(ROOT / "docker-compose.yml", scanned)
    shutil.copytree(
        ROOT / "deploy", scanned / "deploy", ignore=shutil.ignore_patterns("k8s", "secrets")
    )


def validation(version: str, folder: Path) -> list[str]:
    """The command that validates the files of a folder."""
    files = sorted(str(path) for path in folder.iterdir())
    return [
        str(TOOLS / "bin" / "kubernetes-validate"),
        "--kubernetes-version",
        version,
        "--strict",
        "--quiet",
        *files,
    ]


def checkov(folder: Path) -> list[str]:
    """The command that scans a folder."""
    return [
        str(TOOLS / "bin" / "checkov"),
        "--config-file",
        str(ROOT / "deploy" / ".checkov.yaml"),
        "--directory",
        str(folder),
    ]


def shell_scripts() -> list[str]:
    """Files of the repository that a shell runs."""
    folders = [ROOT / name for name in (".ci", "scripts", "deploy", "tests/docker")]
    paths = sorted(path for folder in folders for path in folder.rglob("*") if path.is_file())
    return [str(path) for path in paths if is_shell(path)]


def is_shell(path: Path) -> bool:
    """Whether the first line names a shell."""
    with path.open("rb") as file:
        first = file.readline(80)
    return first.startswith(b"#!") and first.rstrip().endswith(b"sh")


def run(name: str, command: list[str]) -> bool:
    """Run a check and say how it went; a command after ``!`` has to find something.

    Anything said in warning is a finding too: so kubernetes-validate passes over a kind that it has
    no schema of.
    """
    started = time.monotonic()
    wanted = command[:1] == ["!"]
    done = subprocess.run(command[wanted:], cwd=ROOT, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    fine = (done.returncode != 0 or "WARN" in said) == wanted
    print(f"{'ok  ' if fine else 'FAIL'} {name}, {time.monotonic() - started:.1f} s", flush=True)
    if not fine:
        print(said)
    return fine


if __name__ == "__main__":
    sys.exit(main())
