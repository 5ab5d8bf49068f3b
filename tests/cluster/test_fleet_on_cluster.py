"""A fleet on a real cluster is scaled, killed, rolled and paused; no game is lost or duplicated.

The tests use the oracle of bench.chaos: each worker notes every finished game before Postgres gets
it, and every answer of Postgres. The tests share one namespace and depend on their order.
"""

import json
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.databases import GAMES_STORED_TWICE

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.chaos,
    pytest.mark.slow,
    pytest.mark.timeout(3600),
]

WORKERS = 3
KILLED = ("selfplay", "inference", "trainer", "evaluator", "dashboard", "redis", "postgres")
HPAS = {"selfplay", "inference"}
RUN_CHANGE = ("publish_every_steps = 50", "publish_every_steps = 60")
# Asks for moves, one after the other, until the file /tmp/stop exists.
ASKING = """
import asyncio, json, os, pathlib, time
from zerofleet.client import AsyncPlayer
from zerofleet.errors import ZerofleetError

async def ask():
    answers, failures, longest = 0, [], 0.0
    address, token = os.environ["ZEROFLEET_INFERENCE_ADDRESS"], os.environ["ZEROFLEET_TOKEN_FILE"]
    async with AsyncPlayer(address, token_file=token, allow_plaintext=True) as player:
        while not pathlib.Path("/tmp/stop").exists():
            began = time.monotonic()
            try:
                await player.play(game="connect_four", simulations=50)
                answers += 1
            except ZerofleetError as error:
                failures.append(str(error))
            longest = max(longest, time.monotonic() - began)
    print(json.dumps({"answers": answers, "failures": failures, "longest": longest}))

asyncio.run(ask())
"""


def scale(cluster: Any, workers: int) -> None:
    cluster.kubectl("scale", "deployment/selfplay", f"--replicas={workers}")


def at_work(cluster: Any) -> set[str]:
    """Return the pods whose worker stored a game within the last minute."""
    rows = cluster.sql(
        "SELECT DISTINCT regexp_replace(worker, '-[0-9]+$', '') FROM games "
        "WHERE kind = 'selfplay' AND ingested_at > now() - interval '60 s'"
    )
    return {row[0] for row in rows}


def settle(cluster: Any) -> int:
    """Wait until every unacknowledged game is stored, and return the number of these games."""
    waiting = cluster.unanswered()
    cluster.until(f"{len(waiting)} games stored", lambda: not waiting & cluster.unanswered())
    return len(waiting)


def test_it_plays_after_one_apply(cluster: Any) -> None:
    began = time.monotonic()
    cluster.apply("overlay")
    cluster.until("the first game", cluster.games)
    cluster.seen("apply", "the first game is stored", began)
    cluster.wait_ready()
    cluster.seen("", "all pods are ready", began)
    restarts = {
        pod["metadata"]["name"]: state["restartCount"]
        for name in KILLED
        for pod in cluster.pods(name)
        for state in pod["status"]["containerStatuses"]
    }
    assert set(restarts.values()) == {0}, restarts


def test_workers_come_and_go_and_their_number_is_not_the_manifests(cluster: Any) -> None:
    began = time.monotonic()
    scale(cluster, WORKERS)
    cluster.until("all at work", lambda: at_work(cluster) >= cluster.names("selfplay"))
    cluster.seen(f"scaled 1 -> {WORKERS}", "all have stored games", began)
    cluster.apply("overlay")
    assert cluster.replicas("deployment/selfplay") == WORKERS
    before = cluster.names("selfplay")
    assert len(before) == WORKERS
    began = time.monotonic()
    scale(cluster, 1)
    cluster.until("two have left", lambda: len(cluster.names("selfplay")) == 1)
    gone = "|".join(sorted(before - cluster.names("selfplay")))
    theirs = f"SELECT count(*) FROM unfinished_games WHERE worker ~ '^({gone})-'"
    cluster.until("their games are adopted", lambda: cluster.sql(theirs) == [["0"]])
    cluster.seen(f"applied again, scaled {WORKERS} -> 1", "none of their games is left", began)
    scale(cluster, 2)
    cluster.wait_ready("deployment/selfplay")


def test_a_pod_that_has_just_started_leaves_before_it_is_killed(cluster: Any) -> None:
    """The pod's first process gets SIGTERM while Python is still starting."""
    before = cluster.names("evaluator")
    cluster.kubectl("delete", "pod", *before, "--wait=false")
    [young] = cluster.until("a new pod", lambda: cluster.names("evaluator") - before)
    with kept_to_look_at(cluster, young):
        cluster.until("it runs", lambda: "running" in state_of(cluster, young))
        began = time.monotonic()
        cluster.kubectl("delete", "pod", young, "--wait=false")
        end = cluster.until("its end", lambda: state_of(cluster, young).get("terminated"))
        cluster.seen("evaluator deleted as it started", f"it ended with {end['exitCode']}", began)
    # A process that is killed after its grace period exits with 137.
    assert end["exitCode"] in (0, 128 + signal.SIGTERM), end
    cluster.wait_ready("deployment/evaluator")


