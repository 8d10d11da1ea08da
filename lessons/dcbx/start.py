"""Lesson 4: DCBX. Edit the first part; run it with `xoff run FILE --report`."""

import time

from xoff import Flow, LosslessTopo, Port, Run, dcbx_state, experiment, network

# ---- Your part -------------------------------------------------------------------------------------------------------

H1_WILLING = False
"""Step 1: does h1 take over what its switch has?"""

SHARES = {3: 20}
"""Step 2: the shares of the line, in percent by priority, that the switch recommends."""

H2_WILLING = False
"""Step 3: the same for h2."""

DEFENSE = False
"""Step 4: does the switch discard frames of a lossless priority that the far end does not have as lossless?"""


# ---- Keep this part --------------------------------------------------------------------------------------------------


@experiment(timeout="120s")
def dcbx(run: Run) -> None:
    """A switch with PFC on priority 3 and three hosts without; h3 is never willing."""

    class Star(LosslessTopo):
        def build(self) -> None:
            self.addSwitch("s1")
            switch = Port(shares=SHARES).with_pfc(3).with_dcbx(ets=True, defense=DEFENSE)
            for host, willing in (("h1", H1_WILLING), ("h2", H2_WILLING), ("h3", False), ("r", True)):
                port = Port().without_pfc().with_dcbx(willing=willing, ets=True)
                self.addLink(self.addHost(host, port=port), "s1", settings2=switch)

    with network(Star(scale=1, rate="10Mb/s", total=1500), case="yours") as net:
        time.sleep(4)  # LLDP sends its first frames once a second
        hosts = ("h1", "h2", "h3")
        found = {host: dcbx_state(net.fabric, f"{host}-eth0")["features"] for host in hosts}
        flows = net.run(*(Flow(host, "r", count=300) for host in ("h1", "h2")))
        third = net.run(Flow("h3", "r", count=200, rate="2Mb/s"), settle="500ms")
        defended = net.fabric.sent("s1-eth3").defended_frames[3]
        frames = [entry for entry in net.fabric.lines() if entry.get("port") == "h1-eth0"]
    run.figure("PFC in operation", {host: features["pfc"]["oper"] for host, features in found.items()})
    run.figure("ETS in operation at h1", found["h1"]["ets"]["oper"]["bandwidth"])
    run.figure(
        "lost", {host: report.lost for host, report in zip(hosts, [*flows.reports, *third.reports], strict=True)}
    )
    run.figure("frames of h3 discarded by defense", defended)
    run.figure("entries in the DCBX log of h1", len(frames))
