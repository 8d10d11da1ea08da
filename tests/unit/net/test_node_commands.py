"""The commands of a router's set-up: which share a process, and which one an error names."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from testbed.net.build.node_commands import Batch, batches

COMMANDS = [
    "sysctl -qw net.ipv6.conf.all.forwarding=1",
    "sysctl -qw net.ipv6.conf.r1-eth0.seg6_enabled=1 net.vrf.strict_mode=1",
    "ip -6 rule add to fd00:5::/32 lookup main priority 999",
    "ip -6 route add fd00:5:2::/48 via fd00:c:1::2 dev r1-eth1 metric 2049",
    "ip sr tunsrc set fd00:6:1::1",
    "tc qdisc add dev r1-eth0 clsact",
    "echo 1 > /proc/sys/net/ipv4/ip_forward",
    "ip link show | wc -l",
    "ip -s link show dev r1-eth0",
    "tc -s qdisc show",
]


def test_commands_of_one_program_that_follow_each_other_share_a_process() -> None:
    assert [(batch.program, len(batch.commands)) for batch in batches(COMMANDS)] == [
        (("sysctl", "-qw"), 2),
        (("ip", "-6"), 2),
        (("ip",), 1),
        (("tc",), 1),
        ((), 4),
    ]


def test_settings_are_one_command_and_others_are_lines() -> None:
    settings, routes, *_ = batches(COMMANDS)
    assert settings.arguments() == [
        "sysctl", "-qw", "net.ipv6.conf.all.forwarding=1", "net.ipv6.conf.r1-eth0.seg6_enabled=1",
        "net.vrf.strict_mode=1",
    ]  # fmt: skip
    assert routes.arguments() == ["ip", "-6", "-batch", "-"]
    assert routes.lines().splitlines() == [command.removeprefix("ip -6 ") for command in COMMANDS[2:4]]


@given(st.lists(st.sampled_from(COMMANDS)))
def test_every_command_is_carried_out_once_and_in_its_order(commands: list[str]) -> None:
    assert [command for batch in batches(commands) for command in batch.commands] == commands


def test_an_error_names_the_command_that_failed() -> None:
    batch = Batch(("ip", "-6"), COMMANDS[2:4])
    output = "RTNETLINK answers: File exists\nCommand failed -:2\n"
    assert batch.failure(output) == (COMMANDS[3], "RTNETLINK answers: File exists")


def test_an_error_without_a_line_names_the_command_with_the_word_that_is_unknown() -> None:
    """If `ip` cannot parse a command it ends before it names the line."""
    wrong = "ip -6 route add nonsense via fd00:c:1::2 dev r1-eth1"
    output = 'Error: inet6 prefix is expected rather than "nonsense".\n'
    assert Batch(("ip", "-6"), [*COMMANDS[2:4], wrong]).failure(output) == (wrong, output.strip())


def test_an_error_that_names_nothing_is_that_of_the_batch() -> None:
    assert Batch(("tc",), COMMANDS[5:6]).failure("tc ended with 1") == ("tc -batch -", "tc ended with 1")
