"""Trees in archives: layout, damage and limits."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from bayplan.errors import InputError
from bayplan.files import archive, open_tree
from bayplan.files.archive import Archive
from bayplan.files.directory import MAX_FILE_BYTES

Make = Callable[..., Path]
ONLINE = "sys/devices/system/cpu/online"


@pytest.mark.parametrize("top", ["", "./", "machine/", "./machine/", "/", "/machine/"])
def test_sys_stands_at_the_top_or_in_one_folder(make_tar: Make, top: str) -> None:
    tree = Archive(make_tar({f"{top}dmesg": "x", f"{top}{ONLINE}": "0-1", f"{top}sys/link": "->/" + ONLINE}))
    assert tree.list("") == ("sys",)
    assert tree.read(ONLINE) == "0-1"
    assert tree.read("sys/link") == "0-1"


def test_several_machines_in_one_archive_are_refused(make_tar: Make) -> None:
    with pytest.raises(InputError, match="several machines in one archive"):
        Archive(make_tar({f"a/{ONLINE}": "0", f"b/{ONLINE}": "0"}))


def test_an_archive_without_sys_is_refused(make_tar: Make) -> None:
    with pytest.raises(InputError, match=r"capture\.tar: no folder sys"):
        Archive(make_tar({"etc/passwd": "x", "proc/meminfo": "x"}))


def test_the_last_of_several_members_of_one_name_counts(tmp_path: Path) -> None:
    path = tmp_path / "twice.tar"
    with tarfile.open(path, "w") as tar:
        for content in (b"0", b"0-1"):
            member = tarfile.TarInfo(ONLINE)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    assert Archive(path).read(ONLINE) == "0-1"


def test_a_hard_link_is_the_file(tmp_path: Path) -> None:
    path = tmp_path / "hard.tar"
    with tarfile.open(path, "w") as tar:
        member = tarfile.TarInfo(f"machine/{ONLINE}")
        member.size = 1
        tar.addfile(member, io.BytesIO(b"0"))
        link = tarfile.TarInfo("machine/sys/same")
        link.type, link.linkname = tarfile.LNKTYPE, f"machine/{ONLINE}"
        tar.addfile(link)
    assert Archive(path).read("sys/same") == "0"


def test_long_names_are_read(make_tar: Make) -> None:
    name = f"sys/{'/'.join(['folder' * 10] * 8)}/file"
    assert Archive(make_tar({name: "x"})).read(name) == "x"


@pytest.mark.parametrize("name", ["x.tar", "x.tar.gz", "x.tar.bz2", "x.tar.xz"])
def test_every_cut_is_noticed(make_tar: Make, name: str) -> None:
    path = make_tar({f"sys/cpu{i}": f"{i}\n" * 50 for i in range(20)}, name)
    whole = path.read_bytes()
    end = len(whole) if name != "x.tar" else whole.rstrip(b"\0").__len__() // 512 * 512
    for cut in range(0, end - 20, max(1, end // 60)):
        path.write_bytes(whole[:cut])
        with pytest.raises(InputError) as caught:
            Archive(path)
        assert caught.value.source == str(path)


def test_a_damaged_header_in_the_middle_is_noticed(make_tar: Make) -> None:
    path = make_tar({f"sys/cpu{i}": "x" for i in range(20)})
    content = bytearray(path.read_bytes())
    content[10 * 1024 + 100] ^= 0x55
    path.write_bytes(content)
    with pytest.raises(InputError, match="damaged or cut off at byte 10240"):
        Archive(path)


@pytest.mark.parametrize("content", [b"", b"\0", b"hello", b"\x1f\x8b", b"BZh9", b"\xfd7zXZ\0", b"\0" * 600])
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        Archive(path)
    assert caught.value.source == str(path)


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.tar: no such file"):
        open_tree(tmp_path / "nowhere.tar")


def test_a_file_above_the_limit_and_special_files_are_left_out(make_tar: Make) -> None:
    tree = Archive(make_tar({"sys/large": b"x" * (MAX_FILE_BYTES + 1), "sys/small": "x"}))
    assert tree.read("sys/large") is None
    assert tree.read("sys/small") == "x"


def test_a_bomb_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_UNPACKED_BYTES", 2**22)
    path = tmp_path / "bomb.tar.gz"
    header = tarfile.TarInfo("sys/bomb")
    header.size = 2**22
    with gzip.open(path, "wb", compresslevel=1) as stream:
        stream.write(header.tobuf(tarfile.GNU_FORMAT))
        for _ in range(8):
            stream.write(bytes(2**20))
    with pytest.raises(InputError, match="unpacks to too much"):
        Archive(path)


def test_a_name_that_unpacks_to_a_bomb_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_UNPACKED_BYTES", 2**22)
    path = tmp_path / "name.tar.gz"
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 2**33
    with gzip.open(path, "wb", compresslevel=1) as stream:
        stream.write(header.tobuf(tarfile.GNU_FORMAT))
        for _ in range(8):
            stream.write(b"a" * 2**20)
    with pytest.raises(InputError, match="unpacks to too much"):
        Archive(path)


@pytest.mark.parametrize(("limit", "value"), [("MAX_MEMBERS", 10), ("MAX_KEPT_BYTES", 100)])
def test_too_many_members_and_too_much_content_are_refused(
    make_tar: Make, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    path = make_tar({f"sys/{i}": "content" for i in range(20)})
    assert Archive(path).read("sys/19") == "content"
    monkeypatch.setattr(archive, limit, value)
    with pytest.raises(InputError, match="too m"):
        Archive(path)


def test_deep_names_cost_what_their_folders_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_KEPT_BYTES", 2**20)
    path = tmp_path / "deep.tar"
    with tarfile.open(path, "w") as tar:
        for i in range(50):
            tar.addfile(tarfile.TarInfo(f"sys/{i}/{'a/' * 400}x"))
    with pytest.raises(InputError, match="holds too much"):
        Archive(path)


def test_twice_the_archive_takes_twice_the_work(make_tar: Make, calls: Callable[[Callable[[], object]], int]) -> None:
    one, two = (
        make_tar({f"sys/devices/{i}/uevent": "x" * 40 for i in range(count)}, f"{count}.tar.bz2")
        for count in (1_000, 2_000)
    )
    assert calls(lambda: Archive(two)) < 2.1 * calls(lambda: Archive(one))
