"""Rendered manifests as Python values, with the questions that the rules ask of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

Document = dict[str, Any]
_WORKLOADS = ("Deployment", "StatefulSet", "Job")


@dataclass(frozen=True)
class Workload:
    """A Deployment, StatefulSet or Job; all of ours have one container."""

    document: Document

    @property
    def name(self) -> str:
        return self.document["metadata"]["name"]

    @property
    def kind(self) -> str:
        return self.document["kind"]

    @property
    def labels(self) -> dict[str, str]:
        return self.document["spec"]["template"]["metadata"]["labels"]

    @property
    def pod(self) -> Document:
        return self.document["spec"]["template"]["spec"]

    @property
    def container(self) -> Document:
        (container,) = self.pod["containers"]
        return container

    @property
    def ports(self) -> dict[str, int]:
        """Port numbers by name."""
        return {port["name"]: port["containerPort"] for port in self.container.get("ports", [])}

    @property
    def probes(self) -> dict[str, Document]:
        return {key: value for key, value in self.container.items() if key.endswith("Probe")}

    @property
    def volumes(self) -> dict[str, Document]:
        return {volume["name"]: volume for volume in self.pod.get("volumes", [])}

    @property
    def mounts(self) -> dict[str, Document]:
        """Mounts by their path."""
        return {mount["mountPath"]: mount for mount in self.container.get("volumeMounts", [])}

    @property
    def claims(self) -> set[str]:
        """Names of volumes that a StatefulSet has made for each pod."""
        templates = self.document["spec"].get("volumeClaimTemplates", [])
        return {template["metadata"]["name"] for template in templates}


@dataclass(frozen=True)
class Manifests:
    """All that one overlay renders to."""

    documents: list[Document]
    made: dict[tuple[str, str], set[str]]
    """Objects that are made apart from the overlay, by kind and name, and the keys they have."""

    @classmethod
    def read(cls, path: Path, made: dict[tuple[str, str], set[str]]) -> Manifests:
        documents = [each for each in yaml.safe_load_all(path.read_text()) if each]
        certificates = [each for each in documents if each["kind"] == "Certificate"]
        issued = {
            ("Secret", each["spec"]["secretName"]): {"tls.crt", "tls.key", "ca.crt"}
            for each in certificates
        }
        return cls(documents, {**made, **issued})

    def of_kind(self, *kinds: str) -> list[Document]:
        return [each for each in self.documents if each["kind"] in kinds]

    def names(self, *kinds: str) -> set[str]:
        return {each["metadata"]["name"] for each in self.of_kind(*kinds)}

    def get(self, kind: str, name: str) -> Document | None:
        found = (each for each in self.of_kind(kind) if each["metadata"]["name"] == name)
        return next(found, None)

    @cached_property
    def workloads(self) -> list[Workload]:
        return [Workload(each) for each in self.of_kind(*_WORKLOADS)]

    def workload(self, name: str) -> Workload | None:
        return next((each for each in self.workloads if each.name == name), None)

    def selected(self, selector: Document) -> list[Workload]:
        """The workloads whose pods a label selector selects; ``{}`` selects all."""
        return [each for each in self.workloads if matches(selector, each.labels)]

    def environment(self, workload: Workload) -> dict[str, str]:
        """Return the environment of the container's process, as the kubelet assembles it.

        Raises:
            KeyError: a variable refers to a ConfigMap's key that is not there.
        """
        values: dict[str, str] = {}
        for entry in workload.container.get("env", []):
            if "value" in entry:
                values[entry["name"]] = _expanded(entry["value"], values)
                continue
            reference = entry["valueFrom"]["configMapKeyRef"]
            config_map = self.get("ConfigMap", reference["name"]) or {}
            if reference["key"] in config_map.get("data", {}):
                values[entry["name"]] = config_map["data"][reference["key"]]
            elif not reference.get("optional"):
                raise KeyError(f"ConfigMap {reference['name']} has no {reference['key']}")
        return values

    def references(self, workload: Workload) -> Iterator[tuple[str, str]]:
        """Kind and name of each object that its pods name."""
        for volume in workload.volumes.values():
            for field, kind, key in (
                ("secret", "Secret", "secretName"),
                ("configMap", "ConfigMap", "name"),
                ("persistentVolumeClaim", "PersistentVolumeClaim", "claimName"),
            ):
                if field in volume:
                    yield kind, volume[field][key]
        for entry in workload.container.get("env", []):
            if "configMapKeyRef" in entry.get("valueFrom", {}):
                yield "ConfigMap", entry["valueFrom"]["configMapKeyRef"]["name"]
        yield "ServiceAccount", workload.pod["serviceAccountName"]
        yield "PriorityClass", workload.pod["priorityClassName"]
        if workload.kind == "StatefulSet":
            yield "Service", workload.document["spec"]["serviceName"]


def matches(selector: Document, labels: dict[str, str]) -> bool:
    """Whether a label selector selects what has these labels."""
    wanted = selector.get("matchLabels", {})
    for expression in selector.get("matchExpressions", []):
        if expression["operator"] != "In":
            raise ValueError(f"an operator that the rules do not know: {expression}")
        if labels.get(expression["key"]) not in expression["values"]:
            return False
    return all(labels.get(key) == value for key, value in wanted.items())


def _expanded(value: str, known: dict[str, str]) -> str:
    """``$(NAME)`` replaced by variables that come before; what is not known stays as it is."""
    for name, each in known.items():
        value = value.replace(f"$({name})", each)
    return value
