"""A fleet on the cluster of kubectl's current context, in a namespace that is deleted afterwards.

The tests touch only a cluster that carries the label for trials. Its owner sets the label. Without
such a cluster the tests are skipped; under ``make cluster-test``, which sets ``NEEDS_CLUSTER``,
they fail.

Every wait has a timeout. Its error names the condition and shows the state of the pods. The
timeouts are long, because a slow node is no error.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

import zerofleet
from tests.missing import is_missing

ROOT = Path(__file__).resolve().parents[2]
NAMESPACE = "zerofleet-trial"
LABEL = "zerofleet/trial"
IMAGES = ("selfplay", "inference", "trainer", "evaluator", "dashboard", "autoscaler", "tools")
STORES = ("postgres:17", "redis:8")
WORKLOADS = (
    *("deployment/selfplay", "deployment/inference", "statefulset/trainer"),
    *("deployment/evaluator", "deployment/dashboard", "deployment/tools"),
    *("statefulset/postgres", "statefulset/redis"),
)
LOG_LINES = 30
NEEDED = "NEEDS_CLUSTER"
EXTERNAL_METRICS = "/apis/external.metrics.k8s.io/v1beta1"

_T = TypeVar("_T")


@dataclass
class Cluster:
    """A fleet of the overlay ``tests/cluster/overlay``, and a record of the tests' steps."""

    rows: list[tuple[str, str, float]] = field(default_factory=list[tuple[str, str, float]])
    """Steps of the tests: action, result, seconds."""
    without_hpa: str = ""
    """Reason for leaving out the plain HPAs; empty if they are used."""

    def kubectl(self, *arguments: str, given: str | None = None, seconds: float = 300.0) -> str:
        """Run ``kubectl`` in the namespace and return its standard output."""
        command = ["kubectl", "--namespace", NAMESPACE, *arguments]
        done = subprocess.run(
            command, cwd=ROOT, input=given, capture_output=True, text=True, timeout=seconds
        )
        if done.returncode:
            words = f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
            raise subprocess.CalledProcessError(done.returncode, shlex.join(command), words)
        return done.stdout

    def apply(self, folder: str, change: Callable[[str], str] = str) -> None:
        """Apply an overlay of this folder, as docs/how-to/kubernetes.md says.

        Args:
            folder: the overlay's name.
            change: applied to the manifests first.
        """
        path = f"tests/cluster/{folder}"
        manifests = self.kubectl("kustomize", "--load-restrictor", "LoadRestrictionsNone", path)
        self.kubectl("delete", "job", "migrate", "--ignore-not-found")
        self.kubectl("apply", "--server-side", "-f", "-", given=change(manifests))

    def pods(self, name: str) -> list[dict[str, Any]]:
        """Return the pods of a workload that are not terminating."""
        found = self.kubectl("get", "pods", "-l", f"app.kubernetes.io/name={name}", "-o", "json")
        return [
            pod
            for pod in json.loads(found)["items"]
            if not pod["metadata"].get("deletionTimestamp")
        ]

    def names(self, name: str) -> set[str]:
        """Return the names of a workload's pods."""
        return {pod["metadata"]["name"] for pod in self.pods(name)}

    def replicas(self, workload: str) -> int:
        """Return the number of replicas that the workload asks for."""
        return int(self.kubectl("get", workload, "-o", "jsonpath={.spec.replicas}"))

    def wait_ready(self, *workloads: str, seconds: float = 900.0) -> None:
        """Wait until all replicas of the workloads are ready and use the newest template."""
        for workload in workloads or WORKLOADS:
            self.kubectl(
                *("rollout", "status", workload, f"--timeout={seconds:.0f}s"), seconds=seconds + 30
            )

    def until(self, what: str, condition: Callable[[], _T], seconds: float = 600.0) -> _T:
        """Wait until a condition is true and return its value."""
        deadline = time.monotonic() + seconds
        trouble = ""
        while True:
            try:
                value = condition()
                if value:
                    return value
            except subprocess.CalledProcessError as error:  # such as Postgres being down
                trouble = f"{error.cmd}: {error.output}"
            if time.monotonic() > deadline:
                pytest.fail(f"not in {seconds:g} s: {what}\n{trouble}\n{self.report()}")
            time.sleep(1.0)

    def sql(self, query: str) -> list[list[str]]:
        """Return the rows of a query, run as the database's owner."""
        arguments = ("psql", "-U", "zerofleet", "-At", "-F", "\t", "-c", query)
        output = self.kubectl("exec", "postgres-0", "--", *arguments)
        return [line.split("\t") for line in output.splitlines()]

    def games(self) -> int:
        """Return the number of stored self-play games."""
        return int(self.sql("SELECT count(*) FROM games WHERE kind = 'selfplay'")[0][0])

    def more_games(self, count: int = 50) -> None:
        """Wait until this many more games are stored."""
        before = self.until("the stored games", lambda: (self.games(),))[0]
        self.until(f"{count} more games", lambda: self.games() >= before + count)

    def notes(self) -> list[list[str]]:
        """Return the workers' notes: each a game's uid and its fate."""
        output = self.kubectl("exec", "deployment/tools", "--", "cat", "/ledger/games")
        return [line.split() for line in output.splitlines()]

    def unanswered(self) -> set[str]:
        """Return the games that have ended and that Postgres has not acknowledged."""
        lines = self.notes()
        ended = {uid for uid, what, *_ in lines if what == "finished"}
        return ended - {uid for uid, what, *_ in lines if what != "finished"}

    def seen(self, what: str, came: str, began: float) -> None:
        """Add a row to the record of steps."""
        seconds = time.monotonic() - began
        self.rows.append((what, came, seconds))
        print(f"\n{what}: {came} ({seconds:.0f} s)")

    def report(self) -> str:
        """Return the list of pods and the last log lines of the services."""
        parts: list[str] = []
        for arguments in (
            ("get", "pods", "-o", "wide"),
            *(("logs", workload, f"--tail={LOG_LINES}") for workload in WORKLOADS[:4]),
        ):
            try:
                parts.append(f"== {' '.join(arguments)}\n{self.kubectl(*arguments)}")
            except subprocess.CalledProcessError as error:
                parts.append(f"== {' '.join(arguments)}\n{error.output}")
        return "\n".join(parts)


