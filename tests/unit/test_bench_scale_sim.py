"""The simulation of scaling, compared with a simulation of single messages and in small cases."""

from __future__ import annotations

import heapq
import json
import subprocess
import sys
from collections import deque
from pathlib import Path

import numpy as np
import pytest
import yaml

from bench.batches import BatchCost, served
from bench.scale_sim import (
    DOWN_SHARE,
    PERIOD_SECONDS,
    STABILIZATION_SECONDS,
    UP_SHARE,
    Hpa,
    Simulation,
    figures_of,
)

ROOT = Path(__file__).resolve().parents[2]
ROWS = 256


def one_by_one(
    workers: int, think: float, cost: BatchCost, seconds: float
) -> tuple[float, float, float]:
    """Return messages a second, rows of a batch, and wait over computation, by simulation."""
    random = np.random.default_rng(1)
    most = cost.max_rows // ROWS
    queue = deque[tuple[float, int]]()  # time at which a worker's message began to wait
    # event loops that wait for their worker's core
    thinking = [deque[float]() for _ in range(workers)]
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
            compute = cost.seconds(len(batch) * ROWS)
            waited += sum(now - since for since, _ in batch)
            messages, batches, computed = messages + len(batch), batches + 1, computed + compute
            plan(now + compute, 0, "done")
    wait = (waited / messages) / (computed / batches)
    return messages / seconds, messages * ROWS / batches, wait


@pytest.mark.parametrize("workers", [1, 2, 4, 10, 30, 60])
@pytest.mark.parametrize(
    "cost", [BatchCost(0.5e-3, 9.3e-6), BatchCost(0.0, 339e-6), BatchCost(10e-3, 10e-6)]
)
def test_mean_values_are_those_of_messages_one_by_one(workers: int, cost: BatchCost) -> None:
    think = ROWS / 20_000
    compute = cost.seconds(ROWS)
    exact = one_by_one(workers, think, cost, seconds=400 * max(think, compute))
    found = served(workers, think, ROWS, cost)
    assert found.messages == pytest.approx(exact[0], rel=0.15)
    wait = found.wait / found.compute
    assert (wait >= 1) == (exact[2] >= 1) or wait == pytest.approx(exact[2], abs=0.35)


def test_the_hpa_overlooks_a_tenth_is_paced_and_takes_its_time_downwards() -> None:
    hpa = Hpa(1000, replicas=100)
    hpa.sync(0, 109)
    assert hpa.replicas == 100
    hpa.sync(15, 500)
    hpa.sync(30, 500)
    assert hpa.replicas == 200  # doubled within a minute, which is the limit
    hpa.sync(75, 500)
    assert hpa.replicas == 400
    hpa.sync(90, None)
    assert hpa.replicas == 400
    for seconds in range(105, 360, 15):
        hpa.sync(seconds, 100)
    assert hpa.replicas == 400  # 500 were wanted within the last five minutes
    hpa.sync(390, 100)
    assert hpa.replicas == 300


@pytest.mark.parametrize("deployment", ["selfplay", "inference"])
@pytest.mark.parametrize("component", ["autoscaling-keda", "autoscaling-hpa"])
def test_the_hpa_is_paced_as_the_manifests_say(component: str, deployment: str) -> None:
    path = ROOT / "deploy" / "k8s" / "components" / component / f"{deployment}.yaml"
    spec = yaml.safe_load(path.read_text())["spec"]
    of_hpa = spec.get("advanced", {}).get("horizontalPodAutoscalerConfig", spec)["behavior"]

    def percent(share: float) -> list[dict[str, object]]:
        period = round(PERIOD_SECONDS)
        return [{"type": "Percent", "value": round(100 * share), "periodSeconds": period}]

    assert of_hpa == {
        "scaleUp": {"stabilizationWindowSeconds": 0, "policies": percent(UP_SHARE)},
        "scaleDown": {
            "stabilizationWindowSeconds": STABILIZATION_SECONDS,
            "policies": percent(DOWN_SHARE),
        },
    }


@pytest.mark.parametrize("fault", ["none", "storm", "silent"])
@pytest.mark.parametrize("size", [1, 10])
def test_a_small_fleet_finds_its_size_and_stays_there(size: int, fault: str) -> None:
    simulation = Simulation(size, fault, seed=1)
    samples = simulation.run(hours=2.0)
    row = figures_of(simulation, samples)
    converged = row["converged_minutes"]
    assert isinstance(converged, float)
    assert converged < 30
    assert row["reversals"] == 0
    wanted = [each.desired for each in samples]
    assert min(wanted) >= 1
    assert max(wanted) <= 1.35 * size + 1


def test_where_inference_may_not_grow_more_workers_are_not_asked_for() -> None:
    simulation = Simulation(100, "few replicas", seed=1)
    samples = simulation.run(hours=1.0)
    assert 20 <= samples[-1].desired <= 26  # there are 100 workers, and the server can feed 24
    assert samples[-1].wait < 1


def test_the_command_prints_a_line_for_each_fleet() -> None:
    options = ["--sizes", "1", "2", "--faults", "none", "few replicas", "--hours", "0.1", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "bench.scale_sim", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["size"], row["fault"]) for row in rows] == [(1, "none"), (2, "none")]
