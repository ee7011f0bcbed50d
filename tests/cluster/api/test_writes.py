"""Binds, evictions and patches: of this very object, whole or not at all, and safe to ask for twice."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.cluster.api import (
    NODES,
    PODS,
    AlreadyBoundError,
    Api,
    ConflictError,
    Eviction,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    ObjectRef,
    Outcome,
    TooManyRequestsError,
    UnavailableError,
    bind,
    evict,
    patch_metadata,
    patch_status,
)

pytestmark = pytest.mark.anyio

POD = ObjectRef(namespace="ns", name="p", uid="u1")
PATH = "/api/v1/namespaces/ns/pods/p"
CONFLICT = {"kind": "Status", "reason": "Conflict", "message": "pod p is already assigned to node n1"}
CARDS = {"gas-container-cards": "card0"}


def pod(uid: str = "u1", node: str = "", annotations: dict[str, str] | None = None) -> dict[str, Any]:
    meta = {"namespace": "ns", "name": "p", "uid": uid, "annotations": annotations}
    return {"metadata": meta, "spec": {"nodeName": node}}


async def test_a_bind_is_one_request(emulated: Api, answer: Any, emulator: Any) -> None:
    answer(f"post {PATH}/binding", (201, {"kind": "Status", "status": "Success"}))
    await bind(emulated, POD, "n1", CARDS)
    assert len(emulator) == 1
    assert emulator[0].data == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": "ns", "name": "p", "uid": "u1", "annotations": CARDS},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }


@pytest.mark.parametrize("refusal", [(409, CONFLICT), (500, {"message": "etcd timed out"})])
@pytest.mark.parametrize("others", [{}, {"else": "x"}])
async def test_bound_so_already_is_a_success(
    refusal: tuple[Any, ...], others: dict[str, str], emulated: Api, answer: Any
) -> None:
    answer(f"post {PATH}/binding", refusal)
    answer(f"get {PATH}", (200, pod(node="n1", annotations={**CARDS, **others})))
    await bind(emulated, POD, "n1", CARDS)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (pod(node="n2", annotations=CARDS), "ns/p is bound to n2 already"),
        (pod(node="n1", annotations={"gas-container-cards": "card7"}), "ns/p is bound to n1 already, with other"),
        (pod(node="n1"), "ns/p is bound to n1 already, with other annotations"),
    ],
    ids=["another node", "other cards", "no cards"],
)
async def test_bound_otherwise_says_how(found: dict[str, Any], said: str, emulated: Api, answer: Any) -> None:
    answer(f"post {PATH}/binding", (409, CONFLICT))
    answer(f"get {PATH}", (200, found))
    with pytest.raises(AlreadyBoundError, match=said) as already:
        await bind(emulated, POD, "n1", CARDS)
    assert already.value.node == found["spec"]["nodeName"]
    assert already.value.annotations == (found["metadata"]["annotations"] or {})


async def test_another_pod_of_the_name_is_not_bound(emulated: Api, answer: Any) -> None:
    answer(f"post {PATH}/binding", (409, {"kind": "Status", "reason": "Conflict", "message": "UID in precondition"}))
    answer(f"get {PATH}", (200, pod(uid="u2", node="n1", annotations=CARDS)))
    with pytest.raises(NotFoundError, match="ns/p is another pod now, of UID u2"):
        await bind(emulated, POD, "n1", CARDS)


async def test_a_pod_that_is_gone(emulated: Api, answer: Any) -> None:
    answer(f"post {PATH}/binding", (409, CONFLICT))
    answer(f"get {PATH}", (404, {"message": "not found"}))
    with pytest.raises(NotFoundError):
        await bind(emulated, POD, "n1")


async def test_what_is_not_known_is_said_to_be_unknown(emulated: Api, answer: Any) -> None:
    answer(f"post {PATH}/binding", (500, {"message": "etcd timed out"}), (500, {"message": "etcd timed out"}))
    answer(f"get {PATH}", (500, {"message": "still away"}), (200, pod()))
    for _ in range(2):
        with pytest.raises(UnavailableError, match="etcd timed out"):
            await bind(emulated, POD, "n1")


async def test_a_conflict_of_a_pod_that_is_not_bound(emulated: Api, answer: Any) -> None:
    answer(f"post {PATH}/binding", (409, {"message": "pod p is being deleted"}))
    answer(f"get {PATH}", (200, pod()))
    with pytest.raises(ConflictError, match="is being deleted"):
        await bind(emulated, POD, "n1")


async def test_an_eviction_is_of_this_very_pod(emulated: Api, answer: Any, emulator: Any) -> None:
    answer(f"post {PATH}/eviction", (201, {}))
    assert await evict(emulated, POD, grace_s=0, dry_run=True) == Eviction(outcome=Outcome.EVICTED)
    assert emulator[0].data == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": "ns", "name": "p"},
        "deleteOptions": {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": "u1"},
            "gracePeriodSeconds": 0,
            "dryRun": ["All"],
        },
    }


async def test_a_budget_is_an_answer(emulated: Api, answer: Any) -> None:
    details = {"causes": [{"reason": "DisruptionBudget", "message": "needs 2"}], "retryAfterSeconds": 10}
    answer(f"post {PATH}/eviction", (429, {"kind": "Status", "message": "Cannot evict pod", "details": details}))
    said = await evict(emulated, POD)
    assert said == Eviction(outcome=Outcome.BUDGET, message="Cannot evict pod needs 2", retry_after_s=10)


@pytest.mark.parametrize("found", [(404, {}), (200, pod(uid="u2"))], ids=["none", "another"])
@pytest.mark.parametrize("refusal", [(409, CONFLICT), (504, {"message": "timed out"})])
async def test_who_is_gone_need_not_be_evicted(
    refusal: tuple[Any, ...], found: tuple[Any, ...], emulated: Api, answer: Any
) -> None:
    answer(f"post {PATH}/eviction", refusal, (404, {"message": "pod not found"}))
    answer(f"get {PATH}", found)
    assert (await evict(emulated, POD)).outcome is Outcome.GONE
    assert (await evict(emulated, POD)).outcome is Outcome.GONE


async def test_other_refusals_of_an_eviction_are_errors(emulated: Api, answer: Any) -> None:
    load = (429, {"message": "too many requests"}, {"Retry-After": "60"})
    two_budgets = (500, {"message": "This pod has more than one PodDisruptionBudget"})
    answer(f"post {PATH}/eviction", (403, {}), load, two_budgets, (409, CONFLICT))
    answer(f"get {PATH}", (200, pod()), (200, pod()))
    for kind in (ForbiddenError, TooManyRequestsError, UnavailableError, ConflictError):
        with pytest.raises(kind):
            await evict(emulated, POD)


async def test_labels_are_set_and_taken_away_in_one_patch(emulated: Api, emulator: Any) -> None:
    emulator.resources["v1/nodes"] = {}
    await emulated.post(NODES.path(), {"metadata": {"name": "n", "labels": {"old": "1", "others": "2"}}})
    ref = ObjectRef(name="n")
    await patch_metadata(emulated, NODES, ref, labels={"new": "3", "old": None, "never": None})
    await patch_metadata(emulated, NODES, ref, annotations={"why": "hot"})
    await patch_metadata(emulated, NODES, ref, labels={}, annotations={})
    patches = [request.data for request in emulator["patch /api/v1/nodes/n"]]
    assert patches == [
        {"metadata": {"labels": {"new": "3", "old": None, "never": None}}},
        {"metadata": {"annotations": {"why": "hot"}}},
    ]


async def test_naming_another_uid_is_a_conflict(emulated: Api, answer: Any, emulator: Any) -> None:
    emulator.resources["v1/nodes"] = {}
    for name in "nm":
        await emulated.post(NODES.path(), {"metadata": {"name": name}})
    causes = [{"reason": "FieldValueInvalid", "message": "field is immutable", "field": "metadata.uid"}]
    answer("patch /api/v1/nodes/n", (422, {"kind": "Status", "message": "invalid", "details": {"causes": causes}}))
    answer("patch /api/v1/nodes/m", (422, {"kind": "Status", "message": "no label"}))
    with pytest.raises(ConflictError, match="PATCH /api/v1/nodes/n: 409 Conflict: invalid"):
        await patch_metadata(emulated, NODES, ObjectRef(name="n", uid="u"), labels={"a": "b"})
    with pytest.raises(InvalidError, match="no label"):
        await patch_metadata(emulated, NODES, ObjectRef(name="m", uid="u"), labels={"a": "b"})


async def test_a_patch_may_insist_on_the_object(emulated: Api, answer: Any, emulator: Any) -> None:
    emulator.resources["v1/pods"] = {}
    await emulated.post(PODS.path("ns"), pod())
    await patch_metadata(emulated, PODS, POD, labels={"a": "b"})
    await patch_status(emulated, PODS, POD, {"phase": "Failed"}, resource_version="7")
    await patch_status(emulated, PODS, ObjectRef(namespace="ns", name="p"), {"phase": "Failed"})
    assert [(request.url.path, request.data) for request in emulator["patch"]] == [
        (PATH, {"metadata": {"labels": {"a": "b"}, "uid": "u1"}}),
        (f"{PATH}/status", {"metadata": {"uid": "u1", "resourceVersion": "7"}, "status": {"phase": "Failed"}}),
        (f"{PATH}/status", {"status": {"phase": "Failed"}}),
    ]
