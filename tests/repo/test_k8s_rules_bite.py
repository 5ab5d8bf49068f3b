"""Each rule about manifests refuses what it is there for, by the damages of ``damages.yaml``."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.repo.k8s import pods, settings
from tests.repo.k8s.manifests import Document, Manifests
from tests.repo.test_k8s_manifests import RULES, secret_keys, to_be_made

ABBREVIATIONS = {
    "POD": "spec.template.spec",
    "CONTAINER": "spec.template.spec.containers.0",
    "HPA": "spec.advanced.horizontalPodAutoscalerConfig.behavior",
}
TARGETS = {"selfplay", "inference", "trainer", "evaluator", "autoscaler", "dashboard", "tools"}
DAMAGES = yaml.safe_load((Path(__file__).parent / "k8s" / "damages.yaml").read_text())


def test_every_rule_has_a_damage() -> None:
    assert {rule.__name__ for rule in RULES} <= {damage[0] for damage in DAMAGES}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: f"{damage[0]}-{damage[2]}")
def test_a_damage_is_found(fleets: dict[str, Manifests], damage: list[Any]) -> None:
    rule, name, path, value, words = damage
    damaged = Manifests(copy.deepcopy(fleets["production"].documents))
    document = damaged.get(*name.split("/"))
    assert document is not None
    put(document, path, value)
    assert list(complaints(rule, fleets["production"])) == []
    found = list(complaints(rule, damaged))
    assert any(words in each for each in found), found


def test_settings_that_a_process_would_refuse_are_found(
    fleets: dict[str, Manifests], tmp_path: Path
) -> None:
    damaged = Manifests(copy.deepcopy(fleets["production"].documents))
    document = damaged.get("Deployment", "inference")
    assert document is not None
    put(document, "CONTAINER.env.ZEROFLEET_INFERENCE__SESSIONS.value", "none")
    (complaint,) = settings.every_process_reads_what_it_is_told(damaged, tmp_path)
    assert "ZEROFLEET_INFERENCE__SESSIONS" in complaint


def complaints(rule: str, fleet: Manifests) -> Iterable[str]:
    """What a rule says; some want to know more than the manifests."""
    if rule == "everything_named_exists":
        return pods.everything_named_exists(fleet, to_be_made("production"))
    if rule == "files_named_are_mounted":
        return pods.files_named_are_mounted(fleet, secret_keys("production"))
    if rule == "images_are_targets_of_the_dockerfile":
        return pods.images_are_targets_of_the_dockerfile(fleet, TARGETS)
    return next(each for each in RULES if each.__name__ == rule)(fleet)


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
