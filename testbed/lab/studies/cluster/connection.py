"""Reaches a Dask scheduler, and refuses what cannot work: an address of something else, or other versions of Dask."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
import warnings
from typing import Any

from testbed.errors import UsageError, XoffError

_ADDRESS = re.compile(r"(tcp|tls|ws|wss)://(\[[0-9A-Fa-f:.%]+\]|[^\s/:\[\]]+):(?P<port>[0-9]{1,5})")
_ANSWERS_WITHIN_S = 10.0
_SAME = ("distributed", "dask")
"""Packages whose versions must be the same everywhere: their messages have no versions of their own."""


class ClusterError(XoffError):
    """A cluster that cannot be reached or used, or has not made a run."""

    exit_code = 3


def client_of(address: str) -> Any:
    """A client of the scheduler at an address."""
    found = _ADDRESS.fullmatch(address)
    if found is None or not 0 < int(found["port"]) < 1 << 16:
        raise UsageError(f"--scheduler {address}: an address is tcp://HOST:PORT, as in tcp://10.0.0.1:8786")
    try:
        import distributed
    except ModuleNotFoundError as error:
        if error.name not in ("distributed", "dask"):
            raise
        raise ClusterError(
            f"{sys.executable} has no Python package {error.name}, which clusters take: pip install xoff[cluster], or "
            "use ./xoff in the source"
        ) from None
    for name in list(logging.root.manager.loggerDict):  # what Dask would print comes as an exception too
        if name.partition(".")[0] in ("distributed", "tornado", "asyncio"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        kind = asyncio.run(asyncio.wait_for(_kind_of(address), _ANSWERS_WITHIN_S))
    except Exception as error:
        raise ClusterError(
            f"no Dask scheduler answers at {address} within {_ANSWERS_WITHIN_S:g} s ({cause(error)}); "
            "is `dask scheduler` running there, and is the port right?"
        ) from None
    if kind != "Scheduler":
        raise UsageError(f"at {address} there is a Dask {kind.lower()}; name its scheduler's address")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of versions, which are compared below
            return distributed.Client(address, timeout=_ANSWERS_WITHIN_S, set_as_default=False)
    except Exception as error:
        raise ClusterError(
            f"the scheduler at {address} does not take clients ({cause(error)}); it must have Dask {_own_version()}"
        ) from None


async def _kind_of(address: str) -> str:
    """Return the kind of program that answers there. `distributed.Client` would wait a minute for one that is no Dask
    at all."""
    from distributed.core import rpc
    from distributed.security import Security

    tls = Security().get_connection_args("client")
    async with rpc(address, timeout=_ANSWERS_WITHIN_S * 0.8, connection_args=tls) as there:
        return str((await there.identity())["type"])


def cause(error: BaseException) -> str:
    """The first line of what was behind an error."""
    while error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, (TimeoutError, asyncio.CancelledError)):
        return "it is silent, or no Dask"
    return str(error).strip().partition("\n")[0] or type(error).__name__


def require_same_versions(address: str, client: Any) -> None:
    """Refuse a cluster with another Dask than ours."""
    try:
        versions = client.get_versions()
        ours = versions["client"]["packages"]
        others = {"the scheduler": versions["scheduler"]}
        others |= {f"the worker {worker}": about for worker, about in versions["workers"].items()}
        for who, about in others.items():
            for package in _SAME:
                theirs, here = about["packages"][package], ours[package]
                if theirs != here:
                    raise ClusterError(
                        f"{address}: {who} has {package} {theirs}, and this machine has {here}; versions must be the "
                        f"same: pip install {package}=={here} there"
                    )
    except ClusterError:
        raise
    except Exception as error:
        raise ClusterError(
            f"the scheduler at {address} does not report its versions ({cause(error)}); it must have Dask "
            f"{_own_version()}, as this machine has"
        ) from None


def _own_version() -> str:
    import distributed

    return str(distributed.__version__)
