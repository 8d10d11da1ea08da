"""The kernel's library, which tests compare with the reference in Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.engines.um import PreparedUm


@pytest.fixture(scope="module")
def library_file(ready: PreparedEngine) -> Path:
    """The file of the library that is built with the kernel of `um`."""
    assert isinstance(ready, PreparedUm)
    file = ready.kernel.library()
    if file is None:
        pytest.skip("the kernel was not built on this machine, so there is no library of its RoCE")
    return file