@contextmanager
def kept_to_look_at(cluster: Any, pod: str) -> Iterator[None]:
    """Keep a deleted pod in the API until the block ends."""

    def finalizers(names: list[str]) -> None:
        patch = json.dumps({"metadata": {"finalizers": names}})
        cluster.kubectl("patch", "pod", pod, "--type=merge", "-p", patch)

    finalizers(["zerofleet/trial"])
    try:
        yield
    finally:
        finalizers([])


def state_of(cluster: Any, pod: str) -> dict[str, Any]:
    """Return the state of the pod's container: ``running``, ``waiting`` or ``terminated``."""
    status = json.loads(cluster.kubectl("get", "pod", pod, "-o", "json"))["status"]
    return next((each["state"] for each in status.get("containerStatuses", [])), {})


@pytest.mark.parametrize("name", KILLED)
def test_a_pod_that_is_killed_is_replaced(cluster: Any, name: str) -> None:
    """Unacknowledged games are stored before the next pod is killed."""
    pod = min(cluster.names(name))
    began = time.monotonic()
    cluster.kubectl("delete", "pod", pod, "--grace-period=0", "--force")
    kind = "statefulset" if name in ("trainer", "redis", "postgres") else "deployment"
    cluster.wait_ready(f"{kind}/{name}")
    ready = time.monotonic() - began
    cluster.more_games()
    waited = settle(cluster)
    cluster.seen(
        f"{name} killed",
        f"ready after {ready:.0f} s; then 50 more games, and {waited} that had ended are stored",
        began,
    )


def test_inference_is_replaced_while_it_is_asked(cluster: Any) -> None:
    cluster.kubectl("scale", "deployment/inference", "--replicas=2")
    cluster.wait_ready("deployment/inference")
    command = ["kubectl", "--namespace", "zerofleet-trial", "exec", "deployment/tools", "--"]
    asking = subprocess.Popen([*command, "python", "-c", ASKING], stdout=subprocess.PIPE, text=True)
    began = time.monotonic()
    try:
        cluster.kubectl("rollout", "restart", "deployment/inference")
        cluster.wait_ready("deployment/inference")
    finally:
        cluster.kubectl("exec", "deployment/tools", "--", "touch", "/tmp/stop")
        output, _ = asking.communicate(timeout=300)
    found = json.loads(output)
    cluster.seen(
        "rolling restart of two inference replicas",
        f"{found['answers']} moves answered meanwhile, {len(found['failures'])} not, "
        f"the slowest after {found['longest']:.1f} s",
        began,
    )
    assert found["answers"] > 10
    assert found["failures"] == []
    cluster.kubectl("scale", "deployment/inference", "--replicas=1")
    cluster.wait_ready("deployment/inference")


def test_a_changed_run_file_rolls_all_services(cluster: Any) -> None:
    services = ("selfplay", "inference", "trainer", "evaluator")
    before = {name: cluster.names(name) for name in services}
    uids = {pod["metadata"]["uid"] for name in services for pod in cluster.pods(name)}
    began = time.monotonic()
    folder = "overlay"
    manifests = cluster.kubectl(
        "kustomize", "--load-restrictor", "LoadRestrictionsNone", f"tests/cluster/{folder}"
    )
    assert RUN_CHANGE[0] in manifests
    name = next(
        line.split()[-1] for line in manifests.splitlines() if line.strip().startswith("name: run-")
    )
    cluster.apply(folder, lambda text: text.replace(*RUN_CHANGE).replace(name, "run-changed"))
    cluster.wait_ready()
    now = {pod["metadata"]["uid"] for name in services for pod in cluster.pods(name)}
    assert not uids & now, before
    cluster.more_games()
    cluster.seen("run file changed", "all services are rolled, 50 more games", began)


def test_a_pause_keeps_every_game(cluster: Any) -> None:
    workers = cluster.replicas("deployment/selfplay")
    began = time.monotonic()
    pause(cluster, "pause")
    assert pods_of_the_fleet(cluster) == ""
    cluster.seen("pause.sh pause", "no pod is left", began)
    began = time.monotonic()
    pause(cluster, "resume")
    cluster.wait_ready()
    cluster.more_games()
    assert cluster.replicas("deployment/selfplay") == workers
    cluster.seen("pause.sh resume", "as many of each as before, 50 more games", began)


def pause(cluster: Any, what: str) -> None:
    subprocess.run(
        ["deploy/k8s/pause.sh", what, "zerofleet-trial"],
        check=True,
        timeout=900,
        capture_output=True,
    )


