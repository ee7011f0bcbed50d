"""hwloc XML, format by format and fault by fault. The real topologies are read in tests/conformance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bayplan.errors import InputError
from bayplan.idset import CpuSet, NodeSet
from bayplan.machine import hwloc
from bayplan.machine.hwloc.objects import parse_bitmap
from bayplan.machine.model import HugepagePool, Machine

V1 = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc.dtd">
<topology>
  <object type="Machine" os_index="0" cpuset="0x000000ff" complete_cpuset="0x000001ff" online_cpuset="0x000000ff"
          allowed_cpuset="0x0000007f" nodeset="0x00000003">
    <info name="Architecture" value="x86_64"/>
    <info name="HostName" value="secret"/>
    <distances nbobjs="2" relative_depth="1" latency_base="10.000000">
      <latency value="1.000000"/><latency value="2.100000"/>
      <latency value="2.100000"/><latency value="1.000000"/>
    </distances>
    NODES
    <object type="Bridge" os_index="0" bridge_type="0-1" depth="0" bridge_pci="0000:[00-04]">
      <object type="PCIDev" os_index="4096" name="ConnectX-3" pci_busid="0000:01:00.0"
              pci_type="0280 [15b3:1003] [15b3:0050] 00" pci_link_speed="0.000000"/>
    </object>
  </object>
</topology>
"""


def v1_node(number: int) -> str:
    """A node that holds a socket with one cache over two cores of two CPUs."""
    first = 4 * number

    def mask(count: int, start: int = first) -> str:
        return f"0x{((1 << count) - 1) << start:08x}"

    cores = "".join(
        f'<object type="Cache" cpuset="{mask(2, start)}" cache_size="32768" depth="1" cache_type="{kind}">'
        f'<object type="Core" os_index="{start - first}" cpuset="{mask(2, start)}">'
        f'<object type="PU" os_index="{start}" cpuset="{mask(1, start)}"/>'
        f'<object type="PU" os_index="{start + 1}" cpuset="{mask(1, start + 1)}"/></object></object>'
        for start, kind in ((first, 1), (first + 2, 1))
    )
    return (
        f'<object type="NUMANode" os_index="{number}" cpuset="{mask(4)}" nodeset="{1 << number:#010x}" '
        'local_memory="4294967296"><page_type size="4096" count="1000000"/><page_type size="2097152" count="5"/>'
        f'<object type="Socket" os_index="{number}" cpuset="{mask(4)}"><info name="CPUModel" value="Xeon"/>'
        f'<object type="Cache" cpuset="{mask(4)}" cache_size="8388608" depth="3" cache_linesize="64" '
        f'cache_associativity="-1" cache_type="0">{cores}</object></object></object>'
    )


def read_v1(text: str = V1) -> Machine:
    return hwloc.read(text.replace("NODES", v1_node(0) + v1_node(1)), name="old")


def v2(objects: str, beside: str = "", **attributes: str) -> str:
    """A topology of format 2 with CPUs 0-3 in two cores."""
    settings = {"cpuset": "0x0000000f", "complete_cpuset": "0x0000000f", **attributes}
    words = " ".join(f'{name}="{value}"' for name, value in settings.items())
    cores = "".join(
        f'<object type="Core" os_index="{core}" cpuset="{5 << core:#010x}">'
        + "".join(
            f'<object type="PU" os_index="{cpu}" cpuset="{1 << cpu:#010x}" gp_index="{100 + cpu}"/>'
            for cpu in (core, core + 2)
        )
        + "</object>"
        for core in range(2)
    )
    return f'<topology version="2.0"><object type="Machine" {words}>{objects}{cores}</object>{beside}</topology>'


def memory(number: int, cpuset: str = "0x0000000f", **attributes: str) -> str:
    words = " ".join(f'{name}="{value}"' for name, value in attributes.items())
    return (
        f'<object type="NUMANode" os_index="{number}" cpuset="{cpuset}" gp_index="{number + 1}" '
        f'local_memory="1024" {words}/>'
    )


