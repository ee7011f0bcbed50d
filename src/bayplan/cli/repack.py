"""`bayplan repack`: which few pods to move so that more cards can be used, or one more pod has room. Never acts."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from bayplan.cli import OK, REFUSED
from bayplan.cli.card_nodes import card_nodes, open_offering
from bayplan.cli.terminal import Look, write_document
from bayplan.errors import InputError

if TYPE_CHECKING:
    from bayplan.fleet.cards.model import CardNode, CardRequest
    from bayplan.fleet.cards.repack.gauge import Gauge
    from bayplan.fleet.cards.repack.running import Cluster, Prices
    from bayplan.fleet.cards.state import Bools, CardFleet
    from bayplan.fleet.filters import Standing
    from bayplan.fleet.node import FleetNode
    from bayplan.workload.manifests import Workload
    from bayplan.workload.model import Pod

_CARDS = re.compile(r"(\d{1,3})x(\d{1,4})", re.ASCII)


class Inputs(NamedTuple):
    """What is looked at, as it was typed."""

    pods: Sequence[str]
    nodes: str | None
    cluster: str | None
    machine: str | None
    kubelet_config: str | None
    wanted: str | None
    gone: Sequence[str]
    goal: str
    aligned: bool
    moves: int
    most_cost: float | None
    price_pod: float
    price_card: float
    price_hour: float
    quiet: bool


class _Running(NamedTuple):
    cluster: Cluster
    nodes: Sequence[CardNode]
    standing: Sequence[Standing]


def repack(inputs: Inputs, output: str, look: Look) -> int:
    """Look, and tell. The exit status is 3 where room was wished for and none can be made."""
    _one_place(inputs)
    if inputs.machine is not None:
        return _on_machine(inputs, output, look)
    return _on_cluster(inputs, output, look)


def _one_place(inputs: Inputs) -> None:
    places = {"--nodes": inputs.nodes, "--cluster": inputs.cluster, "--machine": inputs.machine}
    empty = [name for name, value in {**places, "--for": inputs.wanted}.items() if value == ""]
    if empty:
        raise InputError("empty name", source=empty[0], expected="a name, or to leave it out")
    named = [name for name, value in places.items() if value is not None]
    if len(named) != 1:
        raise InputError(f"{len(named)} of these are named", source=", ".join(places), expected="one of them")
    if inputs.machine is None and (inputs.gone or inputs.aligned):
        raise InputError("only for one machine", source="--gone, --aligned", expected="--machine")
    if inputs.machine is not None and inputs.wanted is None:
        raise InputError("missing", source="--for", expected="the pod for which room is to be made on the machine")


def _prices(inputs: Inputs) -> Prices:
    from bayplan.fleet.cards.repack.running import Prices

    return Prices(inputs.price_pod, inputs.price_card, inputs.price_hour)


def _on_cluster(inputs: Inputs, output: str, look: Look) -> int:
    from bayplan.fleet.cards.repack.board import Board
    from bayplan.fleet.cards.repack.model import COST_UNIT
    from bayplan.fleet.cards.repack.room import make_room
    from bayplan.fleet.cards.repack.search import Limits
    from bayplan.fleet.cards.repack.search import repack as best
    from bayplan.fleet.cards.state import CardFleet
    from bayplan.report import repack as report

    running = _running(inputs)
    board = Board(CardFleet(running.nodes), running.cluster.pods, running.cluster.groups)
    gauge = _gauge(inputs.goal, board.fleet, running.cluster)
    cost = None if inputs.most_cost is None else round(COST_UNIT * inputs.most_cost)
    limits = Limits(inputs.moves, cost)
    if inputs.wanted is None:
        advice = best(board, gauge, limits)
    else:
        request, among = _wanted(inputs.wanted, running)
        advice = make_room(board, gauge, request, limits, among)
    if output == "json":
        write_document(report.json(advice, running.nodes))
    else:
        sys.stdout.write(report.draw(advice, running.nodes, look.width, color=look.color, unit=inputs.goal))
    return OK if inputs.wanted is None or advice.room is not None else REFUSED


def _gauge(goal: str, fleet: CardFleet, cluster: Cluster) -> Gauge:
    from bayplan.fleet.cards.mix import counted, typical
    from bayplan.fleet.cards.repack.gauge import IdleCards, UsableShare

    if goal == "idle":
        return IdleCards(fleet)
    return UsableShare(fleet, typical(counted([*(pod.request for pod in cluster.pods), *cluster.waiting])))


def _running(inputs: Inputs) -> _Running:
    from bayplan.fleet.cards.repack.running import of_manifests, placed

    nodes, standing = _nodes(inputs)
    table = inputs.pods[0] if len(inputs.pods) == 1 and _is_table(inputs.pods[0]) else None
    if table is not None:
        from bayplan.files.tables import open_lines
        from bayplan.simulate.running_tables import read_running

        with open_lines(table) as lines:
            return _Running(placed(read_running(lines.all, _prices(inputs)), nodes), nodes, standing)
    workload = _workload(inputs)
    cluster = of_manifests(workload.pods, workload.times, nodes, standing, _prices(inputs))
    for note in [*workload.notes, *cluster.notes]:
        _tell(inputs, str(note))
    if cluster.waiting:
        _tell(inputs, f"{len(cluster.waiting)} pods have no node yet; they count for the mix of pods only")
    return _Running(cluster, nodes, standing)


def _nodes(inputs: Inputs) -> tuple[Sequence[CardNode], Sequence[Standing]]:
    from bayplan.fleet.cards.dialects import KNOWN
    from bayplan.fleet.cluster_file import NodeSpec
    from bayplan.simulate.sources import open_nodes

    if inputs.nodes is not None:
        table = open_nodes(inputs.nodes)
        return table, [NodeSpec(name=node.name, machine="") for node in table]
    path = inputs.cluster or ""
    offering = open_offering(path, partial(_tell, inputs))
    return card_nodes(offering, path, KNOWN), offering


def _is_table(path: str) -> bool:
    """A table is told by its name: its first row could as well be YAML."""
    return path.removesuffix(".gz").endswith(".csv")


def _workload(inputs: Inputs) -> Workload:
    from msgspec.structs import replace

    from bayplan.files.documents import open_documents
    from bayplan.workload import manifests
    from bayplan.workload.times import PodTimes

    workload = manifests.read(open_documents(inputs.pods), over_time=True)
    running = tuple(pod for pod in workload.pods if workload.times.get(pod.source, PodTimes()).ends_s is None)
    if not running:
        raise InputError("no pods", source=", ".join(inputs.pods), expected="Pods, as `kubectl get pods -A -o yaml`")
    return replace(workload, pods=running)


def _wanted(text: str, running: _Running) -> tuple[CardRequest, Bools | None]:
    from bayplan.fleet.cards.dialects import card_request
    from bayplan.fleet.cards.model import CardRequest
    from bayplan.fleet.cards.repack.running import Groups

    found = _CARDS.fullmatch(text)
    if found is not None:
        try:
            cards, milli = int(found.group(1)), int(found.group(2))
            return CardRequest(cpu_milli=0, memory_bytes=0, cards=cards, milli=milli), None
        except InputError as error:
            raise error.within(source=f"--for {text}") from error
    pod = _one_pod(text)
    groups = Groups(running.standing)
    return card_request(pod, {node.model for node in running.nodes if node.cards}), groups.masks[groups.of(pod)]


def _one_pod(path: str) -> Pod:
    from bayplan.files.documents import open_documents
    from bayplan.workload import manifests

    pods = manifests.read(open_documents([path])).pods
    if len(pods) != 1:
        raise InputError("not one pod", source=path, value=len(pods), expected="one, or like 8x1000 (cards x milli)")
    return pods[0]


def _on_machine(inputs: Inputs, output: str, look: Look) -> int:
    from bayplan.cli.assemble import Assembly
    from bayplan.fleet.cards.repack.model import COST_UNIT
    from bayplan.fleet.cards.repack.running import why_fixed
    from bayplan.hub.room import room_on_node
    from bayplan.report import repack as report

    assembly = Assembly("kubelet", None)
    node = assembly.single(inputs.machine or "", inputs.kubelet_config)
    pod = _one_pod(inputs.wanted or "")
    _fill(inputs, node)
    hub = node.hub
    if pod.uid in hub.ledger.pods:
        raise InputError("runs on this machine already", source=inputs.wanted or "", value=pod.full_name)
    costs = {uid: round(COST_UNIT * inputs.price_pod) for uid in hub.ledger.pods}
    # What was typed as a workload says nothing of controllers, so only what a pod itself says keeps it where it is.
    fixed = {uid: why for uid, each in hub.ledger.pods.items() if (why := why_fixed(each)) and "controller" not in why}
    advice = room_on_node(hub, pod, costs, inputs.moves, aligned=inputs.aligned, fixed=fixed)
    names = {**{uid: each.full_name for uid, each in hub.ledger.pods.items()}, pod.uid: pod.full_name}
    if output == "json":
        write_document(report.zones_json(advice, names))
    else:
        sys.stdout.write(report.draw_zones(advice, names, hub.machine, inputs.moves, look.width, color=look.color))
    return OK if advice.found else REFUSED


def _fill(inputs: Inputs, node: FleetNode) -> None:
    """Admit the workload in its order, then let those go that have gone since: so the holes come about."""
    workload = _workload(inputs)
    for note in workload.notes:
        _tell(inputs, str(note))
    by_name = {pod.full_name: pod.uid for pod in workload.pods}
    for pod in workload.pods:
        decision = node.hub.admit(pod)
        if decision.refusal is not None:
            _tell(inputs, f"{pod.full_name} is not on this machine: {decision.refusal.message}")
    for name in inputs.gone:
        full = name if "/" in name else f"default/{name}"
        if by_name.get(full) not in node.hub.ledger.pods:
            raise InputError("no such pod on this machine", source="--gone", value=name)
        node.hub.release(by_name[full])


def _tell(inputs: Inputs, text: str) -> None:
    if not inputs.quiet:
        print(f"note: {text}", file=sys.stderr)
