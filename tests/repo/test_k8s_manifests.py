"""Every overlay, in every way its comments offer, keeps the rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import jsonschema
import pytest

from tests.repo.conftest import VARIANTS
from tests.repo.k8s import network, pods, scaling, settings
from tests.repo.k8s.manifests import Document, Manifests
from tests.repo.k8s.schemas import SCHEMAS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "kubernetes.md"

# Kinds of Kubernetes itself, whose schemas `make check-deploy` checks; all others need one of ours.
CORE = ("v1", "apps/v1", "batch/v1", "policy/v1", "autoscaling/v2", "networking.k8s.io/v1")
SCHEDULING = "scheduling.k8s.io/v1"
CLUSTER_WIDE = ("Namespace", "PriorityClass")

Rule = Callable[[Manifests], Iterable[str]]
RULES: tuple[Rule, ...] = (
    pods.every_pod_is_restricted,
    pods.every_pod_states_its_resources,
    pods.a_gpu_goes_with_an_image_that_uses_it,
    pods.probes_ask_ports_that_exist,
    pods.grace_outlasts_the_leaving,
    pods.tini_stays_the_first_process,
    network.selectors_select,
    network.services_reach_ports_that_exist,
    network.addresses_are_services,
    network.all_is_denied_by_default,
    network.both_ends_of_each_flow_agree,
    network.pods_reach_what_they_need_and_no_more,
    network.grpc_is_safe,
    network.certificates_have_the_names_that_are_dialled,
    scaling.each_deployment_has_one_scaler_at_most,
    scaling.never_to_zero_and_never_in_jumps,
    scaling.bounds_are_the_autoscalers_own,
    scaling.the_autoscaler_is_where_keda_looks,
    settings.every_variable_means_something,
    settings.the_migration_waits_for_postgres,
    settings.stores_are_entered_by_the_right_role,
)

of_each_variant = pytest.mark.parametrize("variant", VARIANTS)


@of_each_variant
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_rules_are_kept(fleets: dict[str, Manifests], variant: str, rule: Rule) -> None:
    assert list(rule(fleets[variant])) == []


@of_each_variant
def test_what_pods_name_exists_or_is_to_be_made(fleets: dict[str, Manifests], variant: str) -> None:
    assert list(pods.everything_named_exists(fleets[variant], to_be_made(variant))) == []
    assert list(pods.files_named_are_mounted(fleets[variant], secret_keys(variant))) == []


@of_each_variant
def test_every_process_reads_what_it_is_told(
    fleets: dict[str, Manifests], variant: str, tmp_path: Path
) -> None:
    assert list(settings.every_process_reads_what_it_is_told(fleets[variant], tmp_path)) == []


@of_each_variant
def test_images_are_targets_of_the_dockerfile(fleets: dict[str, Manifests], variant: str) -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    targets = set(re.findall(r"^FROM .+ AS (\S+)$", dockerfile, flags=re.MULTILINE))
    assert list(pods.images_are_targets_of_the_dockerfile(fleets[variant], targets)) == []


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
    (trainer,) = (each for each in fleets["production-gpu"].workloads if each.name == "trainer")
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


def test_a_typo_in_an_operators_kind_is_refused(fleets: dict[str, Manifests]) -> None:
    scaled = fleets["production"].of_kind("ScaledObject")[0]
    misspelt = {**scaled, "spec": {**scaled["spec"], "minReplicas": 1}}
    with pytest.raises(jsonschema.ValidationError, match="minReplicas"):
        check_schema(misspelt)


def test_every_component_is_rendered_somewhere() -> None:
    folder = ROOT / "deploy" / "k8s"
    listed = "\n".join(path.read_text() for path in folder.rglob("kustomization.yaml"))
    ways = re.findall(r"or (autoscaling-[a-z]+)", listed)  # each of which is a variant
    used = {*re.findall(r"- (?:\.\./)+(?:components/)?([a-z-]+)", listed), *ways}
    assert {path.name for path in (folder / "components").iterdir()} <= used


def check_schema(document: Document) -> None:
    """Raise where an operator would refuse the document, or overlook a part of it."""
    jsonschema.Draft202012Validator(SCHEMAS[document["kind"]]).validate(document)


def to_be_made(variant: str) -> set[tuple[str, str]]:
    """What a person makes before, by the page's commands."""
    if variant.startswith("local"):
        return set()
    text = PAGE.read_text()
    secrets = re.findall(r"create secret generic ([\w-]+)", text)
    config_maps = re.findall(r"create configmap ([\w-]+)", text)
    return {("Secret", name) for name in secrets} | {("ConfigMap", name) for name in config_maps}


def secret_keys(variant: str) -> dict[str, set[str]]:
    """The keys of those, by name."""
    if variant.startswith("local"):
        return {}
    text = PAGE.read_text().replace("\\\n", " ")
    commands = re.findall(r"create (?:secret generic|configmap) ([\w-]+)(.*)", text)
    return {
        name: {
            key.rpartition("/")[2]
            for key in re.findall(r"--from-file=([\w.-]+)(?==)|--from-file=(\S+)", rest)
            for key in key
            if key
        }
        for name, rest in commands
    }
