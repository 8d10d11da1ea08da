"""Time series: rows of samples, and what reads them back."""

from __future__ import annotations

import importlib
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from testbed.errors import UsageError
from testbed.lab import series as reading
from testbed.net import series


class OneSecondAgo:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.now_ns = 10**9


def test_samples_of_flows_are_rows_with_times_of_the_run(tmp_path: Path) -> None:
    began = time.monotonic_ns() - 10**9
    one = SimpleNamespace(begin_ns=0, samples=({"t_ns": began + 5, "rate_bps": 1e7, "alpha": 1.0},))
    other = SimpleNamespace(begin_ns=0, samples=({"t_ns": began + 5, "rate_bps": 2e7},))
    series.flows(OneSecondAgo(tmp_path), [one, other], ["h1"])
    header, *rows = (tmp_path / "series-flows.csv").read_text().splitlines()
    assert header == "t_ns,flow,alpha,rate_bps"
    assert [row.split(",")[1:] for row in rows] == [["h1", "1.0", "10000000.0"], ["1", "", "20000000.0"]]


@pytest.mark.parametrize("reader", ["pandas", "polars"])
def test_a_series_is_read_with_what_is_installed(tmp_path: Path, monkeypatch: Any, reader: str) -> None:
    (tmp_path / "series-buffer.csv").write_text("t_ns,port\n1,s1-eth1\n")

    def pretended(name: str) -> Any:
        if name != reader:
            raise ModuleNotFoundError(name=name)
        return SimpleNamespace(read_csv=lambda file: (reader, file.read_text()))

    monkeypatch.setattr(importlib, "import_module", pretended)
    assert reading.read(tmp_path, "buffer") == (reader, "t_ns,port\n1,s1-eth1\n")


def test_a_series_that_is_not_there_and_a_missing_reader_are_named(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "series-buffer.csv").write_text("t_ns\n")
    with pytest.raises(UsageError, match=r"has no series 'flows'; it has buffer"):
        reading.read(tmp_path, "flows")

    def missing(name: str) -> Any:
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(UsageError, match="neither pandas nor polars is installed"):
        reading.read(tmp_path, "buffer")
