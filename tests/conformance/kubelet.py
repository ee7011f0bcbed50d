"""Holds the kubelet policy, in its exact mode, against answers of a real kubelet.

    python tests/conformance/kubelet.py FILE...

Files are JSON lines, plain or gzipped, each line `{"in": scenario, "out": answer, "flags": [...]}`. Every answer of a
line must match: admissions with reason, message and class, CPU sets, memory blocks, devices, merged hints, and the
shared pool and memory state after each event. The first differences are printed; the last line is
`N passed, M failed`, and the exit status tells whether any failed.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bayplan.idset import CpuSet, NodeSet, bits
from bayplan.policies.kubelet.admission import Kubelet, Outcome, Seen, Step
from bayplan.policies.kubelet.configuration import ReservedMemory
from bayplan.policies.kubelet.distributed import NeverEndsError, take_distributed
from bayplan.policies.kubelet.hints import Hints, Listed, NoPreference
from bayplan.policies.kubelet.memory_tables import SeenNode
from bayplan.policies.kubelet.merge import merge, merge_single_node
from bayplan.policies.kubelet.packed import AllocationError, take_packed
from bayplan.policies.kubelet.settings import Settings, StartError
from bayplan.policies.kubelet.state import KubeletPanicError, State
from bayplan.policies.kubelet.topology import CpuTopology, SeenCpu
from bayplan.policies.kubelet.walk import merge_by_walking
from bayplan.resources.devices import DeviceUnit
from bayplan.workload.model import Pod, PodResources, Request

SHOWN = 10

Json = dict[str, Any]


def seen_machine(machine: Json) -> Seen:
    """The machine of a scenario."""
    nodes = tuple(
        SeenNode(
            id=n["id"],
            memory_bytes=n.get("memory", 0),
            hugepages={int(kib) * 1024: count for kib, count in (n.get("hugepages") or {}).items()},
        )
        for n in machine["numa"]
    )
    rows = [tuple(n.get("distances") or ()) for n in machine["numa"]]
    known = all(len(row) == len(nodes) for row in rows)
    cpus = CpuTopology(
        (SeenCpu(*cpu) for cpu in machine["cpus"]),
        cpu_count=machine.get("num_cpus"),
        socket_count=machine.get("num_sockets"),
    )
    return Seen(cpus, nodes, tuple(rows) if known else ())


def settings_of(config: Json) -> Settings:
    """The kubelet configuration of a scenario."""
    reserved = config.get("reserved_cpus")
    milli = config.get("reserved_cpu_milli")
    return Settings(
        cpu_policy=config.get("cpu_policy", "none"),
        cpu_options=config.get("cpu_options") or {},
        reserved_cpus=CpuSet.parse(reserved) if reserved else None,
        reserved_cpu_milli=None if milli is not None and milli < 0 else milli,
        memory_policy=config.get("memory_policy", "None"),
        reserved_memory=tuple(
            ReservedMemory(node=r["numa"], limits={k: v for k, v in r.items() if k != "numa"})
            for r in config.get("reserved_memory") or ()
        ),
        node_reserved=config.get("node_reserved"),
        topology_policy=config.get("topology_policy", "none"),
        scope=config.get("scope", "container"),
        topology_options=config.get("topology_options") or {},
        feature_gates=config.get("feature_gates") or {},
        devices={
            name: tuple(
                DeviceUnit(
                    id=d["id"],
                    nodes=None if d.get("numa") is None else NodeSet(d["numa"]),
                    healthy=not d.get("unhealthy", False),
                )
                for d in units
            )
            for name, units in (config.get("devices") or {}).items()
        },
    )


def container_of(c: Json, *, init: bool) -> Request:
    """A container; limits are the requests unless they are given (negative: none)."""
    cpu, memory = c.get("cpu_milli", 0), c.get("memory", 0)
    cpu_limit, memory_limit = c.get("cpu_limit_milli") or cpu, c.get("memory_limit") or memory
    return Request(
        name=c["name"],
        cpu_milli=cpu,
        cpu_limit_milli=None if cpu_limit < 0 else cpu_limit,
        memory_bytes=memory,
        memory_limit_bytes=None if memory_limit < 0 else memory_limit,
        hugepages={_page_bytes(k): v for k, v in (c.get("hugepages") or {}).items()},
        devices=c.get("devices") or {},
        init=init,
        restartable=c.get("restartable", False),
    )


def _page_bytes(name: str) -> int:
    size = name.removeprefix("hugepages-")
    return int(size[:-2]) * {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30}[size[-2:]]


def pod_of(p: Json) -> Pod:
    """A pod of an event."""
    level = p.get("pod_resources")
    resources = None
    if level:
        cpu, memory = level.get("cpu_milli"), level.get("memory")
        resources = PodResources(cpu_milli=cpu, cpu_limit_milli=cpu, memory_bytes=memory, memory_limit_bytes=memory)
    return Pod(
        uid=p["uid"],
        name=p["uid"],
        init=tuple(container_of(c, init=True) for c in p.get("init") or ()),
        containers=tuple(container_of(c, init=False) for c in p["containers"]),
        resources=resources,
    )


class Replay:
    """One scenario, event by event."""

    def __init__(self, scenario: Json) -> None:
        self.seen = seen_machine(scenario["machine"])
        self.config = scenario["config"]
        self.trace = bool(scenario.get("trace"))
        self.events = scenario.get("events") or []
        self.kubelet: Kubelet
        self.state: State
        self.asked: Pod

    def run(self) -> Json:
        """The whole answer."""
        try:
            self.kubelet = Kubelet(self.seen, settings_of(self.config), exact=True)
            self.state = self.kubelet.start()
        except StartError as error:
            return {"init": {"ok": False, "stage": error.stage, "error": error.message}}
        return {"init": self.initial(), "results": list(self.results())}

    def initial(self) -> Json:
        """What the node looks like at the start."""
        cpus, t = self.kubelet.cpu_manager, self.seen.cpus
        answer: Json = {
            "ok": True,
            "cpus_per_core": t.cpus_per_core,
            "cpus_per_socket": t.cpus_per_socket,
            "cpus_per_uncore": t.cpus_per_l3,
        }
        if cpus.active:
            answer["reserved"] = shown(cpus.reserved)
            answer["reserved_physical"] = shown(cpus.reserved_physical)
            answer["allocatable"] = shown(cpus.allocatable())
            answer["shared"] = shown(self.state.shared)
        self.add_memory(answer)
        return answer

    def results(self) -> Iterator[Json]:
        """One answer an event, fewer after a panic or a start that failed."""
        for event in self.events:
            answer: Json = {"op": event["op"]}
            try:
                answer.update(getattr(self, f"on_{event['op']}")(event))
            except KubeletPanicError as error:
                yield {**answer, "shared": "", "panic": str(error)}
                return
            except StartError as error:
                yield {**answer, "shared": "", "init_error": f"{error.stage}: {error.message}"}
                return
            yield answer

    def on_admit(self, event: Json) -> Json:
        """A pod arrives."""
        return self.admission(pod_of(event["pod"]))

    def admission(self, pod: Pod) -> Json:
        """The answer to one admission."""
        self.asked = pod
        outcome = self.kubelet.admit(self.state, pod)
        self.state = outcome.state
        answer: Json = {"admitted": outcome.refusal is None, "qos": pod.qos}
        if outcome.refusal is None:
            answer["containers"] = self.containers(pod)
        else:
            answer["reason"] = outcome.refusal.reason
            answer["message"] = outcome.refusal.message
        if outcome.steps:
            answer["trace"] = self.steps(outcome)
        return self.add_state(answer)

    def steps(self, outcome: Outcome) -> list[Json]:
        """The merges, with all hints where the scenario asks for them."""
        rows = []
        for step in outcome.steps:
            row: Json = {
                "container": step.container,
                "merged": {"numa": numbers(step.merged.nodes), "preferred": step.merged.preferred},
                "admit": step.admitted,
            }
            if self.trace:
                row["hints"] = self.hints(step)
            rows.append(row)
        return rows

    def hints(self, step: Step) -> Json:
        """All hints of a merge by provider and type."""
        answer: Json = {}
        for provider, lists in step.lists.items():
            names = self.names(provider, step)
            indifferent = isinstance(lists[0], NoPreference) and lists[0].preferred
            if not names or (indifferent and provider != "device"):
                answer[provider] = None
                continue
            answer[provider] = {name: listed(entry) for name, entry in zip(names, lists, strict=True)}
        return answer

    def names(self, provider: str, step: Step) -> list[str]:
        """The types for which a provider was asked, in the order of its lists."""
        asked = self.asked
        some = (
            asked.all_containers
            if step.container == "*"
            else [c for c in asked.all_containers if c.name == step.container]
        )
        if provider == "cpu":
            return ["cpu"]
        if provider == "device":
            return sorted({n for c in some for n in c.devices if self.kubelet.device_manager.knows(self.state, n)})
        if step.container == "*":
            return sorted({k for c in asked.containers for k in c.memory_types})
        return list(some[0].memory_types)

    def containers(self, pod: Pod) -> Json:
        """What every container of a pod holds."""
        uid, rows = pod.uid, {}
        for c in pod.all_containers:
            hint = self.state.hint_of(uid, c.name)
            cpus = self.state.assigned.get(uid, {}).get(c.name)
            row: Json = {
                "affinity": {"numa": numbers(hint.nodes), "preferred": hint.preferred},
                "cpus": None if cpus is None else shown(cpus),
                "memory": sorted(
                    (
                        {"type": b.type, "numa": numbers(b.nodes), "size": b.size}
                        for b in self.state.blocks.get(uid, {}).get(c.name, ())
                    ),
                    key=lambda b: str(b["type"]),
                ),
            }
            given = self.state.given.get(uid, {}).get(c.name)
            if given:
                row["devices"] = {name: sorted(ids) for name, ids in given.items()}
            rows[c.name] = row
        return rows

    def on_start(self, event: Json) -> Json:
        """A container is about to start."""
        pod = self.state.pods.get(event["uid"])
        answer: Json = {}
        if pod is None:
            answer["message"] = "no such pod"
        else:
            self.state = self.kubelet.start_container(self.state, pod.uid, event["container"])
            answer["containers"] = self.containers(pod)
        self.add_state(answer)
        return answer

    def on_stop(self, event: Json) -> Json:
        """A container has ended."""
        self.state = self.kubelet.stop_container(self.state, event["uid"], event["container"])
        return self.add_state({})

    def on_remove_pod(self, event: Json) -> Json:
        """A pod is gone."""
        self.state = self.kubelet.remove_pod(self.state, event["uid"])
        return self.add_state({})

    def on_remove_container(self, event: Json) -> Json:
        """The managers are told to forget a container."""
        self.state = self.kubelet.remove_container(self.state, event["uid"], event["container"])
        return self.add_state({})

    def on_readmit(self, event: Json) -> Json:
        """A pod that is there is admitted again."""
        return self.admission(self.state.pods[event["uid"]])

    def on_restart(self, event: Json) -> Json:
        """The kubelet restarts, with another configuration perhaps; each active pod is admitted again."""
        if event.get("config"):
            self.config = event["config"]
        self.kubelet = Kubelet(self.seen, settings_of(self.config), exact=True)
        self.state = self.kubelet.start(self.state)
        pods = list(self.state.pods.values())
        rows = [{"op": f"readmit {pod.uid}", **self.admission(pod)} for pod in pods]
        return self.add_state({"readmit": rows} if rows else {})

    def add_state(self, answer: Json) -> Json:
        """The shared pool and the memory state."""
        # With CPU policy none the kubelet keeps no default set.
        answer["shared"] = shown(self.state.shared) if self.kubelet.cpu_manager.active else ""
        self.add_memory(answer)
        return answer

    def add_memory(self, answer: Json) -> None:
        """The memory state, if there is a memory manager."""
        memory, s = self.kubelet.memory_manager, self.state
        if not memory.active:
            return
        answer["memory_state"] = {
            str(node): {
                "assignments": s.assignments[i],
                "cells": numbers(s.cells[i]),
                "free": {k: v[i] for k, v in s.free.items() if memory.allocatable[k][i] >= 0},
                "reserved": {k: v[i] for k, v in s.reserved.items() if memory.allocatable[k][i] >= 0},
            }
            for i, node in enumerate(memory.ids)
        }


def listed(entry: Hints | NoPreference) -> Json | None:
    """One list as the answers have it."""
    if isinstance(entry, NoPreference):
        return None if entry.preferred else {"pref": [], "non": []}
    hints = entry.listed()
    return {"pref": [m for m, p in hints if p], "non": [m for m, p in hints if not p]}


def shown(mask: int) -> str:
    """A CPU mask in list format."""
    return str(CpuSet.of_mask(mask))


def numbers(mask: int | None) -> list[int] | None:
    """A mask of nodes as a list."""
    return None if mask is None else list(bits(mask))


def take(scenario: Json) -> Json:
    """Single allocations."""
    topology = seen_machine(scenario["machine"]).cpus
    rows: list[Json] = []
    for case in scenario["cases"]:
        available = CpuSet.parse(case["avail"]).mask
        try:
            if case.get("distribute"):
                cpus = take_distributed(topology, available, case["n"], case.get("group") or 1)
            else:
                cpus = take_packed(
                    topology, available, case["n"], align_l3=case.get("uncore", False), spread=case.get("spread", False)
                )
            rows.append({"cpus": shown(cpus)})
        except AllocationError as error:
            rows.append({"cpus": None, "error": str(error)})
        except NeverEndsError:
            rows.append({"cpus": None, "hang": True})
            break
    return {"take": rows}


def merging(scenario: Json) -> Json:
    """A single merge of lists that are written out."""
    lists: list[Hints | NoPreference] = []
    for provider in scenario["providers"]:
        if not provider:
            lists.append(NoPreference(True))
            continue
        for hints in provider.values():
            if not hints:
                lists.append(NoPreference(hints is None))
            else:
                lists.append(Listed([(mask, bool(preferred)) for mask, preferred in hints]))
    nodes = scenario["machine"]["numa"]
    full = sum(1 << n["id"] for n in nodes)
    config = scenario["config"]
    policy = config.get("topology_policy")
    closest = (config.get("topology_options") or {}).get("prefer-closest-numa-nodes") == "true"
    rows = {n["id"]: n["distances"] for n in nodes}
    if policy == "single-numa-node":
        merged = merge_single_node(lists, full)
    elif closest and list(rows) != list(range(len(rows))):
        try:
            merged = merge_by_walking(lists, full, rows)
        except KubeletPanicError as error:
            return {"panic": str(error)}
    else:
        merged = merge(lists, full, list(rows.values()) if closest else None)
    return {
        "merged": {"numa": numbers(merged.nodes), "preferred": merged.preferred},
        "admit": merged.preferred or policy == "best-effort",
    }


def answer_to(scenario: Json) -> Json:
    """Whatever the scenario asks."""
    kind = scenario.get("kind")
    if kind == "take":
        return take(scenario)
    if kind == "merge":
        return merging(scenario)
    return Replay(scenario).run()


def differences(expected: object, got: object, place: str = "") -> Iterator[str]:
    """Where two answers differ. A key that is absent is equal to one that is null."""
    if isinstance(expected, dict) and isinstance(got, dict):
        for key in sorted({*expected, *got}):
            yield from differences(expected.get(key), got.get(key), f"{place}.{key}")
    elif isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        for i, (one, other) in enumerate(zip(expected, got, strict=True)):
            yield from differences(one, other, f"{place}[{i}]")
    elif _placeless(expected) != _placeless(got):
        yield f"{place}: expected {json.dumps(expected)[:300]}, got {json.dumps(got)[:300]}"


def _placeless(value: object) -> object:
    """A message without the folder in which that kubelet kept its checkpoints."""
    return re.sub(r'(checkpoint file ").*/', r"\1", value) if isinstance(value, str) else value


def lines_of(path: Path) -> Iterator[str]:
    """The lines of a file, plain or gzipped."""
    with path.open("rb") as raw:
        zipped = raw.read(2) == b"\x1f\x8b"
    with gzip.open(path, "rt") if zipped else path.open("rt") as lines:
        yield from lines


def check_line(line: str) -> list[str]:
    """The differences that one line shows; empty: it matches."""
    entry = json.loads(line)
    expected = {k: v for k, v in entry["out"].items() if k != "id"}
    try:
        got = answer_to(entry["in"])
    except Exception:  # noqa: BLE001 - whatever goes wrong in a line is that line's failure
        return [f"{entry['in'].get('id')}: {traceback.format_exc()}"]
    return [f"{entry['in'].get('id')}: {text}" for text in differences(expected, got)]


def main(paths: list[str]) -> int:
    """Run the files; exit status 0 if all lines match, 1 if some do not, 2 if there is nothing to run."""
    if not paths:
        print(__doc__, file=sys.stderr)
        return 2
    passed, failed, printed = 0, 0, 0
    for path in paths:
        for line in lines_of(Path(path)):
            if not line.strip():
                continue
            found = check_line(line)
            passed, failed = passed + (not found), failed + bool(found)
            if found and printed < SHOWN:
                printed += 1
                print(f"{path}: " + "\n    ".join(found[:5]))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
