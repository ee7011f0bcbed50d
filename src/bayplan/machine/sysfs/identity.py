"""What the machine calls itself: architecture, processor model, product name. Never a serial number.

Of the files that also hold what would identify a machine or its parts, `told_lines` is the part that is used; readers
see that part only, and a capture keeps no more. Facts: proc/cpuinfo (arch/*/kernel/cpu/proc.c), proc/sys/kernel/arch,
Documentation/ABI/testing/sysfs-firmware-dmi-entries.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from bayplan.machine.sysfs.facts import Facts
from bayplan.machine.sysfs.memory_kinds import NVIDIA_GPUS
from bayplan.machine.sysfs.nodes import MEMINFO, NODE

CPUINFO = "proc/cpuinfo"
_DMI_FOLDERS = ("sys/class/dmi/id", "sys/devices/virtual/dmi/id")
_CPUINFO_KEYS = ("vendor_id", "arch", "model name", "cpu", "CPU implementer", "CPU architecture", "CPU part", "isa")
_ARCHITECTURE = re.compile(r"[a-z0-9_]{1,16}", re.ASCII)
_MAX_NAME = 80


def told_lines(path: str, content: str) -> str:
    """The lines of a file that readers use: all of most files, few of those that mix in identities."""
    if path == CPUINFO:
        return _lines(content, _is_used_cpuinfo)
    if path == MEMINFO or (path.startswith(f"{NODE}/") and path.endswith("/meminfo")):
        return _lines(content, lambda line: "MemTotal:" in line)
    if path.startswith(f"{NVIDIA_GPUS}/"):
        return _lines(content, lambda line: line.startswith(("Model:", "Node:")))
    return content


def read_architecture(facts: Facts) -> str:
    """The kernel's name of the architecture (`x86_64`, `aarch64`, `ppc64`, `s390x`); empty where nothing tells."""
    named = facts.text("proc/sys/kernel/arch") or ""
    return named if _ARCHITECTURE.fullmatch(named) else _guess_free_architecture(_cpuinfo(facts))


def read_model(facts: Facts) -> str:
    """The processor's model name as the first CPU gives it, or empty."""
    fields = _cpuinfo(facts)
    return _clean(fields.get("model name") or fields.get("cpu") or "")


def read_product_name(facts: Facts) -> str:
    """Maker and product from DMI, or empty."""
    for folder in _DMI_FOLDERS:
        words = [_clean(facts.text(f"{folder}/{name}") or "") for name in ("sys_vendor", "product_name")]
        if any(words):
            return " ".join(word for word in words if word)
    return ""


def _is_used_cpuinfo(line: str) -> bool:
    key = line.partition(":")[0].strip()
    return key in _CPUINFO_KEYS or key == "flags"


def _lines(content: str, used: Callable[[str], bool]) -> str:
    seen: dict[str, str] = {}
    for line in content.splitlines():
        key = line.partition(":")[0]
        if key not in seen and used(line):
            seen[key] = line if key.strip() != "flags" else _word_size_flag(line)
    return "".join(f"{line}\n" for line in seen.values())


def _word_size_flag(line: str) -> str:
    key, _, flags = line.partition(":")
    return f"{key}: {'lm' if 'lm' in flags.split() else ''}".rstrip()


def _cpuinfo(facts: Facts) -> dict[str, str]:
    """Fields of the first CPU."""
    pairs = (line.partition(":") for line in (facts.text(CPUINFO) or "").splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _guess_free_architecture(fields: dict[str, str]) -> str:
    """The architecture by the fields that only it has."""
    if "flags" in fields:
        return "x86_64" if fields["flags"] == "lm" else "i386"
    if fields.get("arch") == "IA-64":
        return "ia64"
    if "CPU implementer" in fields:
        return "aarch64" if fields.get("CPU architecture") in ("8", "AArch64") else "arm"
    if fields.get("vendor_id") == "IBM/S390":
        return "s390x"
    if fields.get("cpu", "").startswith(("POWER", "PPC", "Cell")):
        return "ppc64"
    return "riscv64" if fields.get("isa", "").startswith("rv64") else ""


def _clean(text: str) -> str:
    words = " ".join(text.split())
    return "".join(c for c in words if c.isprintable())[:_MAX_NAME].strip()
