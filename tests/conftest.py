"""Fixtures that all tests share."""

from __future__ import annotations

import gc
import os
import signal
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from testbed.lab.host import cores, prerequisites
from tests import at_once
from tests.order import Order

cores.share(int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As a shell starts programs in the background. What the tests start is to be interrupted.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# With the objects of thousands of tests each collection of garbage takes long, and nothing here makes much of it.
gc.set_threshold(100_000, 50, 100)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    at_once.pytest_configure(config)
    config.pluginmanager.register(Order(config), "order")


def pytest_collection_finish() -> None:
    """Take the tests that were collected out of each later collection of garbage, also those that a test asks for."""
    gc.collect()
    gc.freeze()


settings.register_profile("xoff", deadline=None)  # a busy machine is no failure
# `./xoff test --unit` is what one runs after each change. The whole suite has Hypothesis' own number of examples.
settings.register_profile("quick", deadline=None, max_examples=20)
settings.load_profile("xoff")


@pytest.fixture
def xoff_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own; nothing is there yet."""
    place = tmp_path / "cache"
    monkeypatch.setenv("XOFF_CACHE", str(place))
    return place


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Makes shell scripts in the only directory where programs are looked for."""
    place = tmp_path / "bin"
    place.mkdir()
    monkeypatch.setenv("PATH", str(place))
    monkeypatch.setattr(prerequisites, "_SBIN", ())

    def write(name: str, script: str = "", interpreter: str = "#!/bin/sh") -> Path:
        path = place / name
        path.write_text(f"{interpreter}\n{script}\n")
        path.chmod(0o755)
        return path

    return write


@pytest.fixture
def experiment_file(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Writes the files of a user's experiment; what is imported from them is forgotten afterwards."""

    def write(text: str, name: str = "mine.py") -> Path:
        path = tmp_path / "user" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"from testbed.lab import Run, experiment\n{textwrap.dedent(text)}")
        return path

    yield write
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]
