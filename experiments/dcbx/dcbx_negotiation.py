"""DCBX from carrier to traffic: what both ends agree on, after how many LLDPDUs, and that it holds under load."""

import time
from dataclasses import replace
from typing import Annotated, Any

from experiments.dcbx._dcbx import feature, listed, on_the_port, oper, passing, wait_for
from testbed.frames.dcbx.values import STRICT, Tsa, mask
from testbed.subjects.dcbx.settings import Shares
from xoff import (
    Between,
    DcbxSettings,
    DcbxVersion,
    Duration,
    Ets,
    EtsAdmin,
    EtsRecommendation,
    Flow,
    Flows,
    LosslessTopo,
    PfcAdmin,
    Port,
    Recommend,
    Report,
    Run,
    configure_dcbx,
    experiment,
    network,
)

LOSSLESS = [3, 4]
ADOPTED = 4
CELLS = 1500
IN_TIME = Duration("3s")
"""The longest time from carrier to an agreement, in the standard's time; the scale is 1."""

_DRAFT = DcbxVersion.DRAFT
_ETS = (int(Tsa.ETS),) * 8
_OWN = (12, 12, 12, 12, 12, 12, 12, 16)
_BANDWIDTH = (5, 20, 5, 50, 5, 5, 5, 5)
_GROUPS = (0, 0, 0, 1, 2, 2, 2, STRICT)
_SHARES = (5, 5, 5, 55, 10, 10, 10, 0)
_OF_GROUPS = (15, 55, 30, 0, 0, 0, 0, 0)
"""The shares above, put together by the groups that the peer has its priorities in."""


def _pfc(enabled: list[int], willing: bool, version: DcbxVersion) -> DcbxSettings:
    return DcbxSettings(version, pfc=PfcAdmin(mask(enabled), willing=willing))


def _ets(table: Ets, recommend: Recommend | Shares | None) -> DcbxSettings:
    return DcbxSettings(table.version, ets=EtsAdmin(table, willing=recommend is None, recommend=recommend))


_PUBLISHED_OWN = Ets(tuple(range(8)), _OWN, _ETS)
_PUBLISHED_BETTER = EtsRecommendation(_BANDWIDTH, tuple(range(8)), _ETS)

# Host: its own settings, those of the switch, and what both ports operate with in the end.
LINKS: dict[str, tuple[DcbxSettings, DcbxSettings, str, Any]] = {
    "symmetric, published": (
        _pfc([], True, DcbxVersion.PUBLISHED),
        _pfc(LOSSLESS, False, DcbxVersion.PUBLISHED),
        "pfc",
        LOSSLESS,
    ),
    "symmetric, draft": (_pfc([], True, _DRAFT), _pfc(LOSSLESS, False, _DRAFT), "pfc", LOSSLESS),
    "asymmetric, published": (
        _ets(_PUBLISHED_OWN, None),
        _ets(_PUBLISHED_OWN, Recommend(_PUBLISHED_BETTER)),
        "ets",
        _BANDWIDTH,
    ),
    # The bridge recommends shares of priorities; it converts them to groups when it has received the host's.
    "asymmetric, draft, recommendation delayed": (
        _ets(Ets(_GROUPS, (40, 30, 30, 0, 0, 0, 0, 0)), None),
        _ets(Ets(tuple(range(8)), _OWN), Shares(_SHARES)),
        "ets",
        _OF_GROUPS,
    ),
}


@experiment(timeout="120s")
def dcbx_negotiation(run: Run, frames: Annotated[int, Between(100, 1000)] = 400) -> None:
    """DCBX: hosts take over the settings of their switch, within three LLDPDUs, and are lossless then.

    On four links, both machines in both formats: a bridge that has been up for a while and a host that comes, as in the
    draft's ladders, then carrier on all links at once. Then two hosts overload the port to a third with a priority that
    they have only by DCBX. In the control case the hosts are not willing and have no PFC: there frames are lost.
    """
    _agree(run)
    reports, pauses = _overload(run, willing=True, names=("h1", "h2", "r", "s2"), frames=frames)
    run.claim("adopted: lost", [report.lost for report in reports], equals=[0, 0])
    run.claim("adopted: pauses of the host that got least", min(pauses), at_least=1)
    reports, pauses = _overload(run, willing=False, names=("c1", "c2", "t", "s3"), frames=frames)
    # The port takes one of two frames, and the buffer CELLS of 208 octets.
    due = frames - CELLS // 8
    run.claim("hosts not willing: lost", sum(report.lost for report in reports), at_least=due)
    run.claim("hosts not willing: pauses", sum(pauses), equals=0)


