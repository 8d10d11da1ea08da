"""Lesson 2: buffers and headroom. The solution."""

from xoff import Buffer, Cable, Duration, Dynamic, Flow, LosslessTopo, Rate, Run, experiment, network, steady_rates

# ---- Your part -------------------------------------------------------------------------------------------------------

HEADROOM = 720
"""Step 1 and 2: cells of headroom of each port, of 208 octets. 79 are what a switch comes with for 10 Gb/s and 5 m."""

ALPHA = "1"
"""Step 3: of the dynamic threshold, as text."""

XON_OFFSET = 160
"""Step 4: how many cells below its threshold a port resumes."""


# ---- Keep this part --------------------------------------------------------------------------------------------------


@experiment(timeout="120s")
def headroom(run: Run) -> None:
    """h1 is 10 km away and h2 is 5 m away; both overload the port to r."""
    _overload(run, "default", 79, "1/8", 8)
    _overload(run, "yours", HEADROOM, ALPHA, XON_OFFSET)


def _overload(run: Run, case: str, cells: int, alpha: str, xon_offset: int) -> None:
    class TwoDistances(LosslessTopo):
        def build(self) -> None:
            self.addSwitch("s1")
            for host, length in (("h1", "10km"), ("h2", "5m"), ("r", "5m")):
                self.addLink(self.addHost(host), "s1", cable=Cable("10Gb/s", length))

    lasts = Duration("3ms")
    buffer = Buffer(total=5000, xoff=Dynamic(alpha), xon_offset=xon_offset, headroom=cells)
    with network(TwoDistances(buffer=buffer), case=case) as net:
        senders = ("h1", "h2")
        flows = net.run(*(Flow(name, "r", duration=lasts) for name in senders))
        ports = {name: net.fabric.group(f"s1-eth{number}", 3) for number, name in enumerate(senders, 1)}
    run.figure(f"{case}: lost", {name: report.lost for name, report in zip(senders, flows.reports, strict=True)})
    run.figure(f"{case}: most cells in headroom", {name: group.high_water[2] for name, group in ports.items()})
    run.figure(f"{case}: pauses", {name: group.xoffs for name, group in ports.items()})
    middle = steady_rates(flows.reports, "500us", "2ms")
    run.figure(f"{case}: goodput of both", Rate.from_bps(sum(rate.bps for rate in middle)))