def pods_of_the_fleet(cluster: Any) -> str:
    labels = "app.kubernetes.io/part-of=zerofleet,app.kubernetes.io/name!=migrate"
    return cluster.kubectl("get", "pods", "-l", labels, "-o", "name")


def test_the_autoscalers_answer_scales_by_plain_hpas(cluster: Any) -> None:
    if cluster.without_hpa:
        pytest.skip(cluster.without_hpa)
    before = cluster.replicas("deployment/selfplay")
    began = time.monotonic()
    cluster.apply("hpa")
    # applying the overlay resets no replica count
    assert cluster.replicas("deployment/selfplay") == before
    want_workers(cluster, least=WORKERS + 1)
    cluster.wait_ready("deployment/autoscaler")
    cluster.until(
        "workers by the HPA", lambda: cluster.replicas("deployment/selfplay") >= WORKERS + 1
    )
    cluster.wait_ready("deployment/selfplay")
    cluster.seen(f"HPA, at least {WORKERS + 1} wanted", f"{WORKERS + 1} workers are ready", began)
    began = time.monotonic()
    want_workers(cluster, least=1, most=1)
    cluster.until("one worker", lambda: cluster.replicas("deployment/selfplay") == 1)
    cluster.until("the others left", lambda: len(cluster.names("selfplay")) == 1)
    cluster.seen("HPA, at most 1 wanted", "one worker is left", began)
    cluster.more_games()


def test_a_pause_holds_under_plain_hpas(cluster: Any) -> None:
    if cluster.without_hpa:
        pytest.skip(cluster.without_hpa)
    want_workers(cluster, least=2, most=2)
    cluster.until("two workers", lambda: cluster.replicas("deployment/selfplay") == 2)
    cluster.wait_ready("deployment/selfplay")
    began = time.monotonic()
    pause(cluster, "pause")
    cluster.until("both HPAs have looked", lambda: standing_still(cluster) == HPAS)
    assert pods_of_the_fleet(cluster) == ""
    cluster.seen("pause.sh pause under HPAs", "no pod is left, and they stand still", began)
    began = time.monotonic()
    pause(cluster, "resume")
    cluster.wait_ready("deployment/autoscaler", "deployment/tools", "deployment/selfplay")
    cluster.more_games()
    cluster.until("both HPAs go on", lambda: not standing_still(cluster))
    assert cluster.replicas("deployment/selfplay") == 2
    cluster.seen("pause.sh resume under HPAs", "as many workers as before, 50 more games", began)


def want_workers(cluster: Any, least: int, most: int = 100) -> None:
    """Bound the number of workers that the autoscaler asks for."""
    keys = f"scaling.min_workers={least},scaling.max_workers={most},scaling.max_inference=4"
    cluster.kubectl("set", "env", "deployment/autoscaler", f"ZEROFLEET_SET={keys}")


def standing_still(cluster: Any) -> set[str]:
    """Return the HPAs that are disabled: an HPA that finds zero replicas changes nothing."""
    found = json.loads(cluster.kubectl("get", "hpa", "-o", "json"))["items"]
    return {
        hpa["metadata"]["name"]
        for hpa in found
        for condition in hpa["status"].get("conditions", [])
        if condition["reason"] == "ScalingDisabled"
    }


def test_no_game_was_lost_or_stored_twice(cluster: Any) -> None:
    began = time.monotonic()
    cluster.kubectl("delete", "hpa", "--all")
    settle(cluster)
    scale(cluster, 0)
    cluster.until("the workers left", lambda: not cluster.names("selfplay"))
    cluster.kubectl(
        "wait", "--for=delete", "--timeout=180s", "pod", "-l", "app.kubernetes.io/name=selfplay"
    )
    lines = cluster.notes()
    ended = {uid for uid, what, *_ in lines if what == "finished"}
    acknowledged = Counter(uid for uid, what, *_ in lines if what == "stored")
    stored = {row[0] for row in cluster.sql("SELECT game_uid FROM games WHERE kind = 'selfplay'")}
    unfinished = {row[0] for row in cluster.sql("SELECT game_uid FROM unfinished_games")}
    doubled = cluster.sql(GAMES_STORED_TWICE)
    lost = ended - stored - unfinished
    unstored = acknowledged.keys() - stored
    twice = [uid for uid, count in acknowledged.items() if count > 1]
    unread = cluster.sql("SELECT game_uid FROM unreadable_games")
    cluster.seen(
        "ledger",
        f"{len(ended)} games ended, {len(stored)} stored, {len(unfinished)} unfinished; "
        f"lost {len(lost)}, stored twice {len(twice) + len(doubled)}, unreadable {len(unread)}",
        began,
    )
    assert len(stored) > 300
    assert (lost, unstored, twice, doubled, unread) == (set(), set(), [], [], [])
