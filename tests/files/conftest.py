"""Small trees on disk and in archives."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

Members = Mapping[str, str | bytes | None]
MakeTar = Callable[..., Path]


def add(archive: tarfile.TarFile, name: str, content: str | bytes | None) -> None:
    """Add a file, a folder (None), or a symbolic link (text that starts with `->`)."""
    member = tarfile.TarInfo(name)
    data = b""
    if content is None:
        member.type = tarfile.DIRTYPE
    elif isinstance(content, str) and content.startswith("->"):
        member.type, member.linkname = tarfile.SYMTYPE, content[2:]
    else:
        data = content.encode() if isinstance(content, str) else content
        member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


@pytest.fixture
def make_tar(tmp_path: Path) -> MakeTar:
    """Writes a tar of `{name: content}`; the ending of the file's name says how it is compressed."""

    def make(members: Members, name: str = "capture.tar") -> Path:
        path = tmp_path / name
        compression = {"gz": "w:gz", "bz2": "w:bz2", "xz": "w:xz"}.get(name.rpartition(".")[2], "w")
        with tarfile.open(path, compression) as archive:  # type: ignore[call-overload]
            for member, content in members.items():
                add(archive, member, content)
        return path

    return make


@pytest.fixture
def make_folder(tmp_path: Path) -> Callable[[Members], Path]:
    """Lays the same out on disk."""

    def make(members: Members) -> Path:
        root = tmp_path / "root"
        root.mkdir()
        for name, content in members.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if content is None:
                path.mkdir()
            elif isinstance(content, str) and content.startswith("->"):
                path.symlink_to(content[2:])
            else:
                path.write_bytes(content.encode() if isinstance(content, str) else content)
        return root

    return make
