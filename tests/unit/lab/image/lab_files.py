"""A cache with a whole lab in it, though a small one, for tests of what is read from there."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from pathlib import Path

import pytest

from testbed.lab.host import cache
from testbed.lab.image import image, recipe, wheels
from testbed.lab.um import disks, kernel

DISK = bytes(range(256)) * 5000


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def small_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A list with one small Python package; its wheel."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as wheel:
        wheel.writestr("tiny/__init__.py", "size = 1\n")
    lock = tmp_path / "run.lock"
    lock.write_text(f"tiny==1.0 \\\n    --hash=sha256:{'0' * 64} \\\n    --hash=sha256:{sha256(made.getvalue())}\n")
    monkeypatch.setattr(wheels, "LOCK", lock)
    return made.getvalue()


@pytest.fixture
def lab(xoff_cache: Path, small_list: bytes) -> Path:
    """A cache with a lab for both engines."""
    put(wheels.place() / "tiny-1.0-py3-none-any.whl", small_list)
    files = {recipe.KERNEL: b"a kernel", recipe.ROOT: b"a root"}
    sums = {name: sha256(content) for name, content in files.items()}
    about = {"digest": recipe.digest_of(sums), "kernel": "6.12", "debian": {}, "python": {}, "files": sums}
    for name, content in (files | {image.MANIFEST: json.dumps(about).encode()}).items():
        put(image.place() / name, content)
    linux = b"User-Mode Linux"
    put(kernel.place() / kernel.KERNEL, linux)
    built = {"digest": sha256(linux), "version": "7.3", "source": "ab", "tools": {}}
    put(kernel.place() / kernel.MANIFEST, json.dumps(built).encode())
    with cache.owned("disk") as work:
        put(work / "new" / disks.DISK, DISK)
        found = image.current()
        assert found is not None
        disks.put_root(work / "new", found, cache.quiet)
    return xoff_cache


def put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
