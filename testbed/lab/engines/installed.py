"""A lab that is installed on this machine: the cache of another user, as a rule root's, that has all its parts ready.

A container has one. It is used where it is, so a machine whose cache is empty, small or gone after each run has a lab
at once, and many users share one: the parts get links in the user's own cache, where whatever else is made goes.
Who may change such a folder may change what runs as the user, so the rule of the cache holds for it
(`../host/ownership.py`). Standard library only, as for `prebuilt.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

from testbed.lab.engines import lab_file
from testbed.lab.engines.lab_file import Contents
from testbed.lab.host import cache
from testbed.lab.host.cache import Report
from testbed.lab.image import image
from testbed.lab.um import disks, kernel

_PARTS = ("image-*", "um-*", "python-*", "packages-*", "deb-*", "bytecode-*", "index-*")


def use(folder: Path, report: Report) -> Contents | None:
    """Give the parts of a folder their places in the cache, if it has the lab of this version; else return None."""
    of = image.describe(folder / image.place().name)
    manifest = folder / kernel.place().name / kernel.MANIFEST
    if of is None or not manifest.is_file() or not disks.is_disk(root := folder / disks.name_of_root(of.digest)):
        return None
    cache.own(folder)
    built = json.loads(manifest.read_text()).get("digest", "")
    lab_file.require_reference(folder, {"kernel": built, "disk": disks.noted_digest(root), "image": of.digest})
    with cache.locked("installed lab", report):
        for theirs in sorted(path for pattern in _PARTS for path in folder.glob(pattern)):
            ours = cache.root() / theirs.name
            if not disks.is_disk(theirs):
                if not ours.exists():
                    cache.link(theirs, ours)
            elif not disks.is_disk(ours):
                disks.use(theirs, ours)
    return Contents(folder, ("um",), of.digest, 0)
