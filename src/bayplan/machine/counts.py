"""One line that says how large a machine is, and lets two readings of it be compared."""

from __future__ import annotations

from bayplan.machine.model import Machine


def counts_line(machine: Machine) -> str:
    """`packages=2 dies=0 numa=4 cores=128 pus=128 l2=128 l3=4`.

    Counts what the machine tells: a package or core that it does not tell apart (`core_id` -1) is none, and dies
    count only where a package has more than one. L2 and L3 are data or unified caches.
    """
    counts = {
        "packages": len(machine.packages),
        "dies": len(machine.dies),
        "numa": len(machine.nodes),
        "cores": sum(core.core_id >= 0 for core in machine.cores),
        "pus": len(machine.online),
        "l2": len(machine.caches_at(2)),
        "l3": len(machine.caches_at(3)),
    }
    return " ".join(f"{name}={count}" for name, count in counts.items())
