"""Rules that no scanner has: how the pods, policies and scalers of one fleet fit together.

checkov and kubernetes-validate (``make check-deploy``) check one object at a time. They know
probes, CPU and memory, user ids, capabilities, seccomp, ports and namespaces of the node, tokens of
the cluster, and the schemas of Kubernetes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.repo.k8s.manifests import Manifests, Workload
from zerofleet import __version__

DOCKERFILE = Path(__file__).resolve().parents[3] / "Dockerfile"
Flow = tuple[str, str, int]  # from, to, port; "" is outside the namespace

_VOLUMES = {"configMap", "emptyDir", "persistentVolumeClaim", "secret"}
_UNITS = {"": 1, "m": 1e-3, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
# Seconds that each service may take to stop after SIGTERM; inference has a setting for it.
_LEAVING = {
    "selfplay": 10,
    "trainer": 20,
    "evaluator": 10,
    "autoscaler": 10,
    "dashboard": 5,
    "migrate": 0,
    "postgres": 30,
    "redis": 1,
}
_KILLED = ("tools",)  # only sleeps, so it may be killed
_OUTSIDE_IMAGES = {"postgres", "redis"}
_ON_GPUS = {"inference", "trainer"}
CUDA = "-cuda"  # tag suffix of the trainer's image with CUDA, which has the same build target

# Variables that make a process open connections: the port, and the service that listens there.
_NEEDS = {
    "ZEROFLEET_DATABASE_URL": (5432, "postgres"),
    "ZEROFLEET_REDIS_URL": (6379, "redis"),
    "ZEROFLEET_INFERENCE_ADDRESS": (8001, "inference"),
    "ZEROFLEET_MODEL_STORE": (443, ""),
}
_SPEAK_GRPC = ("inference", "selfplay", "evaluator", "dashboard", "autoscaler", "tools")
_BOUNDS = {
    "selfplay": "scaling.max_workers",
    "inference": "scaling.max_inference",
}


def every_pod_is_restricted(fleet: Manifests) -> Iterator[str]:
    """Check the rules of Pod Security "restricted", and our own, that checkov lacks."""
    for workload in fleet.workloads:
        pod, container = workload.pod, workload.container
        if not pod["securityContext"].get("runAsNonRoot"):
            yield f"{workload.name} may run as root"
        if "hostUsers" in pod or "initContainers" in pod:
            yield f"{workload.name} has what these rules do not look at"
        if set(container["securityContext"]) & {"runAsUser", "procMount"}:
            yield f"{workload.name} has what these rules do not look at"
        for key in ("runAsGroup", "fsGroup"):
            if pod["securityContext"].get(key, 0) < 10_000:
                yield f"{workload.name}: {key} is not 10000 or above"
        if pod.get("enableServiceLinks") is not False:
            yield f"{workload.name} gets variables that Services are named by"
        for volume in workload.volumes.values():
            if not (set(volume) - {"name"}) <= _VOLUMES:
                yield f"{workload.name} has the volume {volume}"
            if "emptyDir" in volume and "sizeLimit" not in volume["emptyDir"]:
                yield f"{workload.name}: the emptyDir {volume['name']} has no limit"


def every_pod_states_its_resources(fleet: Manifests) -> Iterator[str]:
    for workload in fleet.workloads:
        resources = workload.container["resources"]
        requests, limits = resources["requests"], resources["limits"]
        for name in ("cpu", "memory", "ephemeral-storage"):
            if name not in requests or name not in limits:
                yield f"{workload.name} states no {name}"
            elif _quantity(requests[name]) > _quantity(limits[name]):
                yield f"{workload.name} requests more {name} than its limit"
        for volume in workload.volumes.values():
            size = volume.get("emptyDir", {}).get("sizeLimit", "0")
            is_memory = "medium" in volume.get("emptyDir", {})
            if not is_memory and _quantity(size) > _quantity(limits["ephemeral-storage"]):
                yield f"{workload.name}: {volume['name']} is larger than the ephemeral-storage"


def a_gpu_goes_with_an_image_that_uses_it(fleet: Manifests) -> Iterator[str]:
    for workload in fleet.workloads:
        limits = workload.container["resources"]["limits"]
        others = set(limits) - {"cpu", "memory", "ephemeral-storage"}
        image = workload.container["image"]
        is_gpu_image = "zerofleet-inference-gpu:" in image or image.endswith(CUDA)
        if others and (workload.name not in _ON_GPUS or others != {"nvidia.com/gpu"}):
            yield f"{workload.name} has limits on {others}"
        if bool(others) != is_gpu_image:
            yield f"{workload.name} has the image {image} with {limits}"
        if others and not workload.pod.get("tolerations"):
            yield f"{workload.name} does not tolerate nodes that are kept for GPUs"


def probes_ask_ports_that_exist(fleet: Manifests) -> Iterator[str]:
    for workload in fleet.workloads:
        if workload.kind == "Job" or not workload.ports:
            continue
        if set(workload.probes) != {"startupProbe", "livenessProbe", "readinessProbe"}:
            yield f"{workload.name} has the probes {set(workload.probes)}"
        for name, probe in workload.probes.items():
            if probe.get("timeoutSeconds", 1) < 5:
                yield f"{workload.name}: {name} does not wait for a busy node"
            if "grpc" in probe:
                # Health has a port of its own, without TLS and without any other service.
                if probe["grpc"]["port"] != workload.ports.get("health"):
                    yield f"{workload.name}: {name} does not ask the port 'health'"
                service = probe["grpc"].get("service", "")
                # A missing model makes a replica unready, but must not kill it.
                if (service == "live") != (name != "readinessProbe"):
                    yield f"{workload.name}: {name} asks for '{service}'"
            elif "tcpSocket" in probe:
                if probe["tcpSocket"]["port"] not in workload.ports:
                    yield f"{workload.name}: {name} asks a port that does not exist"
            elif "exec" not in probe:
                yield f"{workload.name}: {name} asks nothing"


def grace_outlasts_the_leaving(fleet: Manifests) -> Iterator[str]:
    for workload in fleet.workloads:
        if workload.name in _KILLED:
            continue
        stop = workload.container.get("lifecycle", {}).get("preStop", {})
        sleep = stop.get("sleep", {}).get("seconds", 0)
        if workload.name == "inference":
            seconds = float(fleet.environment(workload)["ZEROFLEET_INFERENCE_DRAIN_SECONDS"])
            if not sleep:
                yield "inference leaves before its endpoints are gone"
        else:
            seconds = _LEAVING[workload.name]
        grace = workload.pod["terminationGracePeriodSeconds"]
        if grace < sleep + seconds + 10:
            yield f"{workload.name} leaves for {sleep + seconds} s and has {grace} s"


def tini_stays_the_first_process(fleet: Manifests) -> Iterator[str]:
    """Our images begin with tini, and a pod's ``command`` would replace it."""
    for workload in fleet.workloads:
        if workload.name in _OUTSIDE_IMAGES:
            continue
        if "command" in workload.container and workload.name not in _KILLED:
            yield f"{workload.name} begins with {workload.container['command']}"


