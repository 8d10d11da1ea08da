"""Runs on a Dask cluster: `sweep.run(..., scheduler="tcp://...")`.

`client.py` is the user's side. It sends `on_worker.py` to the scheduler and the workers, which have no Xoff, and gives
the scheduler what a run takes (`parts.py`). `one_run.py` is a process on a worker that makes one run. A worker needs
Python and Dask; it keeps what it has got in its user's cache.
"""
