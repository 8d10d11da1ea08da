"""Names of the lab's ports in a QoS fabric."""

from __future__ import annotations

from testbed.frames import Mac
from testbed.subjects.qos.lab.discovery import eui64


def test_a_guid_is_the_eui64_of_the_mac_address() -> None:
    assert eui64(Mac.parse("02:58:00:00:00:05")) == 0x0058_00FF_FE00_0005
    assert eui64(Mac.parse("00:1b:21:aa:bb:cc")) == 0x021B_21FF_FEAA_BBCC
