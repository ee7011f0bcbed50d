"""The machines of a cluster with their hubs: which node a pod goes to.

A pod goes to the node that kube-scheduler's filters and scores would choose first and whose hub admits it; where a
hub refuses, the next is asked. Deterministic, and pure as the hubs are. Pods are placed one after the other as they
come; nothing is preempted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self

import msgspec

from bayplan.errors import InputError
from bayplan.fleet.daemons import daemon_pods
from bayplan.fleet.filters import Wishes, objections
from bayplan.fleet.hub_states import HubStates, KnownRefusals
from bayplan.fleet.kubelet_check import kubelet_refusal, missing_devices, missing_resources
from bayplan.fleet.node import FleetNode
from bayplan.fleet.plan import NodeRefusal, Placement, Plan
from bayplan.fleet.refusals import (
    UNSCHEDULABLE,
    Answer,
    counted,
    filter_answer,
    hub_answer,
    refused,
    summary,
    would_bind,
)
from bayplan.fleet.shapes import Shape, Shapes
from bayplan.fleet.survey import PlainTable, Survey, Table
from bayplan.hub.blockers import blockers
from bayplan.hub.hub import UnknownPodError
from bayplan.resources.decision import Decision, Notice, Refusal
from bayplan.workload.model import Pod

# Up to so many nodes, plain Python is faster than importing numpy.
MOST_PLAIN_NODES = 8
# Beyond so many nodes, a refusal lists only the first of each kind.
LISTED_NODES = 16
# What would have to change is found by trying, which takes its time: of so many refusals, not of thousands.
MOST_ADVISED = 100
MOST_BLOCKERS_TRIED = 50
ALIGNMENT = "TopologyAffinityError"


class Fleet:
    """Nodes, and where pods go. Two nodes of one name raise `InputError`.

    `pack` fills nodes up one after the other (MostAllocated) where the scheduler by default spreads pods out.
    `scheduler=False` is for a node by itself (see `single`). `plain` settles whether nodes are looked at one by one or
    with numpy, which gives the same answers (None: by their number).
    """

    def __init__(
        self,
        nodes: Sequence[FleetNode],
        *,
        scheduler: bool = True,
        pack: bool = False,
        plain: bool | None = None,
    ) -> None:
        self.nodes = tuple(nodes)
        self._index = {node.name: i for i, node in enumerate(self.nodes)}
        if len(self._index) != len(self.nodes):
            raise InputError("two nodes of one name", expected="each node once")
        if not scheduler and len(self.nodes) != 1:
            raise InputError("no scheduler for several nodes", value=len(self.nodes), expected="one node")
        self._scheduler = scheduler
        self._shapes = Shapes()
        self._states = HubStates()
        self._known = KnownRefusals()
        self._advice: dict[tuple[bytes, int], Refusal] = {}
        self._where = {uid: i for i, node in enumerate(self.nodes) for uid in node.hub.ledger.pods}
        self._table = _table(self.nodes, self._states.at_start(self.nodes), pack=pack, plain=plain)

    @classmethod
    def single(cls, node: FleetNode) -> Self:
        """One node without a scheduler: what its kubelet says is the answer, and labels and taints do not count."""
        return cls((node,), scheduler=False)

    def place(self, pod: Pod) -> Placement:
        """Find a node for one pod, and admit it there. An `every_node` pod is taken for a single one."""
        if pod.uid in self._where:
            name = self.nodes[self._where[pod.uid]].name
            return _refusal(pod, "AlreadyExists", f"pod {pod.full_name} is on node {name} already", "fleet/one-of-each")
        shape = self._shapes.of(pod)
        if not self._scheduler:
            return self._alone(pod, shape)
        if pod.node_name:
            return self._bound(pod, shape)
        return self._schedule(pod, shape)

    def place_all(self, pods: Sequence[Pod], progress: Callable[[int], None] | None = None) -> Plan:
        """Place pods in their order, those of DaemonSets on every node that is to have them.

        `progress` is told after each of `pods` how many are done.
        """
        placements: list[Placement] = []
        notices: list[Notice] = []
        for done, pod in enumerate(pods, 1):
            each = daemon_pods(pod, self.nodes, everywhere=not self._scheduler) if pod.every_node else [pod]
            if not each:
                message = (
                    f"{pod.owner or pod.full_name}: no node is to have its pod (node selector, affinity or taints)"
                )
                notices.append(Notice(name="daemonset-without-nodes", message=message))
            placements.extend(self.place(one) for one in each)
            if progress is not None:
                progress(done)
        nodes = tuple(node.planned() for node in self.nodes)
        return Plan(nodes=nodes, placements=tuple(placements), warnings=tuple(notices))

    def release(self, uid: str) -> None:
        """A pod is gone from its node. Raises `UnknownPodError`."""
        index = self._where.get(uid)
        if index is None:
            raise UnknownPodError(f"no pod {uid!r} on any node")
        node = self.nodes[index]
        node.hub.release(uid)
        node.remove(uid)
        del self._where[uid]
        self._table.changed(index, self._states.fresh())

    def _schedule(self, pod: Pod, shape: Shape) -> Placement:
        survey = self._table.survey(shape.wishes_key, shape.wishes, shape.needs)
        first = survey.best()
        survey.strike(self._known_of(shape.key))
        asked: dict[int, Decision] = {}
        while (index := survey.best()) is not None:
            decision = self._ask(index, pod, shape)
            if decision.admitted:
                notices = self._notices(first, shape, asked) if first != index else ()
                return _placed(pod, self.nodes[index], decision, notices)
            asked[index] = decision
            survey.strike((self._table.state(index),))
        return self._nowhere(pod, shape, survey, first, asked)

    def _alone(self, pod: Pod, shape: Shape) -> Placement:
        # Whatever node the pod names (a dump of a cluster names one in each), it is asked about this one.
        node = self.nodes[0]
        missing = missing_resources(node, shape.needs)
        if missing:
            # No scheduler would send the pod here. A kubelet would start it without the devices, and its Memory manager
            # would crash on a size of huge pages that the machine does not have: nothing that anybody asks about.
            name, asked = missing[0], shape.needs.amounts[missing[0]]
            refusal = Refusal(
                reason=UNSCHEDULABLE,
                message=f"Insufficient {name}",
                rule="scheduler/NodeResourcesFit",
                resource=name,
                asked=asked,
                free=0,
                remedies=(f"a node that offers {name}; node {node.name} offers none",),
            )
            return _refused_by(pod, node, refusal, None)
        return self._bind(pod, shape, 0, None)

    def _bound(self, pod: Pod, shape: Shape) -> Placement:
        index = self._index.get(pod.node_name)
        if index is None:
            return _unknown_node(pod)
        notices = tuple(
            Notice(
                name="device-ignored", message=f"node {pod.node_name} has no {name}; its kubelet ignores the request"
            )
            for name in missing_devices(self.nodes[index], shape.needs)
        )
        placement = self._bind(pod, shape, index, shape.wishes)
        if placement.decision is None or placement.node is None or not notices:
            return placement
        return _placed(pod, self.nodes[index], placement.decision, notices)

    def _bind(self, pod: Pod, shape: Shape, index: int, wishes: Wishes | None) -> Placement:
        """Give the pod to one node without asking a scheduler; without `wishes`, labels and taints do not count.

        Its kubelet's managers speak first, as in a kubelet.
        """
        node = self.nodes[index]
        objection = kubelet_refusal(node, shape.needs, wishes)
        decision = self._ask(index, pod, shape)
        if decision.refusal is not None:
            return _refused_by(pod, node, self._advised(index, pod, shape, decision.refusal), decision)
        if objection is None:
            return _placed(pod, node, decision, ())
        self.release(pod.uid)
        return _refused_by(pod, node, objection, decision)

    def _ask(self, index: int, pod: Pod, shape: Shape) -> Decision:
        """The hub's answer, which is remembered; the pod is counted if it was admitted."""
        node, state = self.nodes[index], self._table.state(index)
        known = self._known.of(shape.key).get(state)
        if known is not None:
            return msgspec.structs.replace(known, pod=pod.uid)
        decision = node.hub.admit(pod)
        if decision.admitted:
            node.add(pod.uid, shape.needs)
            self._where[pod.uid] = index
            self._table.changed(index, self._states.after(state, shape.key))
        elif decision.warnings or not self._scheduler:
            # A kubelet that misbehaves (hangs, say) may not be what it was before; nor quite is one that refuses.
            self._table.changed(index, self._states.fresh())
        else:
            self._known.add(shape.key, state, decision)
        return decision

    def _nowhere(
        self, pod: Pod, shape: Shape, survey: Survey, first: int | None, asked: dict[int, Decision]
    ) -> Placement:
        own = self._decision(first, shape, asked)
        if first is not None and own is not None and own.refusal is not None:
            own = msgspec.structs.replace(own, refusal=self._advised(first, pod, shape, own.refusal))
            asked[first] = own
        notices = self._notices(first, shape, asked)
        answers = self._answers(survey, shape, asked)
        if len(self.nodes) == 1 and own is not None and own.refusal is not None:
            refusal = own.refusal
        else:
            refusal = summary(len(self.nodes), list(answers.values()), self._table.most_free)
        return Placement(
            pod=pod,
            refusal=refusal,
            decision=refused(pod.uid, refusal, own, notices),
            elsewhere=self._elsewhere(shape, asked, answers),
            refused_nodes=counted(answers.values()),
        )

    def _answers(self, survey: Survey, shape: Shape, asked: dict[int, Decision]) -> dict[int, Answer]:
        """First node of a kind -> what nodes of that kind said. Hubs in different states may say the same."""
        answers: dict[int, Answer] = {}
        firsts: dict[tuple[str, str], int] = {}
        for first, size, filtered in survey.kinds():
            if filtered:
                answers[first] = self._answer(first, size, shape, asked)
                continue
            refusal = self._hub_refusal(first, shape, asked)
            same = firsts.setdefault((refusal.reason, refusal.message), first)
            before = answers.get(same, hub_answer(0, refusal))
            fuller = max(before.refusal, refusal, key=lambda r: len(r.remedies))
            answers[same] = hub_answer(before.nodes + size, fuller)
        return answers

    def _elsewhere(
        self, shape: Shape, asked: dict[int, Decision], answers: dict[int, Answer]
    ) -> tuple[NodeRefusal, ...]:
        listed = [self._answer(i, 1, shape, asked) for i in range(min(len(self.nodes), LISTED_NODES))]
        found = [NodeRefusal(node=self.nodes[i].name, refusal=answer.refusal) for i, answer in enumerate(listed)]
        seen = {answer.kind for answer in listed}
        for index, answer in answers.items():
            if answer.kind not in seen:
                seen.add(answer.kind)
                found.append(NodeRefusal(node=self.nodes[index].name, refusal=answer.refusal))
        return tuple(found)

    def _answer(self, index: int, size: int, shape: Shape, asked: dict[int, Decision]) -> Answer:
        against = objections(self.nodes[index], shape.wishes, shape.needs)
        if against:
            return filter_answer(size, against)
        return hub_answer(size, self._hub_refusal(index, shape, asked))

    def _hub_refusal(self, index: int, shape: Shape, asked: dict[int, Decision]) -> Refusal:
        decision = self._decision(index, shape, asked)
        assert decision is not None
        assert decision.refusal is not None
        return decision.refusal

    def _decision(self, index: int | None, shape: Shape, asked: dict[int, Decision]) -> Decision | None:
        """What a node's hub said to a pod of this shape."""
        if index is None:
            return None
        return asked.get(index) or self._known.of(shape.key).get(self._table.state(index))

    def _notices(self, first: int | None, shape: Shape, asked: dict[int, Decision]) -> tuple[Notice, ...]:
        """What a real cluster would have done, where the scheduler's choice was refused by an exact kubelet."""
        decision = self._decision(first, shape, asked)
        if first is None or decision is None or decision.refusal is None or not self.nodes[first].exact_kubelet:
            return ()
        return (would_bind(self.nodes[first].name, decision.refusal),)

    def _advised(self, index: int, pod: Pod, shape: Shape, refusal: Refusal) -> Refusal:
        """The refusal with what would have to change; pods of one shape are told the same."""
        key = (shape.key, self._table.state(index))
        if key not in self._advice:
            if len(self._advice) >= MOST_ADVISED:
                return refusal
            self._advice[key] = self._with_blockers(index, pod, self.nodes[index].hub.advise(pod, refusal))
        return self._advice[key]

    def _with_blockers(self, index: int, pod: Pod, refusal: Refusal) -> Refusal:
        """With the pods that are in the way, where it is not amounts that are short but where they are."""
        if refusal.reason != ALIGNMENT:
            return refusal
        node = self.nodes[index]
        hub = node.hub
        # What only stands for sums that others told is no pod that could go.
        found = blockers(hub, pod, tried=MOST_BLOCKERS_TRIED, known=node.counts)
        names = [hub.ledger.pods[uid].full_name for uid in found]
        if not names:
            return refusal
        remedy = f"blocked by {', '.join(names)}: it would fit on node {node.name} without"
        return msgspec.structs.replace(refusal, remedies=(*refusal.remedies, remedy))

    def _known_of(self, key: bytes) -> dict[int, Decision]:
        """State -> refusal of pods of this shape. Once in a while, those of states that no hub is in are forgotten."""
        self._known.make_room()
        known = self._known.of(key)
        if len(known) <= 2 * len(self.nodes) + LISTED_NODES:
            return known
        return self._known.keep(key, {self._table.state(i) for i in range(len(self.nodes))})


