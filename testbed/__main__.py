"""`python -m testbed` is `xoff`, as the front door of a checkout starts it."""

from testbed import early_end

early_end.begin()

import gc
import sys
from contextlib import suppress
from pathlib import Path

from testbed.errors import XoffError
from testbed.lab.host import cache

gc.set_threshold(100_000)  # importing makes many objects and no garbage; 700 would cost a fifth of a short call

if sys.pycache_prefix is None:
    with suppress(XoffError, OSError):  # a cache that cannot be used is the matter of a command that needs it
        sys.pycache_prefix = str(cache.bytecode(Path(__file__).parents[1]))
        sys.dont_write_bytecode = False  # it keeps source folders clean, and so does the prefix

from testbed.cli import main

if __name__ == "__main__":
    sys.exit(main())
