"""Debian packages for tests, good ones and others."""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
from collections.abc import Callable
from pathlib import Path

CONTROL = "Package: one\nVersion: 1.0\nArchitecture: amd64\nDescription: a thing\n more of it\n"


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.mode = kind, link, mode
    made.uid, made.gid, made.mtime = 1000, 1000, 1_234_567_890  # of the machine that built it
    return made


def tar(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for one, content in members:
            one.size = len(content)
            archive.addfile(one, io.BytesIO(content))
    return out.getvalue()


def ar(**parts: bytes) -> bytes:
    out = b"!<arch>\n"
    for name, content in parts.items():
        shown = name.replace("_", ".")
        header = f"{shown:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode()
        out += header + content + b"\n" * (len(content) % 2)
    return out


def deb(
    *members: tuple[tarfile.TarInfo, bytes],
    control: str = CONTROL,
    scripts: dict[str, bytes] | None = None,
    data: bytes | None = None,
    packed: Callable[[bytes], bytes] = lzma.compress,
    suffix: str = "xz",
) -> bytes:
    """Return a package with these members, or with `data` in place of their tar."""
    about = [(member("./control"), control.encode())]
    about += [(member(f"./{name}", mode=0o755), text) for name, text in (scripts or {}).items()]
    parts = {
        "debian-binary": b"2.0\n",
        "control_tar_gz": gzip.compress(tar(*about)),
        f"data_tar_{suffix}": packed(tar(*members) if data is None else data),
    }
    return ar(**parts)


def written(folder: Path, content: bytes, name: str = "one.deb") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path
