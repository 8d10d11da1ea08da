"""Answers of the real kernel, in a network namespace of the test, which takes root."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from testbed.linux.netlink import links, qdiscs
from testbed.linux.netlink.messages import Message, NetlinkError, Socket
from testbed.linux.process import kernel

LOOPBACK = 1
_GET_ADDRESSES = 22


@pytest.fixture
def netlink(namespace: int) -> Iterator[Socket]:
    """A socket in a namespace of its own, which has a loopback interface and no other."""
    with kernel.in_network(namespace):
        made = Socket()
    yield made
    made.close()


def address(number: int, remove: bool = False) -> Message:
    return links.address(LOOPBACK, f"10.1.{number // 200}.{number % 200}/32", remove)


def test_a_refusal_names_the_request_and_has_the_kernels_number(netlink: Socket) -> None:
    with pytest.raises(NetlinkError) as refused:
        netlink.send([links.up(99)])
    assert (str(refused.value), refused.value.code) == ("setting interface 99 up: No such device", 19)


def test_the_kernels_extended_error_message_is_passed_on(netlink: Socket) -> None:
    plug, _ = qdiscs.plug(LOOPBACK, qdiscs.ROOT, qdiscs.handle(1), 1)
    with pytest.raises(NetlinkError) as refused:
        netlink.send([replace(plug, body=plug.body.replace(b"plug", b"what"))])
    if refused.value.code == errno.EOPNOTSUPP:
        pytest.skip("this kernel has no queueing disciplines")
    assert re.fullmatch(r"plug of interface 1: No such file or directory \(.*qdisc.*\)", str(refused.value))


def test_after_a_refusal_the_others_are_done_still_and_the_first_is_raised(netlink: Socket) -> None:
    with pytest.raises(NetlinkError, match=r"^setting interface 98 up"):
        netlink.send([address(1), links.up(98), links.up(99), address(2)])
    assert len(netlink.dump(_GET_ADDRESSES, bytes(8))) == 2


def test_more_requests_than_a_batch_holds_are_all_done(netlink: Socket) -> None:
    netlink.send(address(number) for number in range(500))
    assert len(netlink.dump(_GET_ADDRESSES, bytes(8))) == 500
    netlink.send(address(number, remove=True) for number in range(500))
    assert netlink.dump(_GET_ADDRESSES, bytes(8)) == []


def test_removing_what_is_gone_is_not_an_error(netlink: Socket) -> None:
    netlink.send([address(1), address(1, remove=True), address(1, remove=True), links.delete(99)])


def test_a_list_that_the_kernel_does_not_have_is_an_error_and_the_socket_stays_good(netlink: Socket) -> None:
    with pytest.raises(NetlinkError, match=r"^listing: Operation not supported$"):
        netlink.dump(9999, bytes(8))
    netlink.send([links.up(LOOPBACK)])


def test_the_first_refusal_is_raised_also_if_a_later_batch_has_another(netlink: Socket) -> None:
    with pytest.raises(NetlinkError, match=r"^setting interface 98 up"):
        netlink.send([links.up(98), *(address(number) for number in range(100)), links.up(99)])
