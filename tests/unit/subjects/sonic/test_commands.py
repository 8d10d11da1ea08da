"""SONiC's commands: their words, and the columns of their tables. The lab's tests have the numbers."""

from __future__ import annotations

import pytest

from testbed.agent.orders import encode_watchdog, parse_watchdog
from testbed.subjects.sonic.lab.views import table
from testbed.switch.pfc.settings import Action, Kind, WatchdogSettings
from testbed.units import Duration


def test_tables_are_laid_out_as_those_of_a_switch() -> None:
    heads = ("Port", "PG0", "PG1")
    assert table(heads, [("Ethernet0", 0, 1234567), ("Ethernet4", 7, 0)]) == (
        "     Port    PG0      PG1\n---------  -----  -------\nEthernet0      0  1234567\nEthernet4      7        0\n"
    )
    assert table(("Interface", "Lossless priorities"), [("Ethernet0", "3,4")], left=True) == (
        "Interface    Lossless priorities\n-----------  ---------------------\nEthernet0    3,4\n"
    )
    assert table(heads, []) == "  Port    PG0    PG1\n------  -----  -----\n"


@pytest.mark.parametrize("action", Action)
def test_a_watchdogs_settings_go_to_an_agent_whole(action: Action) -> None:
    for kind in Kind:
        settings = WatchdogSettings(Duration("400s"), Duration("1ps"), Duration("200ms"), action, kind)
        assert parse_watchdog(encode_watchdog(settings)) == settings
    assert parse_watchdog(encode_watchdog(None)) is None
