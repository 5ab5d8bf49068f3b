"""Rules about pods: Pod Security "restricted" and beyond, probes, resources, grace, references."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.repo.k8s.manifests import Manifests, Workload
from zerofleet import __version__

ROOT = Path(__file__).resolve().parents[3]

_LEAST_USER = 10_000
# Pod Security's list for "restricted", without what nothing of ours has a use for.
_VOLUMES = {"configMap", "emptyDir", "persistentVolumeClaim", "secret"}
_UNITS = {"": 1, "m": 1e-3, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
# Seconds that each may take to leave after SIGTERM; inference's are its own setting.
_LEAVING = {
    "selfplay": 10,
    "trainer": 20,
    "evaluator": 10,
    "autoscaler": 10,
    "dashboard": 5,
    "migrate": 0,
}
_STORES = {"postgres": 30, "redis": 1}
_KILLED = ("tools",)  # sleeps, and has nothing to end
_OUTSIDE_IMAGES = {"postgres", "redis"}
_ON_GPUS = {"inference", "trainer"}
CUDA = "-cuda"  # ends the tag of the trainer's image with CUDA: it is of the same target


def every_pod_is_restricted(fleet: Manifests) -> Iterator[str]:
    for workload in fleet.workloads:
        for complaint in _unrestricted(workload):
            yield f"{workload.name}: {complaint}"


def _unrestricted(workload: Workload) -> Iterator[str]:
    pod, container = workload.pod, workload.container
    security, own = pod.get("securityContext", {}), container.get("securityContext", {})
    for key in ("hostNetwork", "hostPID", "hostIPC", "hostUsers"):
        if key in pod:
            yield f"has {key}"
    if not security.get("runAsNonRoot"):
        yield "may run as root"
    for key in ("runAsUser", "runAsGroup", "fsGroup"):
        if security.get(key, 0) < _LEAST_USER:
            yield f"{key} is not {_LEAST_USER} or above"
    if security.get("seccompProfile") != {"type": "RuntimeDefault"}:
        yield "has no seccomp profile"
    if own.get("allowPrivilegeEscalation") is not False:
        yield "may gain privileges"
    if own.get("capabilities") != {"drop": ["ALL"]}:
        yield "keeps capabilities"
    if own.get("readOnlyRootFilesystem") is not True:
        yield "may write to its root"
    if set(own) & {"privileged", "runAsUser", "procMount"} or "initContainers" in pod:
        yield "has what these rules do not look at"
    if pod.get("automountServiceAccountToken") is not False:
        yield "has a token of the cluster"
    if pod.get("enableServiceLinks") is not False:
        yield "gets variables that Services are named by"
    for volume in workload.volumes.values():
        if not (set(volume) - {"name"}) <= _VOLUMES:
            yield f"has the volume {volume}"
        if "emptyDir" in volume and "sizeLimit" not in volume["emptyDir"]:
            yield f"the emptyDir {volume['name']} has no limit"
    if any("hostPort" in port for port in container.get("ports", [])):
        yield "has a port of the node"


def every_pod_states_its_resources(fleet: Manifests) -> Iterator[str]:
    for workload in fleet.workloads:
        resources = workload.container.get("resources", {})
        requests, limits = resources.get("requests", {}), resources.get("limits", {})
        for name in ("cpu", "memory", "ephemeral-storage"):
            if name not in requests or name not in limits:
                yield f"{workload.name} states no {name}"
            elif _quantity(requests[name]) > _quantity(limits[name]):
                yield f"{workload.name} requests more {name} than its limit"
        for volume in workload.volumes.values():
            directory = volume.get("emptyDir", {})
            if "medium" in directory or not directory:
                continue
            if _quantity(directory["sizeLimit"]) > _quantity(limits["ephemeral-storage"]):
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
                # Health is on a port of its own: without TLS, with nothing else on it.
                if probe["grpc"]["port"] != workload.ports.get("health"):
                    yield f"{workload.name}: {name} does not ask the port 'health'"
                service = probe["grpc"].get("service", "")
                # A model that is missing makes a replica unready, and must not kill it.
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
            seconds = {**_LEAVING, **_STORES}[workload.name]
        grace = workload.pod["terminationGracePeriodSeconds"]
        if grace < sleep + seconds + 10:
            yield f"{workload.name} leaves for {sleep + seconds} s and has {grace} s"


def tini_stays_the_first_process(fleet: Manifests) -> Iterator[str]:
    """Every image of ours begins with it, and ``command`` replaces what an image begins with."""
    for workload in fleet.workloads:
        if workload.name in _OUTSIDE_IMAGES:
            continue
        if "command" in workload.container and workload.name not in _KILLED:
            yield f"{workload.name} begins with {workload.container['command']}"


def everything_named_exists(fleet: Manifests, to_be_made: set[tuple[str, str]]) -> Iterator[str]:
    made = {("Secret", name) for name in _certificates(fleet)}
    for workload in fleet.workloads:
        for kind, name in fleet.references(workload):
            if fleet.get(kind, name) is None and (kind, name) not in to_be_made | made:
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


def files_named_are_mounted(fleet: Manifests, keys: dict[str, set[str]]) -> Iterator[str]:
    """Each path that a container is told of lies in a mount, and a file of a Secret is in it.

    Args:
        fleet: what is looked at.
        keys: those of Secrets that people make, by name.
    """
    known = {**keys, **{name: {"tls.crt", "tls.key", "ca.crt"} for name in _certificates(fleet)}}
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


def _certificates(fleet: Manifests) -> set[str]:
    return {each["spec"]["secretName"] for each in fleet.of_kind("Certificate")}


def images_are_targets_of_the_dockerfile(fleet: Manifests, targets: set[str]) -> Iterator[str]:
    for workload in fleet.workloads:
        name, _, tag = workload.container["image"].rpartition("/")[2].partition(":")
        if name in _OUTSIDE_IMAGES:
            continue
        if name.removeprefix("zerofleet-") not in {t.removeprefix("zerofleet-") for t in targets}:
            yield f"{workload.name}: the Dockerfile has no target {name}"
        if tag.removesuffix(CUDA if workload.name == "trainer" else "") != __version__:
            yield f"{workload.name}: the image's tag is {tag}, but this is {__version__}"


def _quantity(text: str) -> float:
    found = re.fullmatch(r"([0-9.]+)(m|Ki|Mi|Gi|)", str(text))
    assert found, f"a quantity that these rules cannot read: {text}"
    return float(found[1]) * _UNITS[found[2]]
