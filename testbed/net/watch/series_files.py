"""The files of time series, and what makes them one in a network over several kernels.

Each part samples the ports that it has and the flows whose target it has, at the same moments as all others. For a
series that the script records they agree on the first moment and on the last, and afterwards every part has the rows of
all, in the order of time; those of one moment are in the order of the parts. Series of the run itself have the first
moment from the network's start, and are joined so outside the lab (`lab/partition/gang.py`): to meet would take time,
and change the run.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping
from pathlib import Path

from testbed.experiment.output import merged
from testbed.experiment.run import Run
from testbed.linux.process.observing import observing
from testbed.net.partition.parts import Parts

_LEAD_NS = 1_000_000
"""The lab's time from an agreement to the first sample, in which a process starts."""


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
            parts = Parts.asked()
            for series, path in self._paths.items():
                if not path.exists():
                    path.write_text(f"{columns[series]}\n", encoding="utf-8")
            self._sizes = {series: path.stat().st_size for series, path in self._paths.items()}
            self.first_ns = time.monotonic_ns()
            """The moment of the first sample."""
        self._parts = None if of_run else parts
        self.start_ns = run.start_ns
        """The moment at which the run began, by the clock of the lab."""
        if parts is not None:
            began = (self.first_ns, self.start_ns)
            agreed = parts.started if of_run else parts.exchange("series begin", began)
            now_ns = self.first_ns
            self.first_ns = max(then_ns for then_ns, _ in agreed) + parts.cut.farthest_ns + _LEAD_NS
            self.first_ns += max(0, -(-(now_ns - self.first_ns) // every_ns)) * every_ns
            _, self.start_ns = agreed[0]

    def path(self, series: str) -> Path:
        """Return the path of a file; rows are appended to it."""
        return self._paths[series]

    def wait_for_end(self) -> None:
        """Wait until all parts have made the same number of samples: the middle between two of them."""
        if self._parts is not None:
            now_ns = max(self._parts.exchange("series end", time.monotonic_ns())) + self._parts.cut.farthest_ns
            samples = max(0, now_ns - self.first_ns) // self._every_ns + 1
            end_ns = self.first_ns + samples * self._every_ns + self._every_ns // 2
            time.sleep(max(0, end_ns - time.monotonic_ns()) / 1e9)

    def gather(self) -> None:
        """Have the rows of all parts in the files, once nobody writes them any more."""
        if self._parts is None:
            return
        with observing():
            own = {series: zlib.compress(self._rows(series)) for series in self._paths}
        of_all = self._parts.exchange("series", own)
        with observing():
            for series, path in self._paths.items():
                rows = [zlib.decompress(one[series]).splitlines(keepends=True) for one in of_all]
                with path.open("r+b") as file:
                    file.seek(self._sizes[series])
                    file.writelines(merged(rows))

    def _rows(self, series: str) -> bytes:
        """Return the rows that this part has added to a file."""
        with self._paths[series].open("rb") as file:
            file.seek(self._sizes[series])
            return file.read()