def _agree(run: Run) -> None:
    with network(_links()) as net:
        fabric = net.fabric
        ends = {name: (f"n{number}-eth0", f"s1-eth{number}") for number, name in enumerate(LINKS, 1)}

        def settled(name: str) -> bool:
            _, _, kind, wanted = LINKS[name]
            found = [feature(fabric, port, kind) for port in ends[name]]
            host = _core(kind, found[0]["oper"])
            return host == list(wanted) == _core(kind, found[1]["remote"]) and not any(one["pending"] for one in found)

        for name in LINKS:
            wait_for(name, lambda: settled(name))  # noqa: B023
        for name, (own, _, _, _) in LINKS.items():
            host, bridge = ends[name]
            configure_dcbx(fabric, host, None)
            time.sleep(3)  # longer than LLDP's reinit delay
            with run.measuring():
                begin_ns = time.monotonic_ns()
                configure_dcbx(fabric, host, own)
                time.sleep(1)
            found = passing(fabric.lines(), (host, bridge), begin_ns)
            run.figure(f"{name}: a host comes, settled after", found.lasted)
            run.claim(f"{name}: a host comes, settled after", found.lasted, at_most=IN_TIME)
            run.claim(f"{name}: LLDPDUs of host and bridge until then", list(found.sent.values()), equals=[2, 1])
        for _, bridge in ends.values():
            fabric.cabling.set_up(fabric.port(bridge).intf, False)
        time.sleep(1)
        lost = {name: _core(LINKS[name][2], oper(fabric, ends[name][0], LINKS[name][2])) for name in LINKS}
        begin_ns = time.monotonic_ns()
        for _, bridge in ends.values():
            fabric.cabling.set_up(fabric.port(bridge).intf, True)
        time.sleep(IN_TIME.ns / 1e9)
        dcbx_log = fabric.lines()
        for name, (own, other, kind, wanted) in LINKS.items():
            host, bridge = ends[name]
            run.claim(f"{name}: without carrier the host has its own", lost[name], equals=_own(kind, own))
            found = passing(dcbx_log, (host, bridge), begin_ns)
            run.figure(f"{name}: carrier, settled after", found.lasted)
            run.claim(f"{name}: carrier, settled after", found.lasted, at_most=IN_TIME)
            # Both begin at once, so that their first frames cross: one more than in the ladders.
            run.claim(f"{name}: LLDPDUs of the port that needed most", max(found.sent.values()), at_most=2)
            run.claim(f"{name}: settled", settled(name), equals=True)
            has = _core(kind, oper(fabric, host, kind))
            run.claim(f"{name}: the host operates with", has, equals=list(wanted))
            has = _core(kind, oper(fabric, bridge, kind))
            run.claim(f"{name}: the bridge operates with", has, equals=_own(kind, other))


def _core(kind: str, value: Any) -> Any:
    """Return the part of a value that is compared: priorities, or the bandwidths of a table."""
    return value["bandwidth"] if kind == "ets" and value is not None else value


def _own(kind: str, settings: DcbxSettings) -> list[int]:
    if kind == "ets":
        assert settings.ets
        return list(settings.ets.table.bandwidth)
    assert settings.pfc
    return listed(settings.pfc.enabled)


def _links() -> LosslessTopo:
    """Return a topology with a host for each link, on the switch s1."""

    class Links(LosslessTopo):
        def build(self) -> None:
            self.addSwitch("s1")
            for number, (host, switch, _, _) in enumerate(LINKS.values(), 1):
                own, other = (replace(Port().with_pfc(*LOSSLESS), dcbx=dcbx) for dcbx in (host, switch))
                self.addLink(self.addHost(f"n{number}", port=own), "s1", settings2=other)

    return Links(scale=1, rate="10Mb/s")


def _overload(
    run: Run, *, willing: bool, names: tuple[str, str, str, str], frames: int
) -> tuple[list[Report], list[int]]:
    case = "adopted" if willing else "hosts not willing"
    *hosts, switch = names

    class Incast(LosslessTopo):
        def build(self) -> None:
            self.addSwitch(switch)
            for name in hosts:
                own, other = Port().without_pfc().with_dcbx(willing=willing), Port().with_pfc(*LOSSLESS).with_dcbx()
                self.addLink(self.addHost(name, port=own), switch, settings2=other)

    topo = Incast(scale=1, rate="10Mb/s", total=CELLS)
    with network(topo) as net:
        fabric = net.fabric
        wanted = LOSSLESS if willing else []
        ports = [f"{name}-eth0" for name in hosts]
        # A user of the network keeps off it as long as something is pending.
        wait_for("the hosts' PFC", lambda: not any(feature(fabric, port, "pfc")["pending"] for port in ports))
        time.sleep(4)  # until the first frames of LLDP are over
        flows = [Flow(net[name], net[hosts[2]], ADOPTED, count=frames) for name in hosts[:2]]
        with Flows(flows) as running, run.measuring():
            running.wait()
        run.claim(f"{case}: PFC of the hosts' agents", [on_the_port(fabric, port) for port in ports],
                  equals=[wanted] * 3)  # fmt: skip
        lost = running.lost
        run.claim(f"{case}: frames dropped, by the switch's counters", fabric.dropped(), equals=lost)
        pauses = [fabric.pfc(port, ADOPTED)["xoff_received"] for port in ports[:2]]
    return running.reports, pauses
