"""Would this node's policy admit this pod? Asked by the scheduler side for all nodes, before a pod is bound.

Nodes tell what they are and hold (`sources`); their hubs are the very ones that `bayplan plan` asks. A pod that a node
would refuse stays Pending with numbers, instead of being bound, failing, and being made again. Several pods decided in
short order cannot take the same place: `assume` counts each until it is seen bound (`set_pod`), and asks again first.

Nothing is asked per request that was asked before: answers are kept by the pod's shape and the node's state. Pure:
`now` is seconds since 1970.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from bayplan.errors import InputError
from bayplan.fleet.published.asks import Asks, asks_of, left, objection, score
from bayplan.fleet.published.books import NodeBooks
from bayplan.fleet.published.doubts import ZoneSettings, doubt_about
from bayplan.fleet.published.kinds import Kinds, PolicyOf
from bayplan.fleet.published.layout import HEARTBEAT_ANNOTATION, LAYOUT_ANNOTATION
from bayplan.fleet.published.pod_objects import node_uid
from bayplan.fleet.published.sources import TITLES, Origin, Source, layout_source, topology_source, values_of
from bayplan.fleet.published.states import State, States, Verdict
from bayplan.fleet.shapes import Shapes
from bayplan.protocols.kubernetes import NodeObject, PodObject
from bayplan.resources.decision import Refusal
from bayplan.resources.plugin import ResourcePlugin
from bayplan.workload.model import Pod
from bayplan.workload.times import parse_moment

RULE = "zones/admission"
# What the pods of one controller differ in, and no policy goes by.
_OWN = (
    "statefulset.kubernetes.io/pod-name",
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/job-completion-index",
    "kubectl.kubernetes.io/",
    "kubernetes.io/config.",
    "cni.projectcalico.org/",
    "k8s.v1.cni.cncf.io/",
    "k8s.ovn.org/",
)
_FEWEST_UNKNOWN = 0


class Checked(NamedTuple):
    """Why nodes were refused, by name: `failed` may pass when pods go, `unresolvable` will not."""

    failed: dict[str, str]
    unresolvable: dict[str, str]


class ZoneChecks:
    """All published nodes of a cluster. Mutable; one user at a time.

    `policies` gives a policy's class by name, `plugins` are the kinds of resources: what `bayplan.files.plugins` loads.
    """

    def __init__(self, settings: ZoneSettings, policies: PolicyOf, plugins: Sequence[ResourcePlugin]) -> None:
        self.settings = settings
        self.kinds = Kinds(policies, plugins)
        self.states = States()
        self._nodes: dict[str, NodeBooks] = {}
        self._where: dict[str, str] = {}
        self._until: dict[str, float] = {}
        self._shapes = Shapes()
        self._annotated: dict[str, str] = {}
        self._told: set[str] = set()
        self._pictures: dict[str, str] = {}
        self._changed: dict[str, None] = {}

    @property
    def anything_told(self) -> bool:
        """Whether some node has a document, be it one that cannot be read."""
        return bool(self._told)

    def set_layout(self, node: str, document: bytes | Mapping[str, Any]) -> str:
        """A NodeLayout came or changed. Gives what is wrong with it; then the node counts as one without.

        `document` is its JSON, or what was read from that.
        """
        return self._read(node, "layout", lambda: layout_source(_values(document), self.kinds, node=node))

    def set_topology(self, node: str, document: bytes | Mapping[str, Any]) -> str:
        """A NodeResourceTopology came or changed. Gives what is wrong with it."""
        return self._read(node, "topology", lambda: topology_source(_values(document), self.kinds, node=node))

    def set_source(self, node: str, source: Source) -> None:
        """A document that was made here rather than read."""
        self._read(node, source.origin, lambda: source)

    def set_node(self, node: NodeObject) -> str:
        """A Node came or changed: its annotations may hold a layout and its heartbeat. Gives what is wrong with it."""
        text = node.annotations.get(LAYOUT_ANNOTATION)
        if text is None:
            if self._annotated.pop(node.name, None) is not None:
                self.remove_document(node.name, "annotation")
            return ""
        problem = ""
        if self._annotated.get(node.name) != text:
            self._annotated[node.name] = text
            problem = self._read(
                node.name,
                "annotation",
                lambda: layout_source(values_of(text.encode()), self.kinds, node=node.name, origin="annotation"),
            )
        beat = node.annotations.get(HEARTBEAT_ANNOTATION)
        if beat:
            try:
                self.heartbeat(node.name, "annotation", parse_moment(beat))
            except InputError as error:
                problem = problem or f"annotation {HEARTBEAT_ANNOTATION}: {error}"
        return problem

    def heartbeat(self, node: str, origin: Origin, at: float) -> None:
        """The node said, at that time, that its document still holds."""
        if node in self._nodes:
            self._nodes[node].heartbeat(origin, at)

    def remove_document(self, node: str, origin: Origin) -> None:
        """A document is gone."""
        books = self._nodes.get(node)
        if books is None:
            return
        books.set_source(origin, None)
        if books.source is None and not books.problem:
            self._told.discard(node)
        self._tidy(node)

    def remove_node(self, node: str) -> None:
        """A node is gone, with all that was known of it."""
        books = self._nodes.pop(node, None)
        self._annotated.pop(node, None)
        self._told.discard(node)
        if books is not None:
            self._where = {uid: where for uid, where in self._where.items() if where != node}
            self._until = {uid: until for uid, until in self._until.items() if uid in self._where}

    def set_pod(self, pod: PodObject) -> None:
        """A pod came or changed. One that is bound counts on its node; one that has ended holds nothing any more."""
        uid = node_uid(pod)
        node = pod.spec.node_name or ""
        if pod.has_ended:
            self._pictures.pop(pod.metadata.uid or "", None)
            if node:
                self._books(node).bind(uid, pod)  # if only it had been seen running
                self._where[uid] = node
            self._leave(uid)
            return
        if not node:
            return
        if pod.metadata.uid and pod.metadata.uid != uid:
            self._pictures[pod.metadata.uid] = uid
        before = self._where.get(uid)
        if before is not None and before != node:
            self._nodes[before].forget(uid)
        self._books(node).bind(uid, pod)
        self._where[uid] = node
        self._until.pop(uid, None)

    def remove_pod(self, uid: str) -> None:
        """A pod is gone from the API, which knew it by that uid."""
        self._leave(self._pictures.pop(uid, uid))

    def check(self, pod: Pod, names: Iterable[str], now: float) -> Checked:
        """Which of these nodes would refuse the pod, with reasons in numbers. Nodes that do not tell: as configured."""
        shape, asks = self.shape_of(pod), asks_of(pod)
        known = self.states.known(shape)
        checked = Checked({}, {})
        for name in names:
            books = self._nodes.get(name)
            if books is not None and books.assumes(pod.uid):
                continue
            doubt = doubt_about(books, self.settings, now)
            if doubt is not None:
                if doubt.refused:
                    checked.failed[name] = f"zones: {doubt.reason}"
                continue
            assert books is not None
            states = books.states(self.states, self.shape_of)
            if not states:
                self._add_broken(checked, name, books)
                continue
            for state in states:
                verdict = known.get(state.number) or self.states.verdict(shape, state, pod)
                if verdict.after is None:
                    break
            if verdict.after is None:
                into = checked.unresolvable if verdict.impossible else checked.failed
                into[name] = f"zones: {verdict.reason}"
            elif asks.anything:
                self._add_objection(checked, name, books, asks)
        return checked

    def scores(self, pod: Pod, names: Iterable[str], now: float) -> dict[str, int]:
        """0 to 10 for each node: few zones, zones that are in use already, classes and watts left over.

        Nodes that do not tell, or refuse, have 0.
        """
        shape, asks = self.shape_of(pod), asks_of(pod)
        scores = {}
        for name in names:
            books = self._nodes.get(name)
            scores[name] = _FEWEST_UNKNOWN
            if books is None or doubt_about(books, self.settings, now) is not None:
                continue
            states = books.states(self.states, self.shape_of)
            if not states:
                continue
            scores[name] = min(self.states.verdict(shape, state, pod).score for state in states)
            if asks.anything and books.source is not None:
                own = score(left(books.source.offers, books.extra_asks), asks)
                scores[name] = scores[name] if own is None else (scores[name] + own) // 2
        return scores

    def assume(self, pod: Pod, node: str, now: float, ttl_s: float) -> Refusal | None:
        """Count the pod on that node from now on, until it is seen bound or `ttl_s` have passed.

        It is asked about once more, for others may have been decided since; gives the refusal, and then counts nothing.
        """
        self.forget(pod.uid)
        checked = self.check(pod, (node,), now)
        reason = checked.failed.get(node) or checked.unresolvable.get(node)
        if reason is not None:
            return Refusal(reason="Unschedulable", message=reason, rule=RULE)
        if self._where.get(pod.uid) is None:
            self._books(node).assume(pod, now + ttl_s)
            self._where[pod.uid] = node
            self._until[pod.uid] = now + ttl_s
        return None

    def forget(self, uid: str) -> None:
        """A pod that was assumed will not be bound there."""
        if self._until.pop(uid, None) is not None:
            node = self._where.pop(uid)
            self._nodes[node].forget(uid)
            self._tidy(node)

    def expire(self, now: float) -> list[str]:
        """Forget pods that were assumed and not seen in time; gives their uids."""
        late = [uid for uid, until in self._until.items() if until <= now]
        for uid in late:
            self.forget(uid)
        return late

    def without(self, pod: Pod, node: str, victims: Iterable[str], now: float) -> bool:
        """Whether the node would admit the pod if these pods (uids) went.

        Of pods that only numbers by zone count, nobody knows what they would free: they count as still there.
        """
        books = self._nodes.get(node)
        victims = tuple(victims)
        doubt = doubt_about(books, self.settings, now)
        if doubt is not None:
            return not doubt.refused
        assert books is not None
        states = books.states(self.states, self.shape_of)
        if not states:
            return self.settings.missing == "skip"
        return all(_admits_without(state, pod, victims) for state in states)

    def books(self, node: str) -> NodeBooks | None:
        """What is known of a node, for those who explain it."""
        return self._nodes.get(node)

    def states_of(self, node: str) -> tuple[State, ...]:
        """The states in which a node may be now, the likeliest first; none where it does not tell."""
        books = self._nodes.get(node)
        return () if books is None else books.states(self.states, self.shape_of)

    def doubt_of(self, node: str, now: float) -> str:
        """Why a node's hub is not asked; empty: it is."""
        books = self._nodes.get(node)
        doubt = doubt_about(books, self.settings, now)
        if doubt is not None:
            return doubt.reason
        assert books is not None
        return "" if books.states(self.states, self.shape_of) else books.problem

    def verdict(self, pod: Pod, state: State) -> Verdict:
        """What a hub in that state says."""
        return self.states.verdict(self.shape_of(pod), state, pod)

    def settle(self, most: int = 64) -> int:
        """Work out the states of nodes that changed, so that requests need not; gives how many are left.

        Only for speed: a request works out what it needs.
        """
        for name in list(self._changed)[:most]:
            del self._changed[name]
            books = self._nodes.get(name)
            if books is not None:
                books.states(self.states, self.shape_of)
        return len(self._changed)

    def problems(self) -> Mapping[str, str]:
        """Node -> what is wrong with its documents."""
        return {name: books.problem for name, books in self._nodes.items() if books.problem}

    def shape_of(self, pod: Pod) -> bytes:
        """Pods of one shape are answered alike."""
        if any(key.startswith(_OWN) for key in (*pod.labels, *pod.annotations)):
            labels, annotations = _common(pod.labels), _common(pod.annotations)
            pod = msgspec.structs.replace(pod, labels=labels, annotations=annotations)
        return self._shapes.of(pod).key

    def _read(self, node: str, origin: Origin, read: Callable[[], Source]) -> str:
        books = self._books(node)
        self._told.add(node)
        try:
            books.set_source(origin, read())
        except InputError as error:
            books.set_source(origin, None, f"{TITLES[origin]} of {node}: {error}")
        return books.problem

    def _add_broken(self, checked: Checked, name: str, books: NodeBooks) -> None:
        if self.settings.missing == "refuse":
            checked.failed[name] = f"zones: {books.problem}"

    def _add_objection(self, checked: Checked, name: str, books: NodeBooks, asks: Asks) -> None:
        source: Source | None = books.source
        against = "" if source is None else objection(left(source.offers, books.extra_asks), asks)
        if against:
            checked.failed[name] = against

    def _leave(self, uid: str) -> None:
        where = self._where.pop(uid, "")
        self._until.pop(uid, None)
        if where in self._nodes:
            self._nodes[where].leave(uid)
            self._changed[where] = None
            self._tidy(where)

    def _books(self, node: str) -> NodeBooks:
        """The books of a node, for something to be changed in them."""
        self._changed[node] = None
        books = self._nodes.get(node)
        if books is None:
            books = self._nodes[node] = NodeBooks(node)
        return books

    def _tidy(self, node: str) -> None:
        if self._nodes[node].empty:
            del self._nodes[node]


def _values(document: bytes | Mapping[str, Any]) -> Mapping[str, Any]:
    return values_of(document) if isinstance(document, bytes) else document


def _common(pairs: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in pairs.items() if not key.startswith(_OWN)}


def _admits_without(state: State, pod: Pod, victims: Sequence[str]) -> bool:
    hub = state.kind.hub(state.contents)
    for uid in victims:
        if uid in hub.ledger.pods:
            hub.release(uid)
    return hub.admit(pod).admitted