def _table(nodes: Sequence[FleetNode], states: Sequence[int], *, pack: bool, plain: bool | None) -> Table:
    if plain or not nodes or (plain is None and len(nodes) <= MOST_PLAIN_NODES):
        return PlainTable(nodes, states, pack=pack)
    from bayplan.fleet.columns import ColumnTable  # numpy takes longer to import than few nodes to look at

    return ColumnTable(nodes, states, pack=pack)


def _placed(pod: Pod, node: FleetNode, decision: Decision, notices: tuple[Notice, ...]) -> Placement:
    if notices:
        decision = msgspec.structs.replace(decision, warnings=(*decision.warnings, *notices))
    return Placement(pod=pod, node=node.name, decision=decision)


def _refused_by(pod: Pod, node: FleetNode, refusal: Refusal, asked: Decision | None) -> Placement:
    return Placement(
        pod=pod,
        refusal=refusal,
        decision=refused(pod.uid, refusal, asked, ()),
        elsewhere=(NodeRefusal(node=node.name, refusal=refusal),),
        refused_nodes={refusal.reason if refusal.reason != UNSCHEDULABLE else refusal.message: 1},
    )


def _unknown_node(pod: Pod) -> Placement:
    message = f"node {pod.node_name}, which the pod names (spec.nodeName), is not among the nodes"
    return _refusal(pod, "NodeNotFound", message, "fleet/node-name", "name a node that is there, or none")


def _refusal(pod: Pod, reason: str, message: str, rule: str, *remedies: str) -> Placement:
    return Placement(pod=pod, refusal=Refusal(reason=reason, message=message, rule=rule, remedies=remedies))
