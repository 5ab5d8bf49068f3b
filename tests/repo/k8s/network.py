"""Rules about who may talk to whom: selectors, Services, NetworkPolicies, TLS."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.repo.k8s.manifests import Manifests, Workload

Flow = tuple[str, str, int]  # from, to, port; "" is outside the namespace

# What a variable of the environment makes its process dial: the port, and who listens there.
_NEEDS = {
    "ZEROFLEET_DATABASE_URL": (5432, "postgres"),
    "ZEROFLEET_REDIS_URL": (6379, "redis"),
    "ZEROFLEET_INFERENCE_ADDRESS": (8001, "inference"),
    "ZEROFLEET_MODEL_STORE": (443, ""),
}
_SPEAK_GRPC = ("inference", "selfplay", "evaluator", "dashboard", "autoscaler", "tools")


def selectors_select(fleet: Manifests) -> Iterator[str]:
    for workload in fleet.workloads:
        if workload.kind == "Job":
            continue
        chosen = workload.document["spec"]["selector"]
        if [each.name for each in fleet.selected(chosen)] != [workload.name]:
            yield f"{workload.name} selects {[each.name for each in fleet.selected(chosen)]}"
    for kind in ("PodDisruptionBudget", "PodMonitor"):
        for document in fleet.of_kind(kind):
            if not fleet.selected(document["spec"]["selector"]):
                yield f"the {kind} {document['metadata']['name']} selects nothing"
    for policy in fleet.of_kind("NetworkPolicy"):
        if not fleet.selected(policy["spec"]["podSelector"]):
            yield f"the NetworkPolicy {policy['metadata']['name']} selects nothing"
    for workload in fleet.workloads:
        for spread in workload.pod.get("topologySpreadConstraints", []):
            if workload not in fleet.selected(spread["labelSelector"]):
                yield f"{workload.name} is not spread: the selector is another's"


def services_reach_ports_that_exist(fleet: Manifests) -> Iterator[str]:
    for service in fleet.of_kind("Service"):
        name = service["metadata"]["name"]
        behind = fleet.selected({"matchLabels": service["spec"]["selector"]})
        if len(behind) != 1:
            yield f"the Service {name} selects {[each.name for each in behind]}"
        for port in service["spec"]["ports"]:
            for workload in behind:
                if workload.ports.get(port["targetPort"]) != port["port"]:
                    yield f"the Service {name}: {workload.name} has no such port as {port}"
    for monitor in fleet.of_kind("PodMonitor"):
        for endpoint in monitor["spec"]["podMetricsEndpoints"]:
            watched = fleet.selected(monitor["spec"]["selector"])
            if not any(endpoint["port"] in workload.ports for workload in watched):
                yield f"no pod has the port {endpoint['port']} of a PodMonitor"


def addresses_are_services(fleet: Manifests) -> Iterator[str]:
    for workload in fleet.workloads:
        address = fleet.environment(workload).get("ZEROFLEET_INFERENCE_ADDRESS")
        if address is None:
            continue
        host, _, port = address.removeprefix("dns:///").partition(":")
        service = fleet.get("Service", host)
        if service is None or int(port) not in {p["port"] for p in service["spec"]["ports"]}:
            yield f"{workload.name} dials {address}, which is no Service"
        elif service["spec"].get("clusterIP") != "None" or not address.startswith("dns:///"):
            # One address would be one connection to one replica, for ever.
            yield f"{workload.name} dials {address}: round robin needs a headless Service by DNS"


def all_is_denied_by_default(fleet: Manifests) -> Iterator[str]:
    for direction in ("Ingress", "Egress"):
        denied = {
            workload.name
            for policy in fleet.of_kind("NetworkPolicy")
            if direction in policy["spec"]["policyTypes"]
            and not {"ingress", "egress"} & set(policy["spec"])
            for workload in fleet.selected(policy["spec"]["podSelector"])
        }
        for workload in fleet.workloads:
            if workload.name not in denied:
                yield f"{workload.name}: {direction} is not denied"


def both_ends_of_each_flow_agree(fleet: Manifests) -> Iterator[str]:
    """What one end may send the other may receive, to a port that it has."""
    sent, received = _flows(fleet, "egress"), _flows(fleet, "ingress")
    for flow in sorted(sent - received):
        if flow[1]:
            yield f"{flow[0]} may send to {flow[1]}:{flow[2]}, which may not receive it"
    for flow in sorted(received - sent):
        if flow[0]:
            yield f"{flow[1]}:{flow[2]} may receive from {flow[0]}, which may not send it"
    for _, receiver, port in sorted(received):
        workload = fleet.workload(receiver)
        if workload is None or port not in workload.ports.values():
            yield f"{receiver} may receive at {port}, where it does not listen"


def pods_reach_what_they_need_and_no_more(fleet: Manifests) -> Iterator[str]:
    sent = _flows(fleet, "egress")
    for workload in fleet.workloads:
        environment = fleet.environment(workload)
        needed = {place for name, place in _NEEDS.items() if name in environment} | {(53, "")}
        allowed = {(port, to) for sender, to, port in sent if sender == workload.name}
        # A managed store is outside.
        met = {(port, to) for port, to in needed if (port, to) in allowed or (port, "") in allowed}
        for port, to in sorted(needed - met):
            yield f"{workload.name} needs {to or 'the outside'}:{port} and may not send there"
        for port, to in sorted(allowed - needed):
            if not any(port == wanted and not to for wanted, _ in needed):
                yield f"{workload.name} may send to {to or 'outside'}:{port} and has no need to"


def grpc_is_safe(fleet: Manifests) -> Iterator[str]:
    """All of it TLS, or none and said so; a token wherever one is asked for."""
    secured = {
        workload.name
        for workload in fleet.workloads
        if "ZEROFLEET_TLS_FOLDER" in fleet.environment(workload)
    }
    speakers = {name for name in _SPEAK_GRPC if fleet.workload(name)}
    if secured not in (set(), speakers):
        yield f"{secured} speak TLS, and {speakers - secured} do not"
    for name in sorted(speakers):
        workload = fleet.workload(name)
        assert workload is not None
        environment = fleet.environment(workload)
        if (environment.get("ZEROFLEET_ALLOW_PLAINTEXT") == "true") == (name in secured):
            yield f"{name}: plaintext must be allowed just where ZEROFLEET_TLS_FOLDER is not set"
    for workload in fleet.workloads:
        environment = fleet.environment(workload)
        dials = "ZEROFLEET_INFERENCE_ADDRESS" in environment
        if dials and "ZEROFLEET_TOKEN_FILE" not in environment:
            yield f"{workload.name} sends no token"
        if workload.name == "inference" and "ZEROFLEET_TOKEN_ROLES_FILE" not in environment:
            yield "inference asks for no token"


def certificates_have_the_names_that_are_dialled(fleet: Manifests) -> Iterator[str]:
    names = {
        each["spec"]["secretName"]: set(each["spec"].get("dnsNames", []))
        for each in fleet.of_kind("Certificate")
    }
    if not names:
        return
    for workload in fleet.workloads:
        address = fleet.environment(workload).get("ZEROFLEET_INFERENCE_ADDRESS", "")
        host = address.removeprefix("dns:///").partition(":")[0]
        if host and host not in names["inference-tls"]:
            yield f"{workload.name} dials {host}, which inference's certificate does not name"
    for scaled in fleet.of_kind("ScaledObject"):
        for trigger in scaled["spec"]["triggers"]:
            host = trigger["metadata"].get("scalerAddress", "").partition(":")[0]
            if host and host not in names["autoscaler-tls"]:
                yield f"KEDA dials {host}, which the autoscaler's certificate does not name"
            if host and "authenticationRef" not in trigger:
                yield f"KEDA shows no certificate for {scaled['metadata']['name']}"


def _flows(fleet: Manifests, direction: str) -> set[Flow]:
    """What NetworkPolicies allow, between workloads of this namespace and to or from outside."""
    flows: set[Flow] = set()
    for policy in fleet.of_kind("NetworkPolicy"):
        own = fleet.selected(policy["spec"]["podSelector"])
        for rule in policy["spec"].get(direction, []):
            peers = rule.get("from" if direction == "ingress" else "to")
            others = [""] if peers is None else sorted(_others(fleet, peers))
            for port in rule["ports"]:
                for workload in own:
                    for other in others:
                        pair = (workload.name, other)
                        sender, receiver = pair if direction == "egress" else pair[::-1]
                        flows.add((sender, receiver, port["port"]))
    return flows


def _others(fleet: Manifests, peers: list[dict[str, Any]]) -> set[str]:
    names: set[str] = set()
    for peer in peers:
        if "podSelector" in peer and "namespaceSelector" not in peer:
            found: list[Workload] = fleet.selected(peer["podSelector"])
            names |= {each.name for each in found}
        else:
            names.add("")
    return names
