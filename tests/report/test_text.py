from __future__ import annotations

import re
from collections.abc import Callable

import msgspec
import pytest

from bayplan.fleet.plan import Placement, Plan, PlannedNode
from bayplan.idset import CpuSet
from bayplan.machine import Finding, Machine
from bayplan.report.plain import columns
from bayplan.report.seating import by_node, seating
from bayplan.report.text import draw_machine, draw_plan
from bayplan.resources.decision import Decision, Grant
from bayplan.workload.model import Pod, Request

SGR = re.compile(r"\x1b\[[0-9;]*m")
WIDTHS = (60, 80, 100, 160, 250)


@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_is_wider_than_asked(machine: Machine, plan: Plan, width: int) -> None:
    for text in (draw_machine(machine, width=width), draw_plan(plan, width=width)):
        assert max(columns(line) for line in text.splitlines()) <= width


def test_colour_adds_nothing_but_escape_sequences(machine: Machine, plan: Plan) -> None:
    pairs = [
        (draw_machine(machine), draw_machine(machine, color=True)),
        (draw_plan(plan), draw_plan(plan, color=True)),
    ]
    for bare, coloured in pairs:
        assert "\x1b" not in bare
        assert SGR.search(coloured)
        stripped = [line.rstrip() for line in SGR.sub("", coloured).splitlines()]
        assert stripped == bare.splitlines()


def test_without_unicode_the_text_is_ascii(machine: Machine, plan: Plan) -> None:
    assert draw_machine(machine, unicode=False).isascii()
    assert draw_plan(plan, unicode=False).isascii()


def test_a_small_machine_shows_every_cpu(make_machine: dict[str, Callable[[], Machine]]) -> None:
    for name in ("two_sockets", "hybrid", "gpu_tray"):
        machine = make_machine[name]()
        text = draw_machine(machine)
        for core in machine.cores:
            assert re.search(rf"[ \[PE]{core.cpus}\*?[ \]│]", text), (name, core.id)


def test_isolated_and_offline_cpus_devices_and_distances_are_told(small_machine: Machine) -> None:
    text = draw_machine(small_machine)
    assert "14,46*" in text
    assert "isolated CPUs 14, 46" in text
    assert "offline CPUs 64-65" in text
    assert "gpu 0000:17:00.0" in text
    assert re.search(r"^ *1 +12 +10 +32 +32$", text, re.MULTILINE)


def test_a_large_machine_is_summed_up(make_machine: dict[str, Callable[[], Machine]]) -> None:
    text = draw_machine(make_machine["largest"](), width=80)
    assert len(text.splitlines()) < 60
    assert "... and 14 more like it: packages 2-15, nodes 8-63" in text
    tray = draw_machine(make_machine["gpu_tray"](), width=100)
    assert "nodes 2-17: no CPUs, no memory (gpu)" in tray
    assert len(tray.splitlines()) < 30
    assert re.search(r"18-33 +120 +80 +120 +10 +\{80\}", tray)


def test_package_numbers_may_be_any(make_machine: dict[str, Callable[[], Machine]]) -> None:
    machine = make_machine["sixty_four_nodes"]()
    packages = tuple(msgspec.structs.replace(p, id=p.id * 70_000 - 5) for p in machine.packages)
    text = draw_machine(msgspec.structs.replace(machine, packages=packages))
    assert "packages 139995 to 2169995, nodes 4-63" in text


def test_findings_are_shown_once_where_numbers_alone_differ(small_machine: Machine) -> None:
    findings = tuple(Finding(place=f"node {i}", problem="no distance") for i in range(50))
    found = msgspec.structs.replace(small_machine, findings=(*findings, Finding(place="cpu1", problem="odd")))
    text = draw_machine(found)
    assert "⚠ node 0: no distance (and 49 more like it)" in text
    assert text.endswith("⚠ cpu1: odd\n")


def test_each_container_is_listed_and_its_letter_is_in_the_legend(plan: Plan) -> None:
    text = draw_plan(plan, width=120)
    node = plan.nodes[0]
    for seat in seating(node, by_node(plan)[node.name]).seats:
        assert re.search(rf"^default/db-{seat.index} +app +Guaranteed", text, re.MULTILINE)
        assert re.search(rf"(^| ) {seat.code}  {seat.pod}/app {seat.cpus}( |$)", text, re.MULTILINE)


def test_long_names_stay_whole_on_a_line_of_their_own(small_plan: Plan) -> None:
    name = "payments-gateway-deployment-7d9f8b6c5d-x02lq"
    first, *others = small_plan.placements
    renamed = msgspec.structs.replace(
        first, pod=msgspec.structs.replace(first.pod, name=name, namespace="production-eu")
    )
    plan = msgspec.structs.replace(small_plan, placements=(renamed, *others))
    narrow = draw_plan(plan, width=80).splitlines()
    at = next(i for i, line in enumerate(narrow) if line.startswith(f"production-eu/{name}"))
    assert narrow[at + 1].strip() == "Guaranteed, on worker-1"
    assert narrow[at + 2].split()[:3] == ["app", "1,", "33"]
    wide = draw_plan(plan, width=160).splitlines()
    assert wide[0].split()[0] == "pod"
    assert wide[1].startswith(f"production-eu/{name}  app")


