"""The files of time series, and what makes them one in a network over several kernels.

Each part samples the ports that it has and the flows whose target it has, at the same moments as all others. For a
series that the script records they agree on the first moment and on the last, and afterwards every part has the rows of
all, in the order of time; those of one moment are in the order of the parts. Series of the run itself have the first
moment from the network's start, and are joined so outside the lab (`lab/partition/gang.py`): to meet would take time,
and change the run.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from testbed.experiment.run import Run
from testbed.linux.process.observing import observing
from testbed.net.fabric.core import FabricCore
from testbed.net.fabric.parts import Parts, Whole


def file_name(series: str) -> str:
    """Return the name of a series' file in a result folder."""
    return f"series-{series}.csv"


class SeriesFiles:
    """The files of some series while one network is recorded. All networks of a run append to them."""

    def __init__(self, run: Run, columns: Mapping[str, str], every_ns: int, *, of_run: bool) -> None:
        """Create the files that the run does not have yet, with their columns, and agree with all parts on a begin,
        unless the series are those of the run itself (`of_run`).
        """
        self._paths = {series: run.directory / file_name(series) for series in columns}
        self._every_ns = every_ns
        with observing():
            for series, path in self._paths.items():
                if not path.exists():
                    path.write_text(f"{columns[series]}\n", encoding="utf-8")
            self._sizes = {series: path.stat().st_size for series, path in self._paths.items()}
            now_ns = time.monotonic_ns()
        parts = FabricCore.current().parts
        self.first_ns, self.start_ns = parts.first_sample(now_ns, run.start_ns, every_ns, of_run=of_run)
        """The moments of the first sample and of the run's begin, by the clock of the lab."""
        self._parts: Parts = Whole() if of_run else parts

    def path(self, series: str) -> Path:
        """Return the path of a file; rows are appended to it."""
        return self._paths[series]

    def wait_for_end(self) -> None:
        """Wait until all parts have made the same number of samples."""
        self._parts.wait_for_samples(self.first_ns, self._every_ns)

    def gather(self) -> None:
        """Have the rows of all parts in the files, once nobody writes them any more."""
        self._parts.gather_rows({path: self._sizes[series] for series, path in self._paths.items()})
