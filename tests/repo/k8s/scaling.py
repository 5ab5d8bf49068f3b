"""Rules about autoscaling: one scaler a Deployment, bounds, never to zero, never in jumps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.repo.k8s.manifests import Manifests

_BOUNDS = {"selfplay": "scaling.max_workers", "inference": "scaling.max_inference"}


@dataclass(frozen=True)
class Scaler:
    """An HPA, or the ScaledObject of which KEDA makes one."""

    name: str
    target: str
    least: int
    most: int
    behaviour: dict[str, Any]


def scalers(fleet: Manifests) -> list[Scaler]:
    found: list[Scaler] = []
    for document in fleet.of_kind("ScaledObject"):
        spec = document["spec"]
        found.append(
            Scaler(
                f"ScaledObject {document['metadata']['name']}",
                spec["scaleTargetRef"]["name"],
                spec.get("minReplicaCount", 0),
                spec["maxReplicaCount"],
                spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"],
            )
        )
    for document in fleet.of_kind("HorizontalPodAutoscaler"):
        spec = document["spec"]
        found.append(
            Scaler(
                f"HPA {document['metadata']['name']}",
                spec["scaleTargetRef"]["name"],
                spec.get("minReplicas", 1),
                spec["maxReplicas"],
                spec["behavior"],
            )
        )
    return found


def each_deployment_has_one_scaler_at_most(fleet: Manifests) -> Iterator[str]:
    targets = [scaler.target for scaler in scalers(fleet)]
    for target in sorted(set(targets)):
        if targets.count(target) > 1:
            yield f"{target} is scaled by {targets.count(target)}"
        if fleet.get("Deployment", target) is None:
            yield f"the Deployment {target} is scaled and does not exist"
    for deployment in fleet.of_kind("Deployment"):
        name = deployment["metadata"]["name"]
        # By a scaler or by `kubectl scale`.
        is_scaled = name in {*targets, *_BOUNDS}
        if is_scaled and "replicas" in deployment["spec"]:
            yield f"applying {name} again would set its replicas back"
        if not is_scaled and "replicas" not in deployment["spec"]:
            yield f"{name} has neither replicas nor a scaler"


def never_to_zero_and_never_in_jumps(fleet: Manifests) -> Iterator[str]:
    for scaler in scalers(fleet):
        if scaler.least < 1:
            yield f"{scaler.name} may scale to zero"
        up, down = scaler.behaviour["scaleUp"], scaler.behaviour["scaleDown"]
        if down["stabilizationWindowSeconds"] < 300:
            yield f"{scaler.name} shrinks after less than five minutes"
        for policy in up["policies"] + down["policies"]:
            share = policy["value"] if policy["type"] == "Percent" else 0
            if share > (100 if policy in up["policies"] else 25) or policy["periodSeconds"] < 60:
                yield f"{scaler.name} jumps: {policy}"
    for document in fleet.of_kind("ScaledObject"):
        spec, name = document["spec"], document["metadata"]["name"]
        fallback = spec.get("fallback", {})
        if fallback.get("behavior") != "currentReplicasIfHigher" or fallback["replicas"] < 1:
            yield f"{name} does not keep its replicas while the metric is missing"
        if "idleReplicaCount" in spec:
            yield f"{name} has an idleReplicaCount"
        for trigger in spec["triggers"]:
            if trigger.get("metricType") != "AverageValue":
                yield f"{name}: a fallback needs metricType AverageValue"


def bounds_are_the_autoscalers_own(fleet: Manifests) -> Iterator[str]:
    autoscaler = fleet.workload("autoscaler")
    if autoscaler is None:
        return
    environment = fleet.environment(autoscaler)
    given = dict(text.split("=") for text in environment["ZEROFLEET_SET"].split(","))
    for scaler in scalers(fleet):
        if given[_BOUNDS[scaler.target]] != str(scaler.most):
            yield f"{scaler.name} and {_BOUNDS[scaler.target]} differ"


def the_autoscaler_is_where_keda_looks(fleet: Manifests) -> Iterator[str]:
    for document in fleet.of_kind("ScaledObject"):
        for trigger in document["spec"]["triggers"]:
            host, _, port = trigger["metadata"]["scalerAddress"].partition(":")
            name, namespace, *_ = host.split(".")
            service = fleet.get("Service", name)
            if namespace != document["metadata"]["namespace"]:
                yield f"KEDA looks for {host}, but the fleet is in another namespace"
            if service is None or int(port) not in {p["port"] for p in service["spec"]["ports"]}:
                yield f"KEDA looks for {host}:{port}, where nothing listens"
            reference = trigger.get("authenticationRef", {}).get("name")
            if reference and fleet.get("TriggerAuthentication", reference) is None:
                yield f"there is no TriggerAuthentication {reference}"
