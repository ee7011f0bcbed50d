"""A machine as a node with cards: what a fleet would get by one more of it.

Nothing is held back for the system: what a kubelet reserves is not known of a machine. The model is the GPUs' name as
NVIDIA's GPU Feature Discovery writes it into `nvidia.com/gpu.product` (spaces become dashes).
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.errors import InputError
from bayplan.fleet.cards.model import CardNode
from bayplan.machine.model import Device, Machine

_KINDS = ("gpu", "accelerator")


def machine_node(machine: Machine) -> CardNode:
    """CPUs, memory (without that of GPUs) and cards: its GPUs, or its accelerators where it has none.

    Raises `InputError` for a machine with cards of several models.
    """
    cards = _cards(machine)
    models = sorted({card.name for card in cards})
    if len(models) > 1:
        raise InputError("cards of several models in one node", source=machine.name, value=" and ".join(models))
    return CardNode(
        name=machine.name,
        cpu_milli=1000 * len(machine.online),
        memory_bytes=sum(node.memory_bytes for node in machine.nodes if node.kind != "gpu"),
        cards=len(cards),
        model=models[0].replace(" ", "-") if models else "",
    )


def _cards(machine: Machine) -> Sequence[Device]:
    for kind in _KINDS:
        found = [device for device in machine.devices if device.kind == kind and not device.virtual_function_of]
        if found:
            return found
    return ()
