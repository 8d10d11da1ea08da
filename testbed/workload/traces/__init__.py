"""Small execution traces in Chakra's JSON, made for Xoff: a file for each rank, or one that all ranks have.

`data_parallel` reduces the gradients of a layer while the next one is computed; `mixture_of_experts` sends tokens to
experts and back by all-to-all; `pipeline` has four stages and two micro-batches.
"""

from __future__ import annotations

from pathlib import Path

from testbed.errors import nearest
from testbed.workload.transfers import WorkloadError

_HERE = Path(__file__).parent


def names() -> list[str]:
    """Return the names of the traces, as users type them."""
    return sorted({path.name.partition(".")[0].replace("_", "-") for path in _HERE.glob("*.json")})


def files(name: str) -> list[Path]:
    """Return the files of a trace by rank."""
    found = sorted(_HERE.glob(f"{name.replace('-', '_')}.*json"))
    if name not in names():
        raise WorkloadError(f"there is no trace {name[:40]!r}; {nearest(name[:40], names())}, or name your own files")
    return found
