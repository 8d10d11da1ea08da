"""Lesson 1: PFC basics. Edit the first part; run it with `xoff run FILE --report`."""

from testbed.lab import Run, experiment

# ---- Your part -------------------------------------------------------------------------------------------------------

LOSSLESS: set[int] = set()
"""Step 2: the priorities with PFC, on every port."""

QUANTA = 65535
"""Step 4: the time in each XOFF, in quanta of 512 bit times."""


def traffic() -> list[dict[str, object]]:
    """Who sends what to r. Step 3 adds a flow."""
    return [
        {"source": "h1", "priority": 3, "count": 600},
        {"source": "h2", "priority": 3, "count": 600},
    ]


# ---- Keep this part --------------------------------------------------------------------------------------------------


@experiment(timeout="60s")
def pfc_basics(run: Run) -> None:
    """Three hosts and a receiver at one switch: without PFC, and as you set it."""
    from testbed.net.port import Port
    from testbed.pfc.settings import PfcSettings

    _overload(run, "without PFC", Port().with_pfc())
    _overload(run, "yours", Port(pfc=PfcSettings(enabled=frozenset(LOSSLESS), pause_quanta=QUANTA)))


def _overload(run: Run, case: str, port: object) -> None:
    from testbed.net.network import network
    from testbed.net.port import Buffer
    from testbed.net.traffic import Flow, Flows
    from topologies.incast import Incast

    topology = Incast(3, port=port, buffer=Buffer(total=1500))
    wanted = [Flow(target="r", **settings) for settings in traffic()]  # type: ignore[arg-type]
    with network(topology, run, case=case, autoStaticArp=True) as net:
        with Flows(wanted) as flows, run.measuring():
            flows.wait()
        dropped = net.fabric.dropped()
    rows = [
        {
            "source": str(flow.source),
            "priority": flow.priority,
            "sent": report.sent,
            "lost": report.lost,
            "goodput": report.goodput.bps,
        }
        for flow, report in zip(wanted, flows.reports, strict=True)
    ]
    run.figure(f"{case}: flows", rows)
    run.figure(f"{case}: dropped by the switch", dropped)
