"""The manifests in deploy/: they can be read, fit together, and allow what the programs do and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from bayplan.cluster.controller import access as controller
from bayplan.cluster.extender import access as extender
from bayplan.cluster.rights import Right

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
FILES = sorted(DEPLOY.rglob("*.yaml"))
NAMESPACE = "bayplan-system"
Json = dict[str, Any]


def objects(*kinds: str) -> list[Json]:
    found = [document for file in FILES for document in yaml.safe_load_all(file.read_text()) if document]
    return [each for each in found if not kinds or each["kind"] in kinds]


def named(kind: str, name: str) -> Json:
    (found,) = [each for each in objects(kind) if each["metadata"]["name"] == name]
    return found


def granted(role: Json) -> set[tuple[str, str, str]]:
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def needed(rights: Iterable[Right], *, own_namespace: bool) -> set[tuple[str, str, str]]:
    return {(each.group, each.resource, each.verb) for each in rights if each.own_namespace == own_namespace}


@pytest.mark.parametrize("file", FILES, ids=[str(file.relative_to(DEPLOY)) for file in FILES])
def test_every_file_can_be_read(file: Path) -> None:
    documents = list(yaml.safe_load_all(file.read_text()))
    assert documents
    assert all(document["apiVersion"] and document["kind"] for document in documents)


@pytest.mark.parametrize(
    ("role", "rights"),
    [
        ("bayplan-controller", controller.RIGHTS),
        ("bayplan-controller-evictions", controller.EVICTION_RIGHTS),
        ("bayplan-extender", extender.RIGHTS),
    ],
)
def test_a_role_allows_what_its_program_does_and_nothing_else(role: str, rights: tuple[Right, ...]) -> None:
    assert granted(named("ClusterRole", role)) == needed(rights, own_namespace=False)


def test_the_lease_is_in_the_programs_own_namespace() -> None:
    role = named("Role", "bayplan-leader")
    assert role["metadata"]["namespace"] == NAMESPACE
    for rights in (controller.RIGHTS, extender.RIGHTS):
        assert granted(role) == needed(rights, own_namespace=True)


def test_every_role_is_bound_to_accounts_that_exist() -> None:
    accounts = {each["metadata"]["name"] for each in objects("ServiceAccount")}
    roles = {(each["kind"], each["metadata"]["name"]) for each in objects("Role", "ClusterRole")}
    bindings = objects("RoleBinding", "ClusterRoleBinding")
    assert {(each["roleRef"]["kind"], each["roleRef"]["name"]) for each in bindings} == roles
    for binding in bindings:
        for subject in binding["subjects"]:
            assert subject["name"] in accounts
            assert subject["namespace"] == NAMESPACE
    for deployment in objects("Deployment"):
        assert deployment["spec"]["template"]["spec"]["serviceAccountName"] in accounts


def test_services_and_budgets_select_pods_of_a_deployment() -> None:
    labels = [each["spec"]["template"]["metadata"]["labels"] for each in objects("Deployment")]
    selectors = [each["spec"]["selector"] for each in objects("Service") if "selector" in each["spec"]]
    selectors += [each["spec"]["selector"]["matchLabels"] for each in objects("PodDisruptionBudget")]
    assert len(selectors) == 5
    assert all(any(selector.items() <= each.items() for each in labels) for selector in selectors)
    ports = {"tas-service", "gas-service"}
    assert ports <= {each["metadata"]["name"] for each in objects("Service")}
    for service in objects("Service"):
        assert "selector" not in service["spec"] or service["metadata"]["namespace"] == NAMESPACE


def test_more_than_one_replica_and_a_budget_that_can_be_met() -> None:
    for deployment in objects("Deployment"):
        budget = named("PodDisruptionBudget", deployment["metadata"]["name"])
        assert deployment["spec"]["replicas"] > budget["spec"]["minAvailable"] >= 1


def test_schedulers_are_not_told_to_go_on_without_an_extender_that_binds() -> None:
    configurations = objects("KubeSchedulerConfiguration")
    assert len(configurations) == 2
    for extender_ in (each for configuration in configurations for each in configuration["extenders"]):
        assert extender_["nodeCacheCapable"] is True
        assert extender_["ignorable"] is False
        service = extender_["urlPrefix"].removeprefix("https://").partition(".")[0]
        assert named_in(NAMESPACE, "Service", service)


def named_in(namespace: str, kind: str, name: str) -> bool:
    return any(e["metadata"]["name"] == name and e["metadata"]["namespace"] == namespace for e in objects(kind))
