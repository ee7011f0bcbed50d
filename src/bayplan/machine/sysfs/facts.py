"""Single facts out of a tree of files, checked before anyone believes them.

Every value that a kernel file holds comes through here: bounded numbers, CPU lists and CPU masks. What is missing is
None; what is there but nonsense is None too, and a `Finding` says so. It never raises for content, and it never
believes an id that no kernel could have (NR_CPUS is at most 8192, MAX_NUMNODES at most 1024).

Formats: Documentation/admin-guide/cputopology.rst (lists `0-3,8`, masks `00000000,0000ffff`), and older kernels that
have the mask only.
"""

from __future__ import annotations

import re

from bayplan.errors import InputError, shorten
from bayplan.idset import CpuSet, IdSet, NodeSet
from bayplan.machine.model import Finding
from bayplan.machine.tree import Tree

MAX_CPUS = 8192
MAX_NODES = 1024
LARGEST = 2**63 - 1
MAX_FINDINGS = 200
# 8,192 CPUs, every second one named on its own, take 22 KiB.
_MAX_LIST_TEXT = 65_536
_NUMBER = re.compile(r"-?\d{1,19}", re.ASCII)
_HEX = re.compile(r"0x[0-9a-f]{1,16}", re.ASCII | re.IGNORECASE)
_MASK_GROUP = re.compile(r"[0-9a-f]{1,8}", re.ASCII | re.IGNORECASE)
_LONG_MASK = re.compile(r"(?:0x)?([0-9a-f]{1,2048})", re.ASCII | re.IGNORECASE)


class Facts:
    """A tree with checked access, and what was found wrong on the way.

    `online` is set once it is known; until then all CPUs count as online.
    """

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.online = CpuSet.of_mask((1 << MAX_CPUS) - 1)
        self._findings: dict[Finding, None] = {}
        self._unshown = 0
        self._parsed: dict[str, int | None] = {}
        self._masks: dict[str, int | None] = {}
        self._compared: set[tuple[str, int]] = set()

    def note(self, place: str, problem: str) -> None:
        """Remember something inconsistent. The same finding twice is kept once; beyond 200 they are only counted."""
        finding = Finding(place=place, problem=problem)
        if finding in self._findings:
            return
        if len(self._findings) < MAX_FINDINGS:
            self._findings[finding] = None
        else:
            self._unshown += 1

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, in the order in which they were met."""
        more = (Finding(place="", problem=f"{self._unshown} more findings are not shown"),) if self._unshown else ()
        return (*self._findings, *more)

    def text(self, path: str) -> str | None:
        """The content of a file without the white space and NULs around it. None: no such file."""
        content = self.tree.read(path)
        return None if content is None else content.strip(" \t\r\n\0")

    def number(self, path: str, *, least: int = 0, most: int = LARGEST) -> int | None:
        """A decimal number in `least..most`."""
        content = self.text(path)
        if not content:
            return None
        value = int(content) if _NUMBER.fullmatch(content) else None
        if value is None or not least <= value <= most:
            self.note(path, f"{_shown(content)} is not a number from {least} to {most}; ignored")
            return None
        return value

    def hexadecimal(self, path: str) -> int | None:
        """A number written as 0x..."""
        content = self.text(path)
        if not content:
            return None
        if not _HEX.fullmatch(content):
            self.note(path, f"{_shown(content)} is not a hexadecimal number; ignored")
            return None
        return int(content, 16)

    def numbered(self, folder: str, prefix: str, most: int) -> tuple[int, ...]:
        """The numbers, ascending, of the entries `<prefix>N` of a folder."""
        found = set()
        for name in self.tree.list(folder):
            digits = name[len(prefix) :]
            if not name.startswith(prefix) or not _NUMBER.fullmatch(digits) or digits != digits.lstrip("-"):
                continue
            if str(int(digits)) == digits and int(digits) <= most:
                found.add(int(digits))
            elif int(digits) > most:
                self.note(f"{folder}/{name}", f"a number above {most}; ignored")
        return tuple(sorted(found))

    def cpu_list(self, path: str) -> CpuSet | None:
        """CPUs in list format."""
        mask = self._list(path, MAX_CPUS)
        return None if mask is None else CpuSet.of_mask(mask)

    def node_list(self, path: str) -> NodeSet | None:
        """Memory nodes in list format."""
        mask = self._list(path, MAX_NODES)
        return None if mask is None else NodeSet.of_mask(mask)

    def cpu_mask(self, path: str) -> CpuSet | None:
        """CPUs as a hexadecimal mask, in groups of 32 bits or in one piece."""
        content = self.text(path)
        if not content:
            return None
        if content not in self._masks:
            self._masks[content] = _parse_mask(content)
        mask = self._masks[content]
        if mask is None or mask.bit_length() > MAX_CPUS:
            self.note(path, f"{_shown(content)} is not a mask of at most {MAX_CPUS} CPUs; ignored")
            return None
        return CpuSet.of_mask(mask)

    def cpus(self, mask_path: str, list_path: str) -> CpuSet | None:
        """CPUs from a mask file, which every kernel has, or else from the list file beside it.

        Where both are there they must agree on the online CPUs; the mask is believed, and each set is compared once.
        """
        mask = self.cpu_mask(mask_path)
        if mask is None:
            return self.cpu_list(list_path)
        compared = (mask_path.rpartition("/")[2], mask.mask)
        if compared not in self._compared:
            self._compared.add(compared)
            self._compare(list_path, mask)
        return mask

    def _compare(self, list_path: str, mask: CpuSet) -> None:
        listed = self.cpu_list(list_path)
        if listed is not None and listed & self.online != mask & self.online:
            self.note(list_path, f"CPUs {listed & self.online} contradict the mask beside it, {mask & self.online}")

    def _list(self, path: str, limit: int) -> int | None:
        content = self.text(path)
        if content is None:
            return None
        if content not in self._parsed:
            self._parsed[content] = _parse_list(content)
        mask = self._parsed[content]
        if mask is None or mask.bit_length() > limit:
            self.note(path, f"{_shown(content)} is not a list of ids below {limit}; ignored")
            return None
        return mask


def _shown(content: str) -> str:
    return shorten(content[:200])  # `repr` of a file of 1 MiB would take longer than all the rest


def _parse_list(content: str) -> int | None:
    # The kernel never writes the stride form, and a long text of strides is a way to waste time.
    if len(content) > _MAX_LIST_TEXT or ":" in content:
        return None
    if content == "(null)":  # how kernels up to 6.x print an empty nohz_full
        return 0
    try:
        return IdSet.parse(content).mask
    except InputError:
        return None


def _parse_mask(content: str) -> int | None:
    groups = content.split(",")
    if len(groups) == 1:
        single = _LONG_MASK.fullmatch(content)
        return int(single.group(1), 16) if single else None
    if len(content) > _MAX_LIST_TEXT or not all(_MASK_GROUP.fullmatch(group) for group in groups):
        return None
    # Groups narrower than 8 digits occur at the front only.
    return int("".join(group.zfill(8) for group in groups), 16)
