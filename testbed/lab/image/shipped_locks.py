"""The names of further packages for which Xoff has a lock; the help of commands has them without more imports."""

from __future__ import annotations

import re
from importlib import resources

FOLDER = resources.files("testbed.lab.image") / "extras"
DEBIAN_FOLDER = FOLDER / "debian"
SUFFIX = ".lock"
OTHER_SUITES = ("trixie",)
"""The suites of Debian, beside that of the image, of which packages can be locked."""


def of_python() -> list[str]:
    """Return the names of Python packages."""
    return sorted(path.name.removesuffix(SUFFIX) for path in FOLDER.iterdir() if path.name.endswith(SUFFIX))


def of_debian() -> list[str]:
    """Return the names of Debian packages, with their suite if it is another one."""
    names = [path.name.removesuffix(SUFFIX) for path in DEBIAN_FOLDER.iterdir() if path.name.endswith(SUFFIX)]
    return sorted(re.sub(rf"^({'|'.join(OTHER_SUITES)})-", r"\1:", name) for name in names)
