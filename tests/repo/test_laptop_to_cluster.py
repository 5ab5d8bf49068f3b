"""The tutorial from laptop to cluster has tested commands and a run file that loads."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import typer
import yaml
from typer.core import TyperGroup

from tests.missing import is_missing
from tests.repo.conftest import render_deploy
from zerofleet.cli import app
from zerofleet.config import load_run

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGE = (DOCS / "tutorials" / "laptop-to-cluster.md").read_text(encoding="utf-8")
GUIDES = "".join(
    (DOCS / "how-to" / f"{name}.md").read_text(encoding="utf-8")
    for name in ("compose", "kubernetes")
)
OURS = {"cp run.toml deploy/k8s/overlays/local/run.toml", "export PATH=$PWD/.venv/bin:$PATH"}
"""Commands for the tutorial's own files and shell."""


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.DOTALL | re.MULTILINE)


def commands(page: str) -> list[str]:
    """Return the page's shell commands, without comments and without the name of the run file."""
    lines = [
        line.partition("  #")[0] for block in blocks(page, "sh") for line in block.splitlines()
    ]
    return [re.sub(r"^RUN=\S+", "RUN=FILE", " ".join(line.split())) for line in lines if line]


@pytest.mark.parametrize("command", commands(PAGE))
def test_every_command_is_one_that_is_tested(command: str) -> None:
    """Commands for Compose and Kubernetes come from the guides, which the fleets' tests follow."""
    words = shlex.split(command)
    match words[0]:
        case "zerofleet":
            group = typer.main.get_command(app)
            assert isinstance(group, TyperGroup)
            name, *arguments = words[1:]
            group.commands[name].make_context(name, arguments)  # fails for an unknown option
        case "make" if len(words) == 2:
            makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
            assert re.search(rf"^(?:[a-z-]+ )*{words[1]}\b.*:", makefile, re.MULTILINE)
        case _:
            assert command in OURS or command in commands(GUIDES) or f"`{command}`" in GUIDES


def test_the_run_file_loads(tmp_path: Path) -> None:
    [text] = blocks(PAGE, "toml")
    path = tmp_path / "run.toml"
    path.write_text(text, encoding="utf-8")
    run = load_run(path)
    assert run.name == "ladder"
    assert "zerofleet-data/ladder" in PAGE


def test_the_edited_overlay_has_the_run_of_the_tutorial(tmp_path: Path) -> None:
    kubectl = render_deploy.find_kubectl()
    if kubectl is None:
        is_missing(render_deploy.NO_KUBECTL, "NEEDS_KUBECTL")
    for name in ("deploy", "runs"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("secrets"))
    overlay = tmp_path / "deploy" / "k8s" / "overlays" / "local"
    [text] = blocks(PAGE, "toml")
    (overlay / "run.toml").write_text(text, encoding="utf-8")
    [change] = blocks(PAGE, "diff")
    removed = [line[1:] for line in change.splitlines() if line.startswith("-")]
    added = [line[1:] for line in change.splitlines() if line.startswith("+")]
    path = overlay / "kustomization.yaml"
    before = path.read_text(encoding="utf-8")
    default_run, offered = f"{removed[0]}\n", "\n".join(removed[1:])
    assert default_run in before
    assert offered in before
    after = before.replace(default_run, "").replace(offered, "\n".join(added))
    path.write_text(after, encoding="utf-8")
    render_deploy.make_secrets(overlay / "secrets")
    done = subprocess.run(
        [kubectl, "kustomize", str(overlay)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    runs = [
        document["data"]["run.toml"]
        for document in yaml.safe_load_all(done.stdout)
        if document["kind"] == "ConfigMap" and "run.toml" in document.get("data", {})
    ]
    assert runs == [text]


def test_commands_are_found() -> None:
    assert len(commands(PAGE)) > 20
    assert "docker compose up -d" in commands(GUIDES)
