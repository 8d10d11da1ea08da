"""RDMA devices in software on hosts' interfaces, for programs that use verbs: Soft-RoCE and software iWARP.

The kernel of the engine `um` has both (`rdma_rxe`, `siw`), keeps the devices of network namespaces apart, and carries
the library that such programs need there (testbed/lab/um/linux/xoff_verbs_library.c). Nothing here is called for hosts
without `rdma`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from testbed.linux.netlink import rdma
from testbed.linux.netlink.messages import Socket
from testbed.linux.process import kernel

_IN_KERNEL = Path("/sys/kernel/xoff_verbs_library")
LIBRARY = Path("/run/xoff-verbs.so")
"""The library for LD_PRELOAD: it lets time go on while a program polls a completion queue."""
HOST_VARIABLE = "XOFF_HOST"
"""The variable in the environment of programs with the name of their host, by which the user's machine knows it."""
_SETTINGS = Path("/sys/kernel/config")
_CONNECTIONS = _SETTINGS / "rdma_cm"
_COUNTERS = "ports/1/hw_counters"


def is_there() -> bool:
    """Return True if this kernel has RDMA devices for each host, which only that of `um` has."""
    return _IN_KERNEL.exists()


def provide_library() -> Path:
    """Return the path of the library, after writing it out of the kernel if it is not there yet."""
    if not LIBRARY.exists():
        LIBRARY.write_bytes(_IN_KERNEL.read_bytes())
    return LIBRARY


def device_name(kind: str, interface: str) -> str:
    """Return the name of the device of an interface: that of h1-eth0 is rxe-h1-eth0, or siw-h1-eth0."""
    return f"{kind}-{interface}"


def _device(pid: int, name: str) -> Path:
    """Return the folder of a device, which only processes in the device's network namespace see."""
    return Path(f"/proc/{pid}/root/sys/class/infiniband/{name}")


def counters(pid: int, interface: str) -> dict[str, int]:
    """Return the counters of the Soft-RoCE device of an interface in the network namespace of process `pid`, by their
    names; those of mlx5's have the same meaning. Software iWARP counts nothing.
    """
    folder = _device(pid, device_name(rdma.SOFT_ROCE, interface)) / _COUNTERS
    return {each.name: int(each.read_text()) for each in sorted(folder.iterdir()) if each.name != "lifespan"}


class RdmaDevices:
    """The RDMA devices of a network."""

    def __init__(self) -> None:
        self._made: dict[str, Socket] = {}

    def add(self, pid: int, kind: str, interface: str, type_of_service: int, settings: Mapping[str, int]) -> None:
        """Make a device on an interface in the network namespace of process `pid`.

        Connections that programs make by the RDMA connection manager get this type of service, unless they ask for
        another one. `settings` are those of Soft-RoCE's DCQCN, by the names of the files in the device's folder
        cc_params.
        """
        name = device_name(kind, interface)
        with kernel.in_network_of(pid):
            socket = Socket(rdma.PROTOCOL)
        self._made[name] = socket
        socket.send([rdma.add(name, interface, kind)])
        if not _CONNECTIONS.exists():
            kernel.mount("configfs", str(_SETTINGS))
        connections = _CONNECTIONS / name
        connections.mkdir()
        (connections / "ports/1/default_roce_tos").write_text(f"{type_of_service}\n")
        device = _device(pid, name)
        if kind == rdma.SOFT_ROCE:
            (device / _COUNTERS / "lifespan").write_text("0\n")
        for setting, value in settings.items():
            (device / "cc_params" / setting).write_text(f"{value}\n")

    def close(self) -> None:
        """Remove all devices; programs that use one find it gone."""
        for name, socket in self._made.items():
            with suppress(FileNotFoundError):
                (_CONNECTIONS / name).rmdir()
            indices = dict(rdma.listed(body) for _, body in socket.dump(rdma.LIST, b""))
            if name in indices:
                socket.send([rdma.delete(indices[name], name)])
            socket.close()
        self._made.clear()
