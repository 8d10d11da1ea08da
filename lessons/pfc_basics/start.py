"""Lesson 1: PFC basics. Edit the first part; run it with `xoff run FILE --report`."""

from xoff import Flow, Incast, PfcSettings, Port, Run, experiment, network

# ---- Your part -------------------------------------------------------------------------------------------------------

LOSSLESS: set[int] = set()
"""Step 2: the priorities with PFC, on every port."""

QUANTA = 65535
"""Step 4: the time in each XOFF, in quanta of 512 bit times."""


def traffic() -> list[dict[str, object]]:
    """Return the flows to r. Step 3 adds one."""
    return [
        {"source": "h1", "priority": 3, "count": 600},
        {"source": "h2", "priority": 3, "count": 600},
    ]


# ---- Keep this part --------------------------------------------------------------------------------------------------


@experiment(timeout="60s")
def pfc_basics(run: Run) -> None:
    """Three hosts and a receiver at one switch: without PFC, and as you set it."""
    _overload(run, "without PFC", Port().without_pfc())
    _overload(run, "yours", Port(pfc=PfcSettings(enabled=frozenset(LOSSLESS), pause_quanta=QUANTA)))


def _overload(run: Run, case: str, port: object) -> None:
    topology = Incast(3, port=port, total=1500)
    wanted = [Flow(target="r", **settings) for settings in traffic()]  # type: ignore[arg-type]
    with network(topology, case=case) as net:
        flows = net.run(*wanted)
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
