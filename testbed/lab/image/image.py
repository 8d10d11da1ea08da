"""The lab image in the cache, which is built when it is missing or damaged, with a list of what is in it.

Its key is a digest of everything that goes in; its digest is that of what came out. `reference.json` holds
the versions that Xoff's own figures were made with: a build pins to them as far as the mirror still has
them, and an image lists where it had to differ.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from testbed.lab.host import cache, prerequisites
from testbed.lab.host.cache import Report
from testbed.lab.image import recipe
from testbed.lab.image.recipe import KERNEL, ROOT, ImageError

MANIFEST = "manifest.json"
_ROOM = 2 << 30


@dataclass(frozen=True)
class Image:
    """A finished image in the cache."""

    path: Path
    key: str
    digest: str
    kernel: str
    debian: dict[str, str]
    python: dict[str, str]
    sizes: dict[str, int]

    @property
    def vmlinuz(self) -> Path:
        return self.path / KERNEL

    @property
    def initrd(self) -> Path:
        return self.path / ROOT

    def differences(self) -> list[str]:
        """Return the differences from the reference image; none if they are the same."""
        wanted = reference()
        if self.digest == wanted.get("digest"):
            return []
        differing = []
        for kind, mine in (("debian", self.debian), ("python", self.python)):
            theirs: dict[str, str] = wanted.get(kind, {})
            for name in sorted(mine.keys() | theirs.keys()):
                if mine.get(name) != theirs.get(name):
                    differing.append(f"{name} {mine.get(name, 'not there')}, reference {theirs.get(name, 'not there')}")
        if not differing and recipe_digest() != wanted.get("recipe"):
            differing = ["same package versions, another recipe: `xoff image reference` makes it the reference"]
        return differing or [f"same package versions, other contents (reference {wanted.get('digest')})"]


def recipe_digest() -> str:
    """Return the digest of everything of Xoff's that goes into the image."""
    lab = prerequisites.table()["lab"]
    content = {
        "suite": lab["suite"],
        "kernel": lab["kernel"]["image"],
        "packages": [package.name for package in prerequisites.image_packages()],
        "modules": [module.name for module in prerequisites.lab_modules()],
        "python": lab["python"],
        "pins": _pins(),
        "files": recipe.inputs(),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def key() -> str:
    """Return the digest of everything that goes into the image, and of the mirror."""
    return hashlib.sha256(json.dumps([recipe_digest(), _mirror()]).encode()).hexdigest()[:16]


def ensure(report: Report) -> Image:
    """Return the image, from the cache or built now."""
    final = place()
    if (image := _load(final, report)) is not None:
        cache.used(final)
        return image
    with cache.locked("lab image", report):
        if (image := _load(final, cache.quiet)) is not None:
            return image  # another xoff built it while we waited
        return build(report)


def build(report: Report, pinned: bool = True) -> Image:
    """Build the image anew and put it into the cache; with the newest versions if not `pinned`."""
    cache.require_room(cache.root(), _ROOM, "building the lab image")
    with cache.owned("image", private=False) as work:
        manifest = recipe.make(work, _pins() if pinned else {}, _mirror(), report)
        (work / MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")
        cache.publish(work, place())
        cache.prune("image-*")
    image = _load(place(), report)
    if image is None:
        raise ImageError(f"the image just built in {place()} is damaged; is the disk sound?")
    return image


def current() -> Image | None:
    """Return the image if it is in the cache and whole, or None."""
    return _load(place(), cache.quiet)


def described() -> Image | None:
    """Return the image by its manifest alone, for an engine that needs none of its files."""
    return describe(cache.own(place(), MANIFEST))


def is_whole(found: Image | None) -> bool:
    """Return True if an image has its root, and is more than a manifest."""
    return found is not None and found.initrd.exists()


def place() -> Path:
    """Return the folder of the image, which need not be there."""
    return cache.root() / f"image-{key()}"


def clean() -> list[Path]:
    """Remove every image, kernel and whatever is built on one; return what was removed."""
    removed = []
    for pattern in ("image-*", "snapshot-*", "um-*"):
        for path in cache.root().glob(pattern):
            if path.is_symlink():  # of a lab that is installed elsewhere, and stays
                path.unlink()
            shutil.rmtree(path, ignore_errors=True)
            removed.append(path)
    return removed


def write_reference(image: Image) -> None:
    """Make `image` the reference: what it holds is what later builds pin to."""
    amend_reference({"digest": image.digest, "debian": image.debian, "python": image.python})
    amend_reference({"recipe": recipe_digest()})  # the versions are part of the recipe


def amend_reference(entries: Mapping[str, Any]) -> None:
    """Replace these entries of `reference.json`."""
    with resources.as_file(resources.files("testbed.lab") / "reference.json") as path:
        path.write_text(json.dumps(reference() | dict(entries), indent=1, sort_keys=True) + "\n")


def _pins() -> dict[str, str]:
    """Return the versions of Debian's packages that a build uses if it can get them."""
    pins: dict[str, str] = reference().get("debian", {})
    return pins


def _mirror() -> str:
    return os.environ.get("XOFF_MIRROR", "")


def reference() -> dict[str, Any]:
    """Return the contents of the reference image, and under `um_kernel` those of the reference kernel of `um`."""
    path = resources.files("testbed.lab") / "reference.json"
    content: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    return content


def _load(path: Path, report: Report) -> Image | None:
    """Read an image back and check it; return None if it is not there or not whole."""
    if not cache.own(path, MANIFEST, KERNEL, ROOT).exists():
        return None
    image = describe(path)
    if image is not None and not image.sizes:
        report("the lab image was imported for the engine um alone; building all of it")
        return None
    with suppress(OSError):
        if image is not None and image.digest == recipe.digest_of({n: cache.sha256(path / n) for n in (KERNEL, ROOT)}):
            return image
    report(f"the lab image in {path} is damaged; building it again")
    return None


def describe(path: Path) -> Image | None:
    """Return the image of a manifest, or None; its files may be elsewhere (see `engines/lab_file.py`)."""
    try:
        manifest = json.loads((path / MANIFEST).read_text())
        if manifest["files"].keys() != {KERNEL, ROOT} or manifest["digest"] != recipe.digest_of(manifest["files"]):
            return None
        sizes = {name: (path / name).stat().st_size for name in (KERNEL, ROOT) if (path / name).exists()}
        names = ("digest", "kernel", "debian", "python")
        return Image(path=path, key=path.name.partition("-")[2], sizes=sizes,
                     **{name: manifest[name] for name in names})  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
