"""`python -m testbed` is `xoff`."""

import gc
import sys

gc.set_threshold(100_000)  # importing makes many objects and no garbage; 700 would cost a fifth of a short call

from testbed.cli import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
