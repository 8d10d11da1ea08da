"""Netlink messages for RDMA devices, octet by octet, as rdma/rdma_netlink.h has them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from testbed.linux import rdma_devices
from testbed.linux.netlink import rdma


def test_a_device_is_made_by_the_octets_of_the_rdma_tool() -> None:
    """`rdma link add rxe-h1-eth0 type rxe netdev h1-eth0`: RDMA_NLDEV_CMD_NEWLINK with name, kind and interface."""
    message = rdma.add("rxe-h1-eth0", "h1-eth0", rdma.SOFT_ROCE)
    name = struct.pack("=HH", 4 + 12, 2) + b"rxe-h1-eth0\0"
    kind = struct.pack("=HH", 4 + 4, 65) + b"rxe\0"
    interface = struct.pack("=HH", 4 + 8, 51) + b"h1-eth0\0"
    assert message.encode(7) == struct.pack("=IHHII", 16 + 36, 5 << 10 | 3, 0x5, 7, 0) + name + kind + interface
    assert message.what == "making the RDMA device rxe-h1-eth0 on h1-eth0"


def test_a_device_is_removed_by_its_index() -> None:
    message = rdma.delete(3, "rxe-r-eth0")
    assert (message.kind, message.body) == (5 << 10 | 4, struct.pack("=HHI", 8, 1, 3))
    assert message.may_be_gone


def test_the_list_of_devices_has_names_and_indices() -> None:
    body = struct.pack("=HHI", 8, 1, 9) + struct.pack("=HH", 9, 2) + b"rxe0\0" + bytes(3) + struct.pack("=HHI", 8, 3, 1)
    assert rdma.listed(body) == ("rxe0", 9)


def test_this_machine_has_no_rdma_for_hosts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert not rdma_devices.is_there()
    built, copy = tmp_path / "in-kernel", tmp_path / "copy.so"
    built.write_bytes(b"\x7fELF")
    monkeypatch.setattr(rdma_devices, "_IN_KERNEL", built)
    monkeypatch.setattr(rdma_devices, "LIBRARY", copy)
    assert rdma_devices.is_there()
    assert rdma_devices.provide_library().read_bytes() == b"\x7fELF"
    built.unlink()
    assert rdma_devices.provide_library() == copy  # it is read out once
