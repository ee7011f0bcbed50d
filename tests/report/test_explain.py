from __future__ import annotations

import msgspec
import pytest

from bayplan.errors import InputError
from bayplan.fleet.plan import NodeRefusal, Plan
from bayplan.report.explain import explain
from bayplan.resources.decision import Refusal


@pytest.mark.parametrize("name", ["db-1", "default/db-1", "db-1/app", "default/db-1/app"])
def test_a_pod_is_found_by_any_of_its_names(small_plan: Plan, name: str) -> None:
    text = explain(small_plan, name)
    assert text.startswith("default/db-1")
    assert "runs on worker-1" in text


def test_each_step_tells_question_options_choice_and_rule(small_plan: Plan) -> None:
    text = explain(small_plan, "db-1/app")
    assert "app has the CPUs 4-5, 36-37 for itself, memory from node 0, 256 MiB of 2Mi on 0" in text
    assert "1. app: which NUMA nodes" in text
    assert "open were node 0 (preferred); nodes 0-1" in text
    assert "taken: node 0 (preferred), by topology-manager/best-effort" in text


def test_a_refusal_tells_rule_numbers_and_remedies(small_plan: Plan) -> None:
    text = explain(small_plan, "huge")
    for part in ("is refused", "40 CPUs", "by the rule topology-manager/restricted", "asked 40 CPUs, free 24 CPUs"):
        assert part in text
    assert "To make it fit: ask for at most 24 CPUs" in text
    assert "The only node was worker-1." in text


def test_every_other_node_gives_its_reason(small_plan: Plan) -> None:
    placement = small_plan.placements[-1]
    others = tuple(
        NodeRefusal(node=f"n{i}", refusal=Refusal(reason="TooFull", message=f"only {i} left", rule="fit"))
        for i in range(3)
    )
    told = msgspec.structs.replace(placement, elsewhere=others, refused_nodes={"TooFull": 900})
    text = explain(msgspec.structs.replace(small_plan, placements=(told,)), "huge")
    for i in range(3):
        assert f"  n{i}\n    TooFull: only {i} left" in text
    assert "All nodes together: TooFull on 900 nodes." in text


def test_an_unknown_name_offers_the_nearest(small_plan: Plan) -> None:
    with pytest.raises(
        InputError, match=r"no such pod or container in the plan: 'web-0/ngink' \(expected one of shop/web-0/nginx"
    ):
        explain(small_plan, "web-0/ngink")
    with pytest.raises(InputError, match="it holds none"):
        explain(Plan(nodes=(), placements=()), "x")


def test_a_name_of_several_pods_must_be_made_longer(small_plan: Plan) -> None:
    twin = small_plan.placements[0]
    twin = msgspec.structs.replace(twin, pod=msgspec.structs.replace(twin.pod, namespace="other"))
    plan = msgspec.structs.replace(small_plan, placements=(*small_plan.placements, twin))
    with pytest.raises(InputError, match=r"fits several: 'db-0' \(expected one of default/db-0, other/db-0\)"):
        explain(plan, "db-0")
    assert explain(plan, "other/db-0").startswith("other/db-0")


def test_a_namespace_that_is_also_a_pods_name_is_told_apart(small_plan: Plan) -> None:
    first = small_plan.placements[0]
    confusing = msgspec.structs.replace(first, pod=msgspec.structs.replace(first.pod, namespace="db-0", name="app"))
    plan = msgspec.structs.replace(small_plan, placements=(*small_plan.placements, confusing))
    with pytest.raises(InputError, match="one of default/db-0/app, db-0/app"):
        explain(plan, "db-0/app")
