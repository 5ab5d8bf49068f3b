"""The Kubernetes overlays, rendered once for all tests of the repository."""

from __future__ import annotations

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from tests.missing import is_missing
from tests.repo.k8s.manifests import Manifests

ROOT = Path(__file__).resolve().parents[2]
_spec = spec_from_file_location("render_deploy", ROOT / "scripts" / "render_deploy.py")
assert _spec is not None
assert _spec.loader is not None
render_deploy = module_from_spec(_spec)
_spec.loader.exec_module(render_deploy)

VARIANTS: tuple[str, ...] = tuple(render_deploy.VARIANTS)


@pytest.fixture(scope="session")
def fleets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Manifests]:
    """Manifests that each overlay, and each way of using it, renders to."""
    kubectl = render_deploy.find_kubectl()
    if kubectl is None:
        is_missing(render_deploy.NO_KUBECTL, "NEEDS_KUBECTL")
    files = render_deploy.render(kubectl, tmp_path_factory.mktemp("deploy"))
    return {
        name: Manifests.read(path, {} if name.startswith("local") else made_by_the_page())
        for name, path in files.items()
    }


def made_by_the_page() -> dict[tuple[str, str], set[str]]:
    """Return the objects that docs/how-to/kubernetes.md has a person make, and their keys."""
    text = (ROOT / "docs" / "how-to" / "kubernetes.md").read_text().replace("\\\n", " ")
    kinds = {"secret generic": "Secret", "configmap": "ConfigMap"}
    return {
        (kinds[kind], name): {
            key.rpartition("/")[2] for key in re.findall(r"--from-file=([^\s=]+)", rest)
        }
        for kind, name, rest in re.findall(r"create (secret generic|configmap) ([\w-]+)(.*)", text)
    }