def read(text: str) -> Machine:
    return hwloc.read(text, name="x", source="x.xml")


def test_format_1_has_sockets_inside_nodes_and_caches_by_depth() -> None:
    machine = read_v1()
    assert machine.online == CpuSet.parse("0-7")
    assert machine.architecture == "x86_64"
    assert [(package.id, str(package.cpus), package.model) for package in machine.packages] == [
        (0, "0-3", "Xeon"),
        (1, "4-7", "Xeon"),
    ]
    assert [str(core.cpus) for core in machine.cores] == ["0-1", "2-3", "4-5", "6-7"]
    assert [(cache.level, cache.kind, str(cache.cpus), cache.ways) for cache in machine.caches_at(3)] == [
        (3, "unified", "0-3", 0),
        (3, "unified", "4-7", 0),
    ]
    assert {cache.kind for cache in machine.caches_at(1)} == {"data"}


def test_format_1_has_relative_distances_and_page_types() -> None:
    machine = read_v1()
    assert machine.distances == ((10, 21), (21, 10))
    assert machine.nodes[0].hugepages == (HugepagePool(page_bytes=2**21, count=5),)


def test_format_1_tells_which_cpus_are_off_and_which_were_barred() -> None:
    machine = read_v1()
    assert machine.offline == CpuSet([8])
    assert [finding.place for finding in machine.findings] == ["complete_cpuset", "allowed_cpuset"]
    fewer = read_v1(V1.replace('online_cpuset="0x000000ff"', 'online_cpuset="0x0000003f"'))
    assert fewer.online == CpuSet.parse("0-5")
    assert fewer.offline == CpuSet.parse("6-8")


def test_format_1_without_nodes_is_one_node() -> None:
    text = '<topology><object type="Machine" local_memory="7"><object type="PU" os_index="0"/></object></topology>'
    machine = read(text)
    assert [(node.id, str(node.cpus), node.memory_bytes) for node in machine.nodes] == [(0, "0", 7)]
    assert [core.core_id for core in machine.cores] == [-1]


def test_a_device_without_a_node_of_its_own_names_none() -> None:
    device = read_v1().devices[0]
    assert (device.address, device.kind, device.node) == ("0000:01:00.0", "network", None)
    assert (device.vendor, device.device, device.pci_class) == (0x15B3, 0x1003, 0x028000)


@pytest.mark.parametrize(
    ("subtype", "kind"),
    [("HBM", "hbm"), ("MCDRAM", "hbm"), ("NVM", "pmem"), ("GPUMemory", "gpu"), ("CXL-DRAM", "cxl"), ("DRAM", "dram")],
)
def test_a_second_node_with_the_same_cpus_has_none_of_its_own(subtype: str, kind: str) -> None:
    machine = read(
        v2(memory(0, subtype=subtype) + memory(1) if subtype != "DRAM" else memory(1) + memory(2, subtype="DRAM"))
    )
    with_cpus = machine.node_by_id[1]
    other = next(node for node in machine.nodes if node.id != 1)
    assert (with_cpus.cpus, with_cpus.kind) == (machine.online, "dram")
    assert (other.cpus, other.kind, other.initiators) == (CpuSet(), kind, NodeSet([1]))


def test_memory_that_hangs_from_the_machine_is_reached_from_the_closest_nodes() -> None:
    nodes = memory(0, "0x00000005") + memory(1, "0x0000000a") + memory(2, "0x0000000f", subtype="NVM")
    assert read(v2(nodes)).node_by_id[2].initiators == NodeSet([0, 1])
    matrix = (
        '<distances2 type="NUMANode" nbobjs="3" kind="5" indexing="os"><indexes length="6">2 0 1</indexes>'
        '<u64values length="10">10 30 17 </u64values><u64values length="20">30 10 20 17 20 10</u64values></distances2>'
    )
    machine = read(v2(nodes, matrix))
    assert machine.distances == ((10, 20, 30), (20, 10, 17), (30, 17, 10))
    assert machine.node_by_id[2].initiators == NodeSet([1])


