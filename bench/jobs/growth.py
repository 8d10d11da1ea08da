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


@experiment(timeout="600s")
def idle(run: Run, hosts: int = 64, seconds: int = 10) -> None:
    """Leaves of 16 hosts with two spines, in which nothing happens for a while."""
    import time

    from testbed.net.build.network import network
    from testbed.net.build.topo import LosslessTopo

    class Leaves(LosslessTopo):
        def build(self) -> None:
            spines = [self.addSwitch(f"s{number + 1}") for number in range(2)]
            for leaf in range(hosts // 16):
                name = self.addSwitch(f"l{leaf + 1}")
                for spine in spines:
                    self.addLink(spine, name)
                for host in range(16):
                    self.addLink(self.addHost(f"h{16 * leaf + host + 1}"), name)

    print("booted", flush=True)
    with network(Leaves(scale=100), run) as net:
        print("set-up", flush=True)
        time.sleep(seconds)
        print("idle", flush=True)
        run.figure("nodes", len(net.hosts) + len(net.switches))
    print("end", flush=True)


@experiment
def nothing(run: Run) -> None:
    """A lab without a network."""
    run.figure("nodes", 0)
