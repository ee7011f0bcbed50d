"""The controller against an emulated API: what is written, how often, and what trouble does to it."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.cluster.api import UnavailableError
from bayplan.cluster.controller.access import EVICTION_RIGHTS, RIGHTS
from bayplan.fleet.upkeep.evictions import EvictionSettings
from bayplan.fleet.upkeep.nodes import GENERATION, MARKS
from bayplan.fleet.upkeep.upkeep import UpkeepSettings

pytestmark = pytest.mark.anyio

HOT = {"rules": [{"metricname": "heat", "operator": "GreaterThan", "target": 80}]}
NODE = "/api/v1/nodes/a"
LABEL = "telemetry.aware.scheduling.p/card"


async def labels(world: Any, path: str = NODE) -> dict[str, str]:
    found = await world.read(path)
    return dict(found["metadata"].get("labels") or {})


async def test_a_policy_labels_nodes_and_takes_the_labels_away_with_it(
    world: Any, running: Any, eventually: Any
) -> None:
    await world.node("a", zone="x")
    await world.policy("p", deschedule=HOT, labeling={"rules": [{**HOT["rules"][0], "labels": ["card=0"]}]})
    world.feed.values["heat"] = {"a": 95}

    async def labelled() -> bool:
        return await labels(world) == {"zone": "x", "p": "violating", LABEL: "0"}

    async def clean() -> bool:
        return await labels(world) == {"zone": "x"}

    async with running(world.controller()):
        await eventually(labelled)
        (patch,) = world.asked("patch", "/nodes/a")
        assert patch.data["metadata"]["labels"] == {"p": "violating", LABEL: "0"}
        assert patch.data["metadata"]["annotations"] == {MARKS: "p"}
        await world.api.delete("/apis/telemetry.intel.com/v1alpha1/namespaces/default/taspolicies/p")
        await eventually(clean)
    assert len(world.asked("patch", "/nodes/a")) == 2


async def test_a_dry_run_writes_nothing_at_all(world: Any, running: Any, eventually: Any) -> None:
    await world.node("a")
    await world.policy("p", deschedule=HOT, dontschedule=HOT)
    await world.create(
        "/api/v1/namespaces/default/pods",
        "w",
        namespace="default",
        metadata={"labels": {"telemetry-policy": "gone"}, "creationTimestamp": "2026-01-01T00:00:00Z"},
    )
    before = len(world.asked("post"))
    world.feed.values["heat"] = {"a": 95}
    controller = world.controller(dry_run=True)
    async with running(controller):
        await eventually(lambda: min(loop.counters.steps for loop in controller.loops) > 2)
    assert len(world.asked("post")) == before
    assert world.asked("patch") == []


async def test_what_cannot_be_written_now_is_written_later_and_holds_nothing_else_up(
    world: Any, running: Any, eventually: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.node("a")
    await world.node("b")
    await world.policy("p", deschedule=HOT)
    world.feed.values["heat"] = {"a": 95, "b": 95}
    patch, failures = world.api.patch, iter(range(2))

    async def unsteady(path: str, *arguments: Any, **options: Any) -> Any:
        if path == NODE and next(failures, None) is not None:
            raise UnavailableError("etcd timed out", verb="PATCH", path=path)
        return await patch(path, *arguments, **options)

    monkeypatch.setattr(world.api, "patch", unsteady)

    async def both() -> bool:
        return [await labels(world, f"/api/v1/nodes/{name}") for name in "ab"] == [{"p": "violating"}] * 2

    controller = world.controller()
    async with running(controller):
        await eventually(both)
    assert controller.writes.done["node labels", "failed"] == 2
    assert controller.writes.done["node labels", "written"] == 2
    assert len(world.asked("patch", "/nodes/b")) == 1


async def test_what_is_refused_for_good_is_not_tried_again(world: Any, running: Any, eventually: Any) -> None:
    await world.node("a")
    await world.policy("p", deschedule=HOT)
    world.feed.values["heat"] = {"a": 95}
    world.refuse(f"patch {NODE}", 422, {"message": "no such label"}, times=100)
    controller = world.controller()
    async with running(controller):
        await eventually(lambda: controller.writes.done["node labels", "refused"] == 1)
        steps = controller.loops[1].counters.steps
        await eventually(lambda: controller.loops[1].counters.steps > steps + 5)
    assert controller.writes.done["node labels", "refused"] == 1


async def test_a_flip_touches_an_allowed_node_where_a_pod_waits(world: Any, running: Any, eventually: Any) -> None:
    await world.node("a")
    await world.policy("p", dontschedule=HOT)
    metadata = {"labels": {"telemetry-policy": "p"}, "creationTimestamp": "2026-01-01T00:00:00Z"}
    await world.create("/api/v1/namespaces/default/pods", "w", namespace="default", metadata=metadata)
    world.feed.values["heat"] = {"a": 95}
    controller = world.controller()

    async def woken() -> bool:
        found = await world.read(NODE)
        return GENERATION in (found["metadata"].get("annotations") or {})

    async with running(controller):
        await eventually(lambda: controller.upkeep.engine.verdict("default", "p", 0).refused)
        before = len(world.asked("patch", "/nodes/a"))
        world.feed.values["heat"] = {"a": 10}
        await eventually(woken)
        await eventually(lambda: len(world.asked("patch", "/nodes/a")) >= before + 1)


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ((201, {}), "evicted"),
        ((429, {"reason": "TooManyRequests", "details": {"causes": [{"reason": "DisruptionBudget"}]}}), "budget"),
        ((404, {}), "gone"),
        ((403, {"message": "no"}), "failed"),
    ],
)
async def test_evictions_go_through_the_eviction_api(
    answer: Any, result: str, world: Any, running: Any, eventually: Any
) -> None:
    await world.node("a")
    await world.policy("p", deschedule=HOT, dontschedule=HOT)
    metadata = {
        "labels": {"telemetry-policy": "p"},
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "ownerReferences": [{"kind": "ReplicaSet", "uid": "rs", "controller": True}],
    }
    path = "/api/v1/namespaces/default/pods"
    await world.create(path, "v", namespace="default", metadata=metadata, spec={"nodeName": "a"})
    world.refuse(f"post {path}/v/eviction", *answer, times=100)
    world.feed.values["heat"] = {"a": 95}
    settings = UpkeepSettings(period_s=0.2, evictions=EvictionSettings(all_policies=True, violation_s=0))
    controller = world.controller(settings=settings)
    async with running(controller):
        await eventually(lambda: controller.upkeep.evictions.counts[result] == 1)
    (asked,) = world.asked("post", "/eviction")
    assert asked.data["deleteOptions"]["preconditions"] == {"uid": "uid-v"}


async def test_pods_on_cards_that_are_given_up_are_labelled_by_uid(world: Any, running: Any, eventually: Any) -> None:
    class Cards:
        def apply(self, event: object, now: float) -> None:
            """The test says which."""

        def descheduled(self) -> dict[str, str]:
            return {"uid-v": "card0 of node a is given up"}

    metadata = {"creationTimestamp": "2026-01-01T00:00:00Z"}
    path = "/api/v1/namespaces/default/pods"
    await world.create(path, "v", namespace="default", metadata=metadata, spec={"nodeName": "a"})
    controller = world.controller(cards=Cards())
    async with running(controller):
        await eventually(lambda: controller.writes.done["pod label", "written"] == 1)
    (patch,) = world.asked("patch", "/pods/v")
    assert patch.data == {"metadata": {"labels": {"gpu.aware.scheduling/deschedule-pod": "gpu"}, "uid": "uid-v"}}


async def test_only_the_leader_writes_and_the_next_one_takes_over(world: Any, running: Any, eventually: Any) -> None:
    await world.node("a")
    await world.policy("p", deschedule=HOT)
    world.feed.values["heat"] = {"a": 95}
    first, second = world.controller(identity="first"), world.controller(identity="second")

    async def marked() -> bool:
        return await labels(world) == {"p": "violating"}

    async def unmarked() -> bool:
        return await labels(world) == {}

    async with running(first) as (task,):
        await eventually(marked)
        async with running(second):
            await eventually(lambda: second.is_synced)
            assert (first.is_leading, second.is_leading) == (True, False)
            task.cancel()
            await eventually(lambda: second.is_leading)
            assert not first.is_leading
            world.feed.values["heat"] = {"a": 0}
            await eventually(unmarked)
    assert second.writes.done["node labels", "written"] == 1


async def test_a_pod_without_its_policy_and_a_policy_that_flips_are_told_in_events(
    world: Any, running: Any, eventually: Any
) -> None:
    await world.policy("p", dontschedule=HOT)
    metadata = {"labels": {"telemetry-policy": "gone"}, "creationTimestamp": "2026-01-01T00:00:00Z"}
    await world.create("/api/v1/namespaces/default/pods", "w", namespace="default", metadata=metadata)
    world.feed.values["heat"] = {"a": 10}
    controller = world.controller()

    def reasons() -> set[str]:
        return {each.data["reason"] for each in world.asked("post", "/events")}

    async with running(controller):
        await eventually(lambda: "PolicyMissing" in reasons())
        await eventually(lambda: controller.upkeep.engine.verdict("default", "p", 0).reason("a") is None)
        world.feed.values["heat"] = {"a": 95}
        await eventually(lambda: "NodesRefused" in reasons())


async def test_every_call_is_among_the_rights(world: Any, running: Any, eventually: Any) -> None:
    await test_only_the_leader_writes_and_the_next_one_takes_over(world, running, eventually)
    allowed = {(right.group, right.resource, right.verb) for right in (*RIGHTS, *EVICTION_RIGHTS)}
    made = set()
    for call in world.emulator:
        parts = [part for part in call.url.path.split("/") if part]
        group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
        rest = rest[2:] if rest[0] == "namespaces" else rest
        resource = "/".join([rest[0], *rest[2:]])
        named = len(rest) > 1
        verb = {"get": "get" if named else "watch" if call.params.get("watch") else "list", "put": "update"}
        method = call.method.value.lower()
        made.add((group, resource, verb.get(method, {"post": "create"}.get(method, method))))
    of_the_test = {("", "nodes", "create"), ("", "nodes", "get"), ("telemetry.intel.com", "taspolicies", "create")}
    assert made - of_the_test <= allowed
    assert ("", "nodes", "watch") in made
