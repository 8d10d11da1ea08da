"""A job for sweeps: short, with a figure for each seed and parameter."""

import hashlib
import time

from testbed.lab import Run, experiment


@experiment(_in_lab_time=True, timeout="60s")
def drawn(run: Run, scale: int = 1) -> None:
    """Draws a number, and works a little, which takes some tenths of a second outside."""
    for _ in range(100):
        hashlib.sha256(bytes(1 << 20))
        time.sleep(0.01)
    run.figure("drawn", run.rng.random() * scale, "m")
    run.figure("waited", run.lab_ns, "ns")
    run.claim("the scale", scale, at_least=1)
    print(f"scale {scale}")
