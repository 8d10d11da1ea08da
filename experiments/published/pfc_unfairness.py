"""PFC is unfair to flows, and DCQCN is not: the parking lot of the paper that introduced DCQCN."""

from xoff import (
    Cable,
    Duration,
    EcnCurve,
    Flow,
    LosslessTopo,
    Rate,
    Run,
    experiment,
    jain_index,
    marking,
    roce_outcome,
)

SOURCE = "Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015, section 2.2, figure 3"
LINE = Rate("40Gb/s")
SENDERS = 4
SHORT, LONG = ("1ms", "300us", "600us"), ("5ms", "3ms", "1900us")
"""The length of flows, the time until they are steady, and the time that is looked at: DCQCN takes longer."""


@experiment(timeout="120s", free_cpu=True)
def pfc_unfairness(run: Run) -> None:
    """Four senders to one receiver at 40 Gb/s: three come by one uplink and the fourth is at the receiver's switch.

    With PFC alone the switch divides its line between two ports, so H4 gets 20 Gb/s, as published for a hash that puts
    the others on one uplink, and more than any of them. The published cure is DCQCN, by which all get the same. The
    control case is DCQCN without marks, which is as unfair as PFC alone.
    """
    curve = EcnCurve("40kB", "200kB", "10%")
    rates = _rates("PFC alone", "fixed", None, SHORT)
    run.published(
        "PFC alone: goodput of H4", rates[3], value=Rate("20Gb/s"), within="5%", source=SOURCE,
        differs="'as much as', of transfers of 4 MB; the other uplink is left out, and flows last 1 ms",
    )  # fmt: skip
    run.figure("PFC alone: goodput of H1 to H3", rates[:3])
    run.claim("PFC alone: H4 over the fastest of H1 to H3", round(rates[3].bps / max(rates[:3]).bps, 2), at_least=2)
    without = _rates("DCQCN without marks", "dcqcn-mlx", None, SHORT)
    run.claim("DCQCN without marks: Jain's index", jain_index(without), at_most=0.8)
    cured = _rates("DCQCN", "dcqcn-mlx", curve, LONG)
    run.figure("DCQCN: goodput of H4", cured[3])
    run.figure("DCQCN: goodput of H1 to H3", cured[:3])
    run.published(
        "DCQCN: Jain's index", jain_index(cured), value=1.0, within=0.05, source=SOURCE.replace("2.2, figure 3", "6.1"),
        differs="'all four flows get an equal share', without an index; in a window of 1.9 ms, after 3 ms",
    )  # fmt: skip


class _Testbed(LosslessTopo):
    """H1 to H3 at another switch than H4 and R."""

    cable = Cable(LINE, delay="1us")

    def build(self) -> None:
        for switch in ("t1", "t4"):
            self.addSwitch(switch)
        self.addLink("t1", "t4")
        for number in range(1, SENDERS + 1):
            self.addLink(self.addHost(f"h{number}"), "t4" if number == SENDERS else "t1")
        self.addLink(self.addHost("r"), "t4")


def _rates(case: str, control: str, curve: EcnCurve | None, times: tuple[str, str, str]) -> list[Rate]:
    lasts, settled, steady = times
    topo = _Testbed(total=12_000, xoff=1600, xon_offset=16, **marking(curve))
    flows = [
        Flow(f"h{number}", "r", transport="roce", duration=Duration(lasts), rate_control=control)
        for number in range(1, SENDERS + 1)
    ]
    return roce_outcome(topo, flows, case).rates(settled, steady)
