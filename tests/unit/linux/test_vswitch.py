"""The commands by which a leaf configures Open vSwitch."""

from __future__ import annotations

import pytest

from testbed.frames import Mac
from testbed.linux.vswitch import Bridge

LEAF = Bridge("s1", 7, Mac.parse("02:00:00:00:00:07"), {"s1-eth1": 1, "s1-eth4": 4})


def split(words: list[str]) -> list[list[str]]:
    """Return the commands of one transaction."""
    commands: list[list[str]] = []
    for word in words:
        if word == "--":
            commands.append([])
        else:
            commands[-1].append(word)
    return commands


def test_a_leaf_of_a_controller_has_only_the_rules_of_the_controller() -> None:
    commands = split(LEAF.commands("unix:/run/controller"))
    (bridge,) = (command for command in commands if command[:2] == ["set", "Bridge"])
    assert "fail_mode=secure" in bridge and "protocols=OpenFlow13,OpenFlow15" in bridge
    assert 'other_config:datapath-id="0000000000000007"' in bridge
    assert ["set-controller", "s1", "unix:/run/controller"] in commands
    assert ["set", "Controller", "s1", "max_backoff=1000", "connection_mode=out-of-band"] in commands


def test_a_leaf_without_a_controller_learns_by_itself() -> None:
    commands = split(LEAF.commands(None))
    (bridge,) = (command for command in commands if command[:2] == ["set", "Bridge"])
    assert "fail_mode=standalone" in bridge
    assert not any("ontroller" in word for command in commands for word in command)


@pytest.mark.parametrize(("port", "number"), LEAF.ports.items())
def test_every_port_keeps_its_queues_and_has_its_number_in_openflow(port: str, number: int) -> None:
    commands = split(LEAF.commands(None))
    assert ["add-port", "s1", port] in commands
    assert ["set", "Port", port, "qos=@ours"] in commands
    assert ["--id=@ours", "create", "QoS", "type=linux-noop"] in commands
    assert ["set", "Interface", port, f"ofport_request={number}"] in commands
