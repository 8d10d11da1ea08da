"""Fixtures that the unit tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from testbed.linux.process import kernel


@pytest.fixture
def namespace() -> Iterator[int]:
    """A network namespace of the test's own, as a file descriptor; its loopback interface is there and down."""
    try:
        made = kernel.new_network()
    except PermissionError:
        pytest.skip("making a network namespace takes root")
    try:
        yield made
    finally:
        os.close(made)