def everything_named_exists(fleet: Manifests) -> Iterator[str]:
    for workload in fleet.workloads:
        for kind, name in fleet.references(workload):
            if fleet.get(kind, name) is None and (kind, name) not in fleet.made:
                yield f"{workload.name} names the {kind} {name}, which is nowhere"
        places = set(workload.volumes) | workload.claims
        for path, mount in workload.mounts.items():
            if mount["name"] not in places:
                yield f"{workload.name} mounts {mount['name']} at {path}, which is no volume"
        for name in places - {mount["name"] for mount in workload.mounts.values()}:
            yield f"{workload.name} has the volume {name} and mounts it nowhere"
        for role in workload.volumes.values():
            if "secret" in role and role["secret"].get("defaultMode") != 0o440:
                yield f"{workload.name}: others can read the secret {role['name']}"


def files_named_are_mounted(fleet: Manifests) -> Iterator[str]:
    """Every path that a container's settings name lies in a mount, and a Secret has its file."""
    known = {name: keys for (_, name), keys in fleet.made.items()}
    for each in fleet.of_kind("Secret", "ConfigMap"):
        known[each["metadata"]["name"]] = set(each["data"])
    for workload in fleet.workloads:
        words = [*fleet.environment(workload).values(), *workload.container.get("args", [])]
        paths = {path for word in words for path in re.findall(r"(?:^|(?<==))/[\w./-]+", word)}
        for path in sorted(paths):
            mounted = [point for point in workload.mounts if Path(path).is_relative_to(point)]
            if not mounted:
                yield f"{workload.name} is told of {path}, which is not mounted"
                continue
            mount = workload.mounts[max(mounted, key=len)]
            volume = workload.volumes.get(mount["name"], {})
            source = volume.get("secret", {}).get("secretName") or volume.get("configMap", {}).get(
                "name"
            )
            key = str(Path(path).relative_to(max(mounted, key=len)))
            if source and key != "." and key not in known.get(source, set()):
                yield f"{workload.name} is told of {path}, which {source} does not have"


def images_are_targets_of_the_dockerfile(fleet: Manifests) -> Iterator[str]:
    stages = re.findall(r"^FROM .+ AS (?:zerofleet-)?(\S+)$", DOCKERFILE.read_text(), re.MULTILINE)
    for workload in fleet.workloads:
        name, _, tag = workload.container["image"].rpartition("/")[2].partition(":")
        if name in _OUTSIDE_IMAGES:
            continue
        if name.removeprefix("zerofleet-") not in stages:
            yield f"{workload.name}: the Dockerfile has no target {name}"
        if tag.removesuffix(CUDA if workload.name == "trainer" else "") != __version__:
            yield f"{workload.name}: the image's tag is {tag}, but this is {__version__}"


def _quantity(text: str) -> float:
    found = re.fullmatch(r"([0-9.]+)(m|Ki|Mi|Gi|)", str(text))
    assert found, f"a quantity that these rules cannot read: {text}"
    return float(found[1]) * _UNITS[found[2]]


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
            # One address would mean one connection, to one replica, forever.
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
    """Each flow is allowed at both ends, and its receiver listens on the port."""
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
    """TLS is on everywhere, or off with a statement; tokens are sent where they are required."""
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
    """Flows that NetworkPolicies allow, within this namespace and to or from outside."""
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


@dataclass(frozen=True)
class Scaler:
    """An HPA, or a ScaledObject, from which KEDA makes an HPA."""

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
        # A scaler or `kubectl scale` sets the replicas.
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
