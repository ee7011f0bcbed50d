"""PCI devices, core kinds, frequencies, and what the machine calls itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bayplan.machine import CoreKind, FrequencyRange, Machine
from bayplan.machine.sysfs import told_lines

CPU = "sys/devices/system/cpu"
PCI = "sys/bus/pci/devices"
Build = Callable[..., Machine]


def device(address: str, pci_class: str, vendor: str, node: str = "-1", **more: str) -> dict[str, str]:
    folder = f"{PCI}/{address}"
    files = {f"{folder}/class": f"{pci_class}\n", f"{folder}/vendor": f"{vendor}\n", f"{folder}/numa_node": f"{node}\n"}
    return files | {f"{folder}/{name}": content for name, content in more.items()}


@pytest.mark.parametrize(
    ("pci_class", "vendor", "driver", "kind", "resource"),
    [
        ("0x030200", "0x10de", "nvidia", "gpu", "nvidia.com/gpu"),
        ("0x038000", "0x1002", "amdgpu", "gpu", "amd.com/gpu"),
        ("0x120000", "0x1002", "amdgpu", "accelerator", "amd.com/gpu"),
        ("0x038000", "0x8086", "i915", "gpu", "gpu.intel.com/i915"),
        ("0x038000", "0x8086", "xe", "gpu", "gpu.intel.com/xe"),
        ("0x120000", "0x1da3", "habanalabs", "accelerator", "habana.ai/gaudi"),
        ("0x030000", "0x1a03", "ast", "other", ""),
        ("0x020000", "0x8086", "ice", "network", ""),
        ("0x010802", "0x144d", "nvme", "storage", ""),
    ],
)
def test_a_device_has_a_kind_and_the_resource_of_its_plugin(
    made: Build, pci_class: str, vendor: str, driver: str, kind: str, resource: str
) -> None:
    machine = made(
        device("0000:3b:00.0", pci_class, vendor, "1", device="0x1234\n", local_cpus="000000f0\n"),
        links={f"{PCI}/0000:3b:00.0/driver": f"../../../../bus/pci/drivers/{driver}"},
    )
    (found,) = machine.devices
    assert (found.kind, found.resource, found.node, str(found.cpus)) == (kind, resource, 1, "4-7")
    assert (found.pci_class, found.vendor, found.device) == (int(pci_class, 16), int(vendor, 16), 0x1234)


def test_bridges_and_the_processors_own_units_are_not_devices_to_place(made: Build) -> None:
    own = {
        **device("0000:00:00.0", "0x060000", "0x8086"),
        **device("0000:00:04.0", "0x088000", "0x8086"),
        **device("0000:00:05.0", "0x0b4001", "0x10de"),
        **device("not-an-address", "0x020000", "0x8086"),
    }
    assert [d.address for d in made(own).devices] == ["0000:00:05.0"]


def test_a_virtual_function_knows_its_physical_one_and_is_offered_by_nobody(made: Build) -> None:
    machine = made(
        device("0000:3b:00.0", "0x030200", "0x10de") | device("0000:3b:00.4", "0x030200", "0x10de"),
        links={f"{PCI}/0000:3b:00.4/physfn": "../0000:3b:00.0"},
    )
    assert [(d.virtual_function_of, d.resource) for d in machine.devices] == [
        ("", "nvidia.com/gpu"),
        ("0000:3b:00.0", ""),
    ]


def test_a_device_on_a_node_that_does_not_exist_is_on_none(made: Build) -> None:
    machine = made(device("0000:3b:00.0", "0x020000", "0x15b3", "9"))
    assert machine.devices[0].node is None
    assert "node 9 does not exist" in machine.findings[0].problem


def test_core_kinds_are_those_that_intel_names(made: Build) -> None:
    capacity = {f"{CPU}/cpu{cpu}/cpu_capacity": f"{1024 if cpu < 4 else 700}\n" for cpu in range(8)}
    machine = made({"sys/devices/cpu_core/cpus": "0-3\n", "sys/devices/cpu_atom/cpus": "4-7\n", **capacity})
    assert [(kind.name, str(kind.cpus), kind.capacity) for kind in machine.core_kinds] == [
        ("core", "0-3", 1024),
        ("atom", "4-7", 700),
    ]


def test_core_kinds_are_told_by_capacity(made: Build) -> None:
    machine = made({f"{CPU}/cpu{cpu}/cpu_capacity": f"{446 if cpu < 4 else 1024}\n" for cpu in range(8)})
    assert [(kind.name, str(kind.cpus)) for kind in machine.core_kinds] == [
        ("capacity-446", "0-3"),
        ("capacity-1024", "4-7"),
    ]


def test_cores_that_boost_a_little_higher_are_no_other_kind(made: Build) -> None:
    preferred = (231, 226, 221, 211)
    machine = made({f"{CPU}/cpu{cpu}/acpi_cppc/highest_perf": f"{preferred[cpu // 2]}\n" for cpu in range(8)})
    assert machine.core_kinds == ()
    hybrid = made({f"{CPU}/cpu{cpu}/acpi_cppc/highest_perf": f"{(66, 64, 39, 39)[cpu // 2]}\n" for cpu in range(8)})
    assert [(kind.name, str(kind.cpus)) for kind in hybrid.core_kinds] == [
        ("capacity-66", "0-3"),
        ("capacity-39", "4-7"),
    ]


def test_kinds_in_the_types_folder_keep_their_names(made: Build) -> None:
    types = f"{CPU}/types"
    machine = made({f"{types}/intel_atom_0/cpumap": "0xf0\n", f"{types}/intel_core_0/cpumap": "0xf\n"})
    assert [kind.name for kind in machine.core_kinds] == ["intel_core_0", "intel_atom_0"]
    assert machine.core_kinds[0] == CoreKind(name="intel_core_0", cpus=machine.packages[0].cpus)


def test_cpus_share_frequency_limits(made: Build) -> None:
    limits: dict[str, str] = {}
    for cpu in range(8):
        folder = f"{CPU}/cpu{cpu}"
        limits |= {
            f"{folder}/cpufreq/cpuinfo_min_freq": "800000\n",
            f"{folder}/cpufreq/cpuinfo_max_freq": "3900000\n" if cpu < 4 else "3500000\n",
            f"{folder}/acpi_cppc/nominal_freq": "2400\n",
        }
    limits |= {f"{CPU}/cpu{cpu}/cpufreq/base_frequency": "2600000\n" for cpu in range(4)}
    machine = made(limits)
    assert machine.frequencies == (
        FrequencyRange(cpus=machine.packages[0].cpus, min_khz=800_000, base_khz=2_600_000, max_khz=3_900_000),
        FrequencyRange(cpus=machine.packages[1].cpus, min_khz=800_000, base_khz=2_400_000, max_khz=3_500_000),
    )


def test_limits_that_run_backwards_are_found(made: Build) -> None:
    folder = f"{CPU}/cpu0/cpufreq"
    machine = made({f"{folder}/cpuinfo_min_freq": "9000000\n", f"{folder}/cpuinfo_max_freq": "1000\n"})
    assert machine.frequencies == ()
    assert [finding.place for finding in machine.findings] == [folder]


@pytest.mark.parametrize(
    ("cpuinfo", "architecture", "model"),
    [
        ("vendor_id\t: GenuineIntel\nmodel name\t: Xeon   Gold\nflags\t\t: fpu lm sse\n", "x86_64", "Xeon Gold"),
        ("vendor_id\t: GenuineIntel\nflags\t\t: fpu sse\n", "i386", ""),
        ("processor\t: 0\ncpu\t\t: POWER9, altivec supported\n", "ppc64", "POWER9, altivec supported"),
        ("CPU implementer\t: 0x41\nCPU architecture: 8\n", "aarch64", ""),
        ("vendor_id       : IBM/S390\nprocessor 0: version = 00,  identification = 279F25\n", "s390x", ""),
        ("arch       : IA-64\n", "ia64", ""),
        ("", "", ""),
    ],
)
def test_cpuinfo_tells_architecture_and_model(made: Build, cpuinfo: str, architecture: str, model: str) -> None:
    machine = made({"proc/cpuinfo": cpuinfo})
    assert (machine.architecture, machine.packages[0].model) == (architecture, model)


def test_the_kernel_names_its_architecture(made: Build) -> None:
    assert made({"proc/sys/kernel/arch": "riscv64\n", "proc/cpuinfo": "flags : lm\n"}).architecture == "riscv64"


def test_a_machine_is_called_by_its_product_name(made: Build) -> None:
    dmi = "sys/class/dmi/id"
    assert made({f"{dmi}/sys_vendor": "Dell Inc.\n", f"{dmi}/product_name": "PowerEdge R750\n"}).name == (
        "Dell Inc. PowerEdge R750"
    )
    assert made().name == "machine"


def test_what_identifies_a_machine_is_not_told() -> None:
    cpuinfo = "vendor_id : IBM/S390\nprocessor 0: identification = 279F25\nSerial : 00000000abcdef\nmachine : X\n"
    assert told_lines("proc/cpuinfo", cpuinfo) == "vendor_id : IBM/S390\n"
    gpu = "Model: \t NVIDIA H100\nGPU UUID: \t GPU-1234\nVideo BIOS: \t 96\n"
    assert told_lines("proc/driver/nvidia/gpus/0000:3b:00.0/information", gpu) == "Model: \t NVIDIA H100\n"


def test_what_is_told_of_told_lines_is_the_same() -> None:
    for flags in ("fpu lm", "fpu"):
        once = told_lines("proc/cpuinfo", f"model name\t: X\nflags\t\t: {flags}\nmodel name\t: Y\n")
        assert told_lines("proc/cpuinfo", once) == once
