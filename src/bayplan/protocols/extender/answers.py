"""What an extender answers: bodies that kube-scheduler takes, always with every key it may look for.

Answers come in pieces, so that echoed nodes need not be copied; their length is the sum of the pieces' lengths.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from bayplan.protocols.extender.arguments import ExtenderArgs
from bayplan.protocols.extender.bounds import Body

_encode = msgspec.json.Encoder().encode


class FilterAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Why nodes were refused, by name: `failed` may pass after a preemption, `unresolvable` will not."""

    failed: Mapping[str, str]
    unresolvable: Mapping[str, str] = {}


class _Score(msgspec.Struct):
    Host: str
    Score: int


def filter_answer(args: ExtenderArgs, answer: FilterAnswer) -> list[Body]:
    """ExtenderFilterResult: the nodes asked about less those refused, in the form in which they were asked about.

    A name that was not asked about is never answered, and the order is the request's.
    """
    failed, unresolvable = answer.failed, answer.unresolvable
    tail = b',"FailedNodes":%s,"FailedAndUnresolvableNodes":%s,"Error":""}' % (_encode(failed), _encode(unresolvable))

    def passes(name: str) -> bool:
        return name not in failed and name not in unresolvable

    if args.nodes is None:
        names = [name for name in args.names if passes(name)]
        return [b'{"Nodes":null,"NodeNames":', _encode(names), tail]
    return [b'{"Nodes":{"metadata":{},"items":', *args.nodes.echo(passes), b'},"NodeNames":null', tail]


def prioritize_answer(scores: Iterable[tuple[str, int]]) -> list[Body]:
    """HostPriorityList: a bare list of hosts and scores; kube-scheduler expects 0 to 10."""
    return [_encode([_Score(Host=name, Score=score) for name, score in scores])]


def bind_answer(error: str = "") -> list[Body]:
    """ExtenderBindingResult; no error: the pod is bound."""
    return [_encode({"Error": error})]


def preempt_answer(victims: Mapping[str, tuple[Sequence[str], int]]) -> list[Body]:
    """ExtenderPreemptionResult: node -> UIDs of its victims and disruption budgets broken. Nodes may be left out."""
    return [
        _encode(
            {
                "NodeNameToMetaVictims": {
                    node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": violations}
                    for node, (uids, violations) in victims.items()
                }
            }
        )
    ]
