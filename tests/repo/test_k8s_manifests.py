"""Every overlay, in every way its comments offer, keeps the rules that no scanner knows."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable
from inspect import isgeneratorfunction
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.repo.conftest import VARIANTS
from tests.repo.k8s import rules, settings
from tests.repo.k8s.manifests import Document, Manifests
from tests.repo.k8s.schemas import SCHEMAS

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "k8s"

# Kinds of Kubernetes itself, whose schemas `make check-deploy` checks; all others need one of ours.
CORE = ("v1", "apps/v1", "batch/v1", "policy/v1", "autoscaling/v2", "networking.k8s.io/v1")
SCHEDULING = "scheduling.k8s.io/v1"
CLUSTER_WIDE = ("Namespace", "PriorityClass")

Rule = Callable[[Manifests], Iterable[str]]
RULES: dict[str, Rule] = {
    name: rule
    for module in (rules, settings)
    for name, rule in vars(module).items()
    if isgeneratorfunction(rule) and not name.startswith("_")
}
ABBREVIATIONS = {
    "POD": "spec.template.spec",
    "CONTAINER": "spec.template.spec.containers.0",
    "HPA": "spec.advanced.horizontalPodAutoscalerConfig.behavior",
}
DAMAGES = yaml.safe_load((Path(__file__).parent / "k8s" / "damages.yaml").read_text())

of_each_variant = pytest.mark.parametrize("variant", VARIANTS)


@of_each_variant
@pytest.mark.parametrize("rule", RULES)
def test_the_rules_are_kept(fleets: dict[str, Manifests], variant: str, rule: str) -> None:
    assert list(RULES[rule](fleets[variant])) == []


def test_every_rule_has_a_damage() -> None:
    assert RULES.keys() == {damage[0] for damage in DAMAGES}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: f"{damage[0]}-{damage[2]}")
def test_a_damage_is_found(fleets: dict[str, Manifests], damage: list[Any]) -> None:
    rule, name, path, value, words = damage
    whole = fleets["production"]
    damaged = Manifests(copy.deepcopy(whole.documents), whole.made)
    document = damaged.get(*name.split("/"))
    assert document is not None
    put(document, path, value)
    found = list(RULES[rule](damaged))
    assert any(words in each for each in found), found


def test_gpus_are_for_inference_and_the_trainer_where_they_are_asked_for(
    fleets: dict[str, Manifests],
) -> None:
    with_gpu = {
        variant: {
            workload.name
            for workload in fleet.workloads
            if workload.container["resources"]["limits"].get("nvidia.com/gpu") == "1"
        }
        for variant, fleet in fleets.items()
    }
    assert with_gpu.pop("production-gpu") == {"inference", "trainer"}
    assert not set().union(*with_gpu.values())
    trainer = fleets["production-gpu"].workload("trainer")
    assert trainer is not None
    # The registry's name is put before it, and the tag stays.
    assert re.fullmatch(r".+/zerofleet-trainer:[\d.]+-cuda", trainer.container["image"])


def test_scalers_are_where_they_are_asked_for(fleets: dict[str, Manifests]) -> None:
    kinds = {"ScaledObject": "keda", "HorizontalPodAutoscaler": "hpa"}
    found = {
        variant: {name for kind, name in kinds.items() if fleet.names(kind)}
        for variant, fleet in fleets.items()
    }
    assert found == {
        "local": set(),
        "local-hpa": {"hpa"},
        "local-keda": {"keda"},
        "local-tls": set(),
        "local-tls-hpa": {"hpa"},
        "production": {"keda"},
        "production-gpu": {"keda"},
        "production-hpa": {"hpa"},
    }


@of_each_variant
def test_kinds_of_operators_fit_their_schemas(fleets: dict[str, Manifests], variant: str) -> None:
    for document in fleets[variant].documents:
        if document["apiVersion"] not in (*CORE, SCHEDULING):
            check_schema(document)


def test_a_typo_in_an_operators_kind_is_refused(fleets: dict[str, Manifests]) -> None:
    scaled = fleets["production"].of_kind("ScaledObject")[0]
    misspelt = {**scaled, "spec": {**scaled["spec"], "minReplicas": 1}}
    with pytest.raises(jsonschema.ValidationError, match="minReplicas"):
        check_schema(misspelt)


@of_each_variant
def test_all_is_in_one_namespace_with_pod_security(
    fleets: dict[str, Manifests], variant: str
) -> None:
    fleet = fleets[variant]
    (namespace,) = fleet.of_kind("Namespace")
    for mode in ("enforce", "audit", "warn"):
        label = namespace["metadata"]["labels"][f"pod-security.kubernetes.io/{mode}"]
        assert label == "restricted"
    name = namespace["metadata"]["name"]
    for document in fleet.documents:
        inside = document["metadata"].get("namespace")
        assert inside == (None if document["kind"] in CLUSTER_WIDE else name), document


def test_every_component_is_rendered_somewhere() -> None:
    listed = "\n".join(path.read_text() for path in FOLDER.rglob("kustomization.yaml"))
    ways = re.findall(r"or (autoscaling-[a-z]+)", listed)  # each of which is a variant
    used = {*re.findall(r"- (?:\.\./)+(?:components/)?([a-z-]+)", listed), *ways}
    assert {path.name for path in (FOLDER / "components").iterdir()} <= used


def check_schema(document: Document) -> None:
    """Raise where an operator would refuse the document, or overlook a part of it."""
    jsonschema.Draft202012Validator(SCHEMAS[document["kind"]]).validate(document)


def put(document: Document, path: str, value: Any) -> None:
    """Set what a dotted path names, or remove it."""
    first, _, rest = path.partition(".")
    *before, last = f"{ABBREVIATIONS.get(first, first)}.{rest}".split(".")
    place: Any = document
    for key in before:
        place = place[_index(place, key)]
    if value == "GONE":
        del place[_index(place, last)]
    else:
        place[_index(place, last)] = value


def _index(place: Any, key: str) -> Any:
    if not isinstance(place, list):
        return key
    names = [str(each.get("name")) for each in place]
    return int(key) if key.isdigit() else names.index(key)