def why_without_hpa(found: Cluster, context: str) -> str:
    """Return the reason for leaving out the plain HPAs; empty if they are used."""
    if os.environ.get("WITHOUT_HPA"):
        return "WITHOUT_HPA is set"
    try:
        found.kubectl("get", "--raw", EXTERNAL_METRICS)
    except subprocess.CalledProcessError as error:
        lacking = (
            f"the cluster of kubectl's context {context!r} lacks {EXTERNAL_METRICS}, which plain "
            "HPAs read: give it an adapter for external metrics, or leave their tests out by "
            f"WITHOUT_HPA=1. It says: {error.output.strip()}"
        )
        if os.environ.get(NEEDED):
            pytest.exit(lacking, returncode=2)
        return lacking
    return ""


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The cluster with our images; no part of a fleet exists before or after the tests."""
    if shutil.which("kubectl") is None:
        is_missing("no Kubernetes here: there is no program 'kubectl' on PATH: install it", NEEDED)
    found = Cluster()
    context = "none"
    label = f"jsonpath={{.metadata.labels.{LABEL}}}"
    try:
        context = found.kubectl("config", "current-context").strip()
        allowed = found.kubectl("get", "namespace", "default", "-o", label)
    except subprocess.CalledProcessError as error:
        is_missing(
            f"no cluster answers for kubectl's context {context!r}: start one, or name another by "
            f"kubectl config use-context. kubectl says: {error.output.strip()}",
            NEEDED,
        )
    if allowed != "true":
        is_missing(
            f"kubectl's context {context!r} may be anybody's cluster: this needs one for trials. "
            f"If it is one: kubectl label namespace default {LABEL}=true",
            NEEDED,
        )
    if found.kubectl("get", "namespace", NAMESPACE, "--ignore-not-found"):
        pytest.exit(
            f"the namespace {NAMESPACE} is there already, perhaps of a trial that goes on; "
            f"else: kubectl delete namespace {NAMESPACE}",
            returncode=2,
        )
    found.without_hpa = why_without_hpa(found, context)
    images = [f"zerofleet-{name}:{zerofleet.__version__}" for name in IMAGES]
    if load := os.environ.get("CLUSTER_LOAD"):
        began = time.monotonic()
        for image in (*images, *STORES):
            subprocess.run([*shlex.split(load), image], check=True, timeout=1200)
        found.seen("images loaded", f"{len(images) + len(STORES)} of them", began)
    secrets = ROOT / "deploy" / "k8s" / "overlays" / "local" / "secrets"
    subprocess.run([sys.executable, "-m", "zerofleet.secrets", str(secrets)], check=True)
    try:
        yield found
    finally:
        began = time.monotonic()
        found.kubectl(*("delete", "namespace", NAMESPACE, "--ignore-not-found"), seconds=600)
        found.seen("namespace deleted", "with every claim", began)
        print("\n| What was done | What came of it | Seconds |\n|---|---|---|")
        for what, came, seconds in found.rows:
            print(f"| {what} | {came} | {seconds:.0f} |")