def test_the_initiators_of_the_best_figure_win() -> None:
    nodes = memory(0, "0x00000005") + memory(1, "0x0000000a") + memory(2, "0x0000000f", subtype="HBM")
    figures = "".join(
        f'<memattr_value target_obj_type="NUMANode" target_obj_gp_index="3" value="{value}" initiator_cpuset="{cpus}"/>'
        for value, cpus in ((100, "0x00000005"), (200, "0x0000000a"))
    )
    latency = figures.replace('value="100"', 'value="9"').replace('value="200"', 'value="5"')
    beside = f'<memattr name="ReadBandwidth" flags="5">{figures}</memattr><memattr name="Latency">{latency}</memattr>'
    node = read(v2(nodes, beside)).node_by_id[2]
    assert node.initiators == NodeSet([1])
    assert node.access is not None
    assert (node.access.read_bandwidth_mibps, node.access.write_bandwidth_mibps) == (200, None)
    assert (node.access.read_latency_ns, node.access.write_latency_ns) == (5, 5)


def test_a_cpu_set_may_have_no_end() -> None:
    assert read(v2(memory(0, "0xf...f"))).nodes[0].cpus == CpuSet.parse("0-3")
    assert read(v2(memory(0), complete_cpuset="0xf...f,0x0")).offline == CpuSet()


@pytest.mark.parametrize(
    ("text", "mask"),
    [
        ("", 0),
        ("0x0", 0),
        ("0x00000100,0x00000001", 1 << 40 | 1),
        ("0x00000001,,0x00000002", 1 << 64 | 2),
        ("0xf...f", -1),
        ("0xf...f,0x00000001", -(1 << 32) | 1),
        ("0x123456789a", 0x123456789A),
        ("zzz", None),
        ("0x1,0x123456789", None),
        ("0x0," * 3000 + "0x1", None),
    ],
)
def test_bitmaps(text: str, mask: int | None) -> None:
    assert parse_bitmap(text) == mask


def test_dies_and_clusters_are_read_where_they_divide() -> None:
    group = '<object type="Group" kind="222" cpuset="0x0000000f"><object type="PU" os_index="{}"/></object>'
    text = (
        '<topology version="3.0"><object type="Machine" cpuset="0x000000ff">'
        '<object type="NUMANode" os_index="0" cpuset="0x000000ff"/><object type="Package" cpuset="0x000000ff">'
        '<object type="Die" os_index="0" cpuset="0x0000000f">'
        + group.format(0)
        + "".join(
            f'<object type="Core" os_index="{c}" cpuset="{1 << c:#x}"><object type="PU" os_index="{c}"/></object>'
            for c in range(1, 4)
        )
        + '</object><object type="Die" os_index="1" cpuset="0x000000f0">'
        + "".join(f'<object type="PU" os_index="{c}"/>' for c in range(4, 8))
        + "</object></object></object></topology>"
    )
    machine = read(text)
    assert [(die.id, die.package, str(die.cpus)) for die in machine.dies] == [(0, 0, "0-3"), (1, 0, "4-7")]
    assert [(cluster.id, str(cluster.cpus)) for cluster in machine.clusters] == [(0, "0-3")]
    assert [finding.place for finding in machine.findings] == ["packages", "cores"]
    assert machine.core_of[2].die == 0
    assert machine.core_of[2].cluster == 0


