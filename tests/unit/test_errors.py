"""Errors as values."""

from __future__ import annotations

import pickle

from testbed.linux.netlink.messages import NetlinkError


def test_an_error_whose_class_takes_more_than_a_text_goes_to_another_process() -> None:
    found = pickle.loads(pickle.dumps(NetlinkError("there is no such interface", 19)))
    assert (type(found), str(found), found.code) == (NetlinkError, "there is no such interface", 19)
