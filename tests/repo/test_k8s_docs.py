"""The page on Kubernetes names what there is, and no secret can slip into the repository."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "k8s"
PAGE = (ROOT / "docs" / "how-to" / "kubernetes.md").read_text()
OVERLAYS = sorted(path.name for path in (FOLDER / "overlays").iterdir())


def test_the_page_names_every_component_and_overlay() -> None:
    named = set(re.findall(r"^\| `([a-z-]+)` \|", PAGE, flags=re.MULTILINE))
    assert {path.name for path in (FOLDER / "components").iterdir()} <= named
    assert all(f"`overlays/{name}`" in PAGE for name in OVERLAYS)


def test_every_path_on_the_page_exists() -> None:
    paths = set(re.findall(r"\b(?:deploy/k8s|runs|scripts)/[\w./-]+\w", PAGE))
    made = {path for path in paths if "/secrets" in path}
    assert len(paths - made) >= 3
    assert [path for path in sorted(paths - made) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("name", OVERLAYS)
def test_every_overlay_says_how_it_is_applied(name: str) -> None:
    text = (FOLDER / "overlays" / name / "kustomization.yaml").read_text()
    assert f"kubectl apply --server-side -k deploy/k8s/overlays/{name}" in text


def test_the_tools_that_are_named_are_targets() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, flags=re.MULTILINE))
    assert set(re.findall(r"(?:^|`)make ([a-z-]+)\b", PAGE, flags=re.MULTILINE)) <= targets


def test_no_secret_is_among_the_files() -> None:
    listing = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "--", "deploy/k8s"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = [ROOT / line for line in listing.stdout.splitlines()]
    manifests = [path for path in paths if path.suffix == ".yaml" and path.is_file()]
    assert len(manifests) > 20
    kinds = {
        document["kind"]
        for path in manifests
        for document in yaml.safe_load_all(path.read_text())
        if document
    }
    assert "Secret" not in kinds
    made = "deploy/k8s/overlays/local/secrets/postgres/zerofleet"
    ignored = subprocess.run(["git", "check-ignore", "-q", made], cwd=ROOT, check=False)
    assert ignored.returncode == 0
