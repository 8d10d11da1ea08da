"""Write the C structure of the counters of RoCE queue pairs: python -m tools.roce_counters"""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from testbed.roce.counters import Counters

HEADER = Path(__file__).parents[1] / "testbed/lab/um/linux/xoff_roce_counters.h"
_HEAD = """/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The counters of a queue pair; made by tools/roce_counters.py of the list in Python, which says what each of them is.
 *
 * Stated in: testbed/roce/counters.py.
 * Compared by: tests/unit/roce/test_counters.py, tests/lab/roce/test_roce_in_kernel.py.
 */
#ifndef __XOFF_ROCE_COUNTERS_H
#define __XOFF_ROCE_COUNTERS_H

struct xr_counters {
"""


def header() -> str:
    """Return the text of the header."""
    return _HEAD + "".join(f"\tu64 {one.name};\n" for one in fields(Counters)) + "};\n\n#endif\n"


if __name__ == "__main__":
    HEADER.write_text(header())