BAD = [
    ("", "x.xml: line 1: not XML"),
    ("{}", "x.xml: line 1: not XML"),
    ("<topology", "not XML"),
    ("<a/>", "line 1, a: not an hwloc topology: 'a'"),
    ('<topology version="9.0"/>', "unknown version: '9.0'"),
    ("<topology/>", "not one machine: 0"),
    ('<topology><object type="PU"/></topology>', "not a machine: 'PU'"),
    ('<topology><object type="Machine"/></topology>', "topology: no CPU is online"),
    ('<topology><object type="Machine"><object type="PU"/></object></topology>', "object: no os_index"),
    ('<topology><object type="Machine"><object type="PU" os_index="1e3"/></object></topology>', "os_index is wrong"),
    ('<topology><object type="Machine"><object type="PU" os_index="65536"/></object></topology>', "os_index is wrong"),
    (v2(memory(0) + '<object type="PU" os_index="0"/>'), "CPU listed twice: 0"),
    (v2(memory(0) + memory(0)), "memory nodes with the same os_index"),
    (v2(memory(0, "banana")), "cpuset is not a set: 'banana'"),
    (v2(memory(0, local="0").replace("1024", "-1")), "local_memory is wrong: '-1'"),
    (v2(memory(0).replace("1024", "9" * 5000)), "local_memory is wrong"),
    (v2(memory(0) + '<object type="Package" os_index="0" cpuset="0x1"/>' * 2), "CPUs that another of the packages has"),
    (v2(memory(0) + '<object type="PCIDev" pci_type="?"/>'), "pci_type is wrong"),
    (v2(memory(0) + '<object type="PCIDev" pci_type="0302 [10de:2330]"/>'), "pci_busid is wrong"),
    (v2(memory(0), '<distances2 type="NUMANode" kind="5"><indexes>0</indexes></distances2>'), "not a square of values"),
    (v2(memory(0), '<distances2 type="NUMANode" kind="5"><indexes>x</indexes></distances2>'), "not a whole number"),
    (v2(memory(0), '<cpukind cpuset="0x1"><info name="LinuxCapacity" value="x"/></cpukind>'), "LinuxCapacity is wrong"),
    (v2(memory(0), '<cpukind cpuset="?"/>'), "cpuset is not a set"),
    (
        '<!DOCTYPE topology [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><topology>&b;</topology>',
        "XML with entities of its own",
    ),
    ('<!DOCTYPE topology [<!ENTITY a SYSTEM "file:///etc/passwd">]><topology>&a;</topology>', "XML with entities"),
    ("<topology>" + "<object>" * 200, "nested too deep"),
    ("<topology>\ud800</topology>", "not XML"),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_what_is_wrong_is_named(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(text)
    assert message in str(caught.value)


def test_bytes_in_another_encoding_are_read() -> None:
    text = '<?xml version="1.0" encoding="utf-16"?>' + v2(memory(0))
    assert hwloc.read(text.encode("utf-16"), name="x").online == CpuSet.parse("0-3")


def test_bytes_in_an_unknown_encoding_are_not() -> None:
    with pytest.raises(InputError, match="not XML"):
        hwloc.read(b"<?xml version='1.0' encoding='nonsense'?><topology/>", name="x")


def test_a_machine_without_a_package_number_gets_one() -> None:
    parts = "".join(f'<object type="Package" os_index="7" cpuset="{mask}"/>' for mask in ("0x5", "0xa"))
    machine = read(v2(memory(0) + parts))
    assert [package.id for package in machine.packages] == [0, 1]
    assert machine.findings[0].place == "packages"


def test_control_characters_do_not_get_through() -> None:
    evil = '<info name="CPUModel" value="a&#10;b&#9;\u202ec"/>'
    machine = read(v2(memory(0) + f'<object type="Package" os_index="0" cpuset="0xf">{evil}</object>'))
    assert machine.packages[0].model == "abc"


def test_too_much_is_refused_soon(
    monkeypatch: pytest.MonkeyPatch, calls: Callable[[Callable[[], object]], int]
) -> None:
    def refused(text: str, match: str) -> None:
        with pytest.raises(InputError, match=match):
            read(text)

    large = " " * (64 * 2**20 + 1)
    assert calls(lambda: refused(large, "too large")) < 1_000
    many: Any = "bayplan.machine.hwloc.elements.MAX_ELEMENTS"
    monkeypatch.setattr(many, 1000)
    some, more = (f"<topology>{'<object/>' * count}" for count in (2_000, 200_000))
    assert calls(lambda: refused(more, "too many elements")) < 1.1 * calls(lambda: refused(some, "too many elements"))