def test_devices_leave_the_table_where_it_is_narrow(small_plan: Plan) -> None:
    assert "    with nvidia.com/gpu: 0000:17:00.0" in draw_plan(small_plan, width=80)
    assert "nvidia.com/gpu: 0000:17:00.0\n" in draw_plan(small_plan, width=120)


def test_who_sits_where_is_drawn(small_plan: Plan) -> None:
    text = draw_plan(small_plan, width=80)
    assert "0-3,32-35       ## AA ·· ··" in text
    assert "12-15,44-47     ·· EE -- EE" in text
    assert "gpu 0000:17:00.0" in text
    assert "# reserved for the system: CPUs 0,32" in text
    assert "shared pool, 24 CPUs: shop/web-0/nginx, shop/web-1/nginx" in text
    assert "- not handed out: CPUs 14, 46" in text


def test_a_refusal_tells_reason_numbers_and_remedy(small_plan: Plan) -> None:
    text = draw_plan(small_plan)
    assert "TopologyAffinityError: Resources cannot be allocated with Topology locality" in text
    assert "cpu: asked 40 CPUs, free 24 CPUs, rule topology-manager/restricted" in text
    assert "to fit: ask for at most 24 CPUs" in text
    assert text.endswith("✗ 12 of 13 containers placed (13 pods, 1 node), 1 refused\n")


def test_a_cpu_given_twice_stands_out(small_plan: Plan) -> None:
    first, second, *others = small_plan.placements
    assert first.decision is not None
    assert second.decision is not None
    double = msgspec.structs.replace(second.decision.grants[0], exclusive=first.decision.grants[0].exclusive)
    again = msgspec.structs.replace(second, decision=msgspec.structs.replace(second.decision, grants=(double,)))
    text = draw_plan(msgspec.structs.replace(small_plan, placements=(first, again, *others)))
    assert "! held by more than one container: CPUs 1, 33" in text
    assert "## !! ·· ··" in text or "## !! " in text


def test_an_init_container_that_ends_takes_no_seat(small_plan: Plan) -> None:
    first = small_plan.placements[0]
    assert first.decision is not None
    grant = first.decision.grants[0]
    init = msgspec.structs.replace(grant, container="prepare")
    pod = msgspec.structs.replace(
        first.pod, init=(msgspec.structs.replace(first.pod.containers[0], name="prepare", init=True),)
    )
    decision = msgspec.structs.replace(first.decision, grants=(init, grant))
    plan = msgspec.structs.replace(
        small_plan, placements=(msgspec.structs.replace(first, pod=pod, decision=decision), *small_plan.placements[1:])
    )
    text = draw_plan(plan, width=120)
    assert "held by more than one" not in text
    assert "prepare (init)" in text


def test_many_nodes_are_a_table_with_refusals_by_kind(large_plan: Plan) -> None:
    text = draw_plan(large_plan, width=100)
    assert "package" not in text
    assert "40 pods refused" in text
    assert "and 34 more" in text
    assert "worker-0 .. worker-39 (40)" in text
    assert len(text.splitlines()) < 25


def test_many_refused_pods_on_one_node_are_grouped(small_plan: Plan) -> None:
    refused = small_plan.placements[-1]
    many = msgspec.structs.replace(small_plan, placements=(*small_plan.placements, *[refused] * 500))
    text = draw_plan(many)
    assert "501 pods refused" in text
    assert len(text.splitlines()) < 80


def test_an_empty_plan_and_an_empty_machine_are_drawn() -> None:
    assert (
        draw_plan(Plan(nodes=(), placements=())).strip() == "✓ 0 of 0 containers placed (0 pods, 0 nodes), none refused"
    )
    nothing = Machine(name="nothing", online=CpuSet(), cores=(), packages=(), nodes=())
    assert draw_machine(nothing).splitlines()[0] == "nothing"


def test_more_containers_than_letters_get_longer_codes(make_machine: dict[str, Callable[[], Machine]]) -> None:
    machine = make_machine["eight_nodes"]()
    plan = _crowded(machine)
    seats = seating(plan.nodes[0], plan.placements)
    assert len(seats.seats) == 190
    assert len({seat.code for seat in seats.seats}) == 190
    assert {len(seat.code) for seat in seats.seats} == {2}
    text = draw_plan(plan, width=160)
    assert all(f" {seat.code} " in text for seat in seats.seats)


def _crowded(machine: Machine) -> Plan:
    placements = tuple(
        Placement(
            pod=Pod(uid=str(i), name=f"p{i}", containers=(Request(name="c", cpu_milli=2000),)),
            node="n",
            decision=Decision(pod=str(i), grants=(Grant(pod=str(i), container="c", exclusive=core.cpus),)),
        )
        for i, core in enumerate(machine.cores[2:])
    )
    return Plan(nodes=(PlannedNode(name="n", machine=machine, policy="kubelet"),), placements=placements)
