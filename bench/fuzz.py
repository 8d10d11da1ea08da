"""Ten million damaged inputs for decoders of frames, records, files, the agent's socket and runs: see tests/fuzz.py.

    python bench/fuzz.py [--total 1e7 | --count 1e7] [--seed 1] [--only ipv6]

`--total` is shared by all decoders; each gets `--count`. It prints a line for each, and one for all.

It ends with 1 at the first input that raises anything but Xoff's own errors, takes more than 50 ms of CPU, or makes the
process keep memory, and prints that input.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.fuzz import main

if __name__ == "__main__":
    sys.exit(main())
