"""The simulation of scaling: its means against messages one by one, and its smallest cases."""

from __future__ import annotations

import heapq
import json
import subprocess
import sys
from collections import deque
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import yaml

from bench.scale_batches import Cost, served
from bench.scale_cluster import Behavior, Hpa
from bench.scale_table import Case, play_through
from bench.scale_ways import ExternalScaler, PrometheusFormula, ScrapedAnswer, Way

ROOT = Path(__file__).resolve().parents[2]
ROWS = 256


def one_by_one(
    workers: int, think: float, cost: Cost, seconds: float
) -> tuple[float, float, float]:
    """Messages a second, rows of a batch, and wait over computation, by playing all through."""
    random = np.random.default_rng(1)
    most = cost.max_rows // ROWS
    queue = deque[tuple[float, int]]()  # since when a worker's message waits
    thinking = [deque[float]() for _ in range(workers)]  # lanes that want their worker's core
    events: list[tuple[float, int, int, str]] = []
    busy, messages, batches, waited, computed, number = False, 0, 0, 0.0, 0.0, 0

    def plan(at: float, worker: int, what: str) -> None:
        nonlocal number
        number += 1
        heapq.heappush(events, (at, number, worker, what))

    def think_on(now: float, worker: int) -> None:
        plan(now + think * random.uniform(0.9, 1.1), worker, "sent")

    for worker in range(workers):
        thinking[worker].append(0.0)
        think_on(random.uniform(0, think), worker)
        thinking[worker].append(0.0)
    in_service: list[int] = []
    while events and events[0][0] < seconds:
        now, _, worker, what = heapq.heappop(events)
        if what == "sent":
            thinking[worker].popleft()
            if thinking[worker]:
                think_on(now, worker)
            queue.append((now, worker))
        else:
            busy = False
            for done in in_service:
                thinking[done].append(now)
                if len(thinking[done]) == 1:
                    think_on(now, done)
        if not busy and queue:
            batch = [queue.popleft() for _ in range(min(most, len(queue)))]
            busy, in_service = True, [each for _, each in batch]
            compute = float(cost.seconds(np.float64(len(batch) * ROWS)))
            waited += sum(now - since for since, _ in batch)
            messages, batches, computed = messages + len(batch), batches + 1, computed + compute
            plan(now + compute, 0, "done")
    wait = (waited / messages) / (computed / batches)
    return messages / seconds, messages * ROWS / batches, wait


@pytest.mark.parametrize("workers", [1, 2, 4, 10, 30, 60])
@pytest.mark.parametrize("cost", [Cost(0.5e-3, 9.3e-6), Cost(0.0, 339e-6), Cost(10e-3, 10e-6)])
def test_mean_values_are_those_of_messages_one_by_one(workers: int, cost: Cost) -> None:
    think = ROWS / 20_000
    compute = float(cost.seconds(np.float64(ROWS)))
    exact = one_by_one(workers, think, cost, seconds=400 * max(think, compute))
    found = served(np.array([float(workers)]), think, ROWS, cost)
    assert found.messages[0] == pytest.approx(exact[0], rel=0.15)
    wait = found.wait[0] / found.compute[0]
    assert (wait >= 1) == (exact[2] >= 1) or wait == pytest.approx(exact[2], abs=0.35)


def test_the_hpa_overlooks_a_tenth_is_paced_and_takes_its_time_downwards() -> None:
    hpa = Hpa(Behavior(most=1000), 100)
    hpa.sync(0, 109.0, 1.0)
    assert hpa.replicas == 100
    hpa.sync(15, 500.0, 1.0)
    hpa.sync(30, 500.0, 1.0)
    assert hpa.replicas == 200  # doubled within a minute, and no more
    hpa.sync(75, 500.0, 1.0)
    assert hpa.replicas == 400
    hpa.sync(90, None, 1.0)
    assert hpa.replicas == 400
    for seconds in range(105, 360, 15):
        hpa.sync(seconds, 100.0, 1.0)
    assert hpa.replicas == 400  # 500 were wanted within the last five minutes
    hpa.sync(390, 100.0, 1.0)
    assert hpa.replicas == 300


@pytest.mark.parametrize("deployment", ["selfplay", "inference"])
@pytest.mark.parametrize(
    ("component", "way"),
    [
        ("autoscaling-keda", ExternalScaler),
        ("autoscaling-hpa", ScrapedAnswer),
        ("autoscaling-prometheus", PrometheusFormula),
    ],
)
def test_the_hpa_is_paced_as_the_manifests_say(
    component: str, way: type[Way], deployment: str
) -> None:
    path = ROOT / "deploy" / "k8s" / "components" / component / f"{deployment}.yaml"
    spec = yaml.safe_load(path.read_text())["spec"]
    of_hpa = spec.get("advanced", {}).get("horizontalPodAutoscalerConfig", spec)["behavior"]
    ours = Behavior(most=1, down_stabilization_seconds=way.settle_seconds)

    def percent(share: float) -> list[dict[str, object]]:
        period = round(ours.period_seconds)
        return [{"type": "Percent", "value": round(100 * share), "periodSeconds": period}]

    assert of_hpa == {
        "scaleUp": {"stabilizationWindowSeconds": 0, "policies": percent(ours.up_share)},
        "scaleDown": {
            "stabilizationWindowSeconds": ours.down_stabilization_seconds,
            "policies": percent(ours.down_share),
        },
    }


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["none", "storm", "silent"])
@pytest.mark.parametrize("size", [1, 10])
def test_a_small_fleet_finds_its_size_and_stays_there(size: int, fault: str) -> None:
    row, trace = play_through(Case("external scaler", size, fault), hours=2.0, seed=1)
    converged, turns = row["converged_minutes"], row["reversals"]
    assert isinstance(converged, float)
    assert converged < 30
    assert turns == 0
    assert min(trace.asked) >= 1
    assert max(trace.asked) <= 1.35 * size + 1


@pytest.mark.slow
def test_where_one_cpu_serves_more_workers_are_no_use_and_are_not_asked_for() -> None:
    _, trace = play_through(Case("external scaler", 1, "cpu"), hours=1.0, seed=1)
    assert set(trace.asked) == {1}


@pytest.mark.slow
def test_the_command_prints_json_and_draws(tmp_path: Path) -> None:
    picture = tmp_path / "fleet.svg"
    options = ["--sizes", "2", "--faults", "none", "--hours", "0.5", "--json", "--plot", picture]
    done = subprocess.run(
        [sys.executable, "-m", "bench.scale_sim", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["size"] == 2
    drawn = ElementTree.parse(picture).getroot()
    assert len(drawn.findall(".//{*}polyline")) == 3
