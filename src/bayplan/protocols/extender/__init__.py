"""The scheduler extender protocol, k8s.io/kube-scheduler/extender/v1: bodies of requests in, bodies of answers out.

The Go structs carry no JSON tags: keys are the fields' names, capitalised, and Go reads them whatever their case.
"""

from bayplan.protocols.extender.answers import (
    FilterAnswer,
    bind_answer,
    filter_answer,
    preempt_answer,
    prioritize_answer,
)
from bayplan.protocols.extender.arguments import (
    BindArgs,
    ExtenderArgs,
    PreemptArgs,
    Victims,
    read_args,
    read_bind_args,
    read_preempt_args,
)
from bayplan.protocols.extender.node_list import NodeList

__all__ = [
    "BindArgs",
    "ExtenderArgs",
    "FilterAnswer",
    "NodeList",
    "PreemptArgs",
    "Victims",
    "bind_answer",
    "filter_answer",
    "preempt_answer",
    "prioritize_answer",
    "read_args",
    "read_bind_args",
    "read_preempt_args",
]
