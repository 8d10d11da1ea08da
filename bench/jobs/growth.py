"""The experiments of bench/growth.py."""

from testbed.lab import Run, experiment


@experiment(timeout="600s")
def groups(run: Run, groups: int = 2, frames: int = 500) -> None:
    """A row of switches with four hosts each, of which two send to a third."""
    print("booted", flush=True)  # the first line: what comes before it is the boot
    from testbed.net.build.network import network
    from testbed.net.build.topo import LosslessTopo
    from testbed.net.traffic import Flow, Flows

    class Groups(LosslessTopo):
        def build(self) -> None:
            for group in range(groups):
                self.addSwitch(f"s{group + 1}")
                for host in range(4):
                    self.addLink(self.addHost(f"h{4 * group + host + 1}"), f"s{group + 1}")
                if group:
                    self.addLink(f"s{group}", f"s{group + 1}")

    with network(Groups(scale=100), run, autoStaticArp=True) as net:
        flows = [
            Flow(f"h{4 * group + sender}", f"h{4 * group + 3}", count=frames)
            for group in range(groups)
            for sender in (1, 2)
        ]
        with Flows(flows) as running:
            running.wait()
        run.figure("lost", sum(report.lost for report in running.reports))
        run.figure("nodes", len(net.hosts) + len(net.switches))
