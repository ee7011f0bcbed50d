"""Admits, changes and releases on one machine, all or nothing, through the policy and the resource plugins.

The policy proposes; every plugin has to be able to take what is proposed; only then the ledger changes, in one step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import msgspec

from bayplan.errors import BayplanError
from bayplan.hub.ledger import Contents, Entry, Ledger
from bayplan.machine import Machine
from bayplan.policies.policy import Policy, Proposal
from bayplan.resources.decision import Choice, Decision, Grant, Refusal
from bayplan.resources.effects import Effects
from bayplan.resources.plugin import ConflictError, Holdings, ResourcePlugin
from bayplan.workload.model import Pod


class UnknownPodError(BayplanError):
    """The pod is not on this machine."""


class Hub:
    """One machine's resources under one policy."""

    def __init__(
        self, machine: Machine, policy: Policy, plugins: Sequence[ResourcePlugin], ledger: Ledger | None = None
    ) -> None:
        self.machine = machine
        self.policy = policy
        self.plugins = tuple(plugins)
        self.ledger = Ledger() if ledger is None else ledger
        if ledger is None:
            start = policy.begin()
            holdings = {plugin.name: plugin.empty(machine) for plugin in self.plugins}
            self.ledger.contents = Contents({}, {}, start.pools, holdings, start.memo)

    def admit(self, pod: Pod) -> Decision:
        """Grants for all containers of a pod, or a refusal; a refusal leaves every grant as it was."""
        if pod.uid in self.ledger.pods:
            return _refused(pod, "AlreadyExists", f"pod {pod.full_name} is on this node already", "hub/one-of-each")
        return self._settle(pod, self.policy.admit(self.ledger.view, pod))

    def resize(self, pod: Pod) -> Decision:
        """The pod with this uid now asks for what `pod` says. Raises `UnknownPodError`."""
        self._known(pod.uid)
        return self._settle(pod, self.policy.resize(self.ledger.view, pod))

    def started(self, uid: str, container: str) -> None:
        """A container is about to start, so that init containers before it have ended. Raises `UnknownPodError`."""
        self._commit(self.policy.started(self.ledger.view, self._known(uid), container), None)

    def release(self, uid: str) -> None:
        """A pod is gone: all that it held is free. Raises `UnknownPodError`."""
        self._known(uid)
        self._commit(self.policy.release(self.ledger.view, uid), None)

    def restore(self, entries: Sequence[Entry]) -> None:
        """Fill an empty ledger with what pods hold. After an error (`ConflictError`, the policy's) it stays empty."""
        if self.ledger.pods:
            raise BayplanError("the ledger is not empty; only an empty one can be restored")
        pods = {entry.pod.uid: entry.pod for entry in entries}
        grants = {entry.pod.uid: entry.grants for entry in entries}
        proposal = self.policy.restore(pods, grants)
        holdings = self._take(self.ledger.contents.holdings, grants, tolerated=proposal.tolerated)
        self._enter(Contents(pods, grants, proposal.pools, holdings, proposal.memo), tolerated=proposal.tolerated)

    def advise(self, pod: Pod, refusal: Refusal) -> Refusal:
        """The refusal with what would have to change for the pod to be admitted; may take its time."""
        found = self.policy.remedies(self.ledger.view, pod, refusal)
        return msgspec.structs.replace(refusal, remedies=(*refusal.remedies, *found))

    def effects(self, decision: Decision) -> tuple[Effects, ...]:
        """For the pod of an admitted decision, and for all containers whose shared CPUs it may have changed."""
        own = self.ledger.grants(decision.pod)
        touched = {grant.pool for grant in own if grant.pool} | ({*self.ledger.pools} if decision.admitted else set())
        grants = list(own)
        for uid in self.ledger.pods:
            if uid != decision.pod:
                grants.extend(g for g in self.ledger.grants(uid) if g.pool and g.pool in touched)
        return tuple(self._effects(grant) for grant in grants)

    def free(self) -> dict[str, int]:
        """What nobody holds, by resource."""
        amounts: dict[str, int] = {}
        for plugin in self.plugins:
            amounts.update(plugin.free(self.machine, self.ledger.contents.holdings[plugin.name]))
        return amounts

    def check(self) -> None:
        """Raise `LedgerError` if the ledger contradicts itself."""
        self.ledger.check(self.machine, self.plugins)

    def _known(self, uid: str) -> Pod:
        pod = self.ledger.pods.get(uid)
        if pod is None:
            raise UnknownPodError(f"no pod {uid!r} on {self.machine.name}")
        return pod

    def _settle(self, pod: Pod, proposal: Proposal) -> Decision:
        trace = () if proposal.decision is None else proposal.decision.trace
        try:
            decision = _checked(pod, proposal)
            if decision.admitted:
                self._commit(proposal, pod)
            elif proposal.tolerated:
                # Such a policy answers as a system that may remember something of a pod that it refused.
                self._commit(proposal, None)
        except ConflictError as conflict:
            return _refused(pod, "ResourceConflict", str(conflict), f"resource/{conflict.resource}", trace)
        return decision

    def _commit(self, proposal: Proposal, pod: Pod | None) -> None:
        before = self.ledger.contents
        holdings = before.holdings
        grants, pods = before.grants, before.pods
        if proposal.grants:
            for uid in proposal.grants:
                holdings = self._give_back(holdings, before.grants.get(uid, ()))
            holdings = self._take(holdings, proposal.grants, tolerated=proposal.tolerated)
            grants = {uid: own for uid, own in {**before.grants, **proposal.grants}.items() if own}
            pods = {uid: p for uid, p in before.pods.items() if proposal.grants.get(uid, True)}
        if pod is not None:
            pods = {**pods, pod.uid: pod}
        self._enter(Contents(pods, grants, proposal.pools, holdings, proposal.memo), tolerated=proposal.tolerated)

    def _enter(self, contents: Contents, *, tolerated: bool) -> None:
        problem = "" if tolerated else contents.pool_problem(self.machine)
        if problem:
            raise ConflictError("cpu", self.machine.name, problem)
        self.ledger.contents = contents

    def _take(
        self, holdings: Mapping[str, Holdings], grants: Mapping[str, tuple[Grant, ...]], *, tolerated: bool
    ) -> Mapping[str, Holdings]:
        new = dict(holdings)
        for plugin, own in product(self.plugins, grants.values()):
            for grant in own:
                try:
                    new[plugin.name] = plugin.take(self.machine, new[plugin.name], grant)
                except ConflictError:
                    if not tolerated:
                        raise
        return new

    def _give_back(self, holdings: Mapping[str, Holdings], grants: tuple[Grant, ...]) -> Mapping[str, Holdings]:
        new = dict(holdings)
        for plugin in self.plugins:
            for grant in grants:
                new[plugin.name] = plugin.give_back(self.machine, new[plugin.name], grant)
        return new

    def _effects(self, grant: Grant) -> Effects:
        effects = Effects(pod=grant.pod, container=grant.container)
        for plugin in self.plugins:
            effects = plugin.effects(self.machine, grant, effects)
        return effects


def _refused(pod: Pod, reason: str, message: str, rule: str, trace: tuple[Choice, ...] = ()) -> Decision:
    return Decision(pod=pod.uid, refusal=Refusal(reason=reason, message=message, rule=rule), trace=trace)


def _checked(pod: Pod, proposal: Proposal) -> Decision:
    """The answer. Raises `ConflictError` if there is none, or if one that admits has no grant for a container."""
    decision = proposal.decision
    if decision is None:
        raise ConflictError("policy", pod.full_name, "the policy gave no answer")
    for uid, grants in proposal.grants.items():
        if any(grant.pod != uid for grant in grants):
            raise ConflictError("policy", pod.full_name, f"a grant for {uid} names another pod")
    if decision.admitted and proposal.grants.get(pod.uid) != decision.grants:
        raise ConflictError("policy", pod.full_name, "the policy answers with other grants than it would enter")
    if decision.admitted and [g.container for g in decision.grants] != [c.name for c in pod.all_containers]:
        raise ConflictError("policy", pod.full_name, "the policy's grants are not those of the pod's containers")
    return decision
