"""Render the Kubernetes overlays into files: ``python scripts/render_deploy.py FOLDER``.

Every overlay as it is, and again with what its comments offer (a GPU, other ways of scaling, mTLS),
so that each component is rendered somewhere. Needs no cluster; local's secrets are made for the
purpose and thrown away.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NO_KUBECTL = (
    "needs kubectl 1.27 or newer ('make setup' installs one on Linux; for others "
    "https://kubernetes.io/docs/tasks/tools)"
)
_LEAST_KUSTOMIZE = (5, 0)

Edit = Callable[[str], str]


def main() -> int:
    """Render all; the exit status of the process."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    kubectl = find_kubectl()
    if kubectl is None:
        print(NO_KUBECTL, file=sys.stderr)
        return 1
    for name, path in sorted(render(kubectl, Path(sys.argv[1])).items()):
        print(f"{name}: {path}")
    return 0


def find_kubectl() -> str | None:
    """Return a kubectl that can render these overlays: the pinned one of .venv, else PATH's."""
    folders = (str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath))
    found = (shutil.which("kubectl", path=each) for each in folders)
    return next((each for each in found if each is not None and _is_new_enough(each)), None)


def render(kubectl: str, out: Path) -> dict[str, Path]:
    """Write ``out/VARIANT.yaml`` for each; the files by variant.

    Raises:
        RuntimeError: one does not render; the message has kustomize's words.
    """
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for name in ("deploy", "runs"):
            # A person's own secrets are none of this program's business.
            shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("secrets"))
        overlays = tree / "deploy" / "k8s" / "overlays"
        make_secrets(overlays / "local" / "secrets")
        for name, (overlay, edit) in VARIANTS.items():
            _vary(overlays, overlay, name, edit)

        def one(name: str) -> tuple[str, Path]:
            done = subprocess.run(
                [kubectl, "kustomize", str(overlays / name)],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode or done.stderr.strip():
                raise RuntimeError(f"{name} does not render: {done.stderr.strip()}")
            path = out / f"{name}.yaml"
            path.write_text(done.stdout)
            return name, path

        with ThreadPoolExecutor(max_workers=4) as pool:
            return dict(pool.map(one, VARIANTS))


def _as_it_is(text: str) -> str:
    return text


def _with_gpu(text: str) -> str:
    return re.sub(r"# (- \S+/components/gpu-)", r"\1", text)


def _with_tls(text: str) -> str:
    return re.sub(r"^(  )# (.*\btls\b)", r"\1\2", text, flags=re.MULTILINE)


def _with_hpa(text: str) -> str:
    return _scaled_by("hpa", text)


def _with_keda(text: str) -> str:
    return _scaled_by("keda", text)


def _with_tls_and_hpa(text: str) -> str:
    return _with_hpa(_with_tls(text))


def _scaled_by(what: str, text: str) -> str:
    """One of the two components, where an overlay has the other or offers one in a comment."""
    return re.sub(r"(?:# )?(- \S+/components/autoscaling-)\w+", rf"\1{what}", text)


VARIANTS: dict[str, tuple[str, Edit]] = {
    "local": ("local", _as_it_is),
    "local-hpa": ("local", _with_hpa),
    "local-keda": ("local", _with_keda),
    "local-tls": ("local", _with_tls),
    "local-tls-hpa": ("local", _with_tls_and_hpa),
    "production": ("production", _as_it_is),
    "production-gpu": ("production", _with_gpu),
    "production-hpa": ("production", _with_hpa),
}


def _vary(overlays: Path, overlay: str, name: str, edit: Edit) -> None:
    """Put the variant next to its overlay."""
    if name == overlay:
        return
    shutil.copytree(overlays / overlay, overlays / name)
    path = overlays / name / "kustomization.yaml"
    before = path.read_text()
    after = edit(before)
    if after == before:
        raise RuntimeError(f"{overlay}/kustomization.yaml no longer offers what {name} needs")
    path.write_text(after)


def make_secrets(folder: Path) -> None:
    """Make the secrets of the overlay ``local`` in a folder."""
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-m", "zerofleet.secrets", str(folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"python -m zerofleet.secrets failed: {done.stderr.strip()}")


def _is_new_enough(kubectl: str) -> bool:
    try:
        done = subprocess.run(
            [kubectl, "version", "--client"], capture_output=True, text=True, check=False
        )
    except OSError:
        return False
    found = re.search(r"Kustomize Version: v(\d+)\.(\d+)", done.stdout)
    return found is not None and tuple(map(int, found.groups())) >= _LEAST_KUSTOMIZE


if __name__ == "__main__":
    sys.exit(main())
