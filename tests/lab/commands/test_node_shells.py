"""The shells of nodes: what Mininet sets up in them by programs is set up without."""

from __future__ import annotations

from testbed.lab import Run, experiment


def _started() -> int:
    """Return the number of processes that have been started since the boot."""
    with open("/proc/stat") as file:
        return int(next(line for line in file if line.startswith("processes")).split()[1])


@experiment(timeout="60s")
def test_a_shell_is_as_mininet_leaves_it_whatever_the_class_of_its_node(run: Run) -> None:
    """Its terminal echoes nothing, its loopback interface is up, and it has no files of the network's own process."""
    from mininet.node import Host

    from testbed.net.build.network import network
    from testbed.net.build.topo import LosslessTopo

    class Own(Host):
        """A host of the user's."""

    class Two(LosslessTopo):
        """Two hosts of different classes."""

        def build(self) -> None:
            self.addLink(self.addHost("h1"), self.addSwitch("s1"))
            self.addLink(self.addHost("h2", cls=Own), "s1")

    before = _started()
    with network(Two(), run) as net:
        # Three shells, three agents, their supervisor, three programs of Mininet's, some threads of the kernel. Mininet
        # alone starts five more: `stty` for each node and `ifconfig` for each host.
        run.claim("processes that were started", _started() - before, at_most=14)
        for node in (net["h1"], net["h2"], net["s1"]):
            run.claim(f"{node.name}: output without an echo", node.cmd("echo word"), equals="word\r\n")
            run.claim(f"{node.name}: terminal echoes nothing", "-echo" in node.cmd("stty -a").split(), equals=True)
            run.claim(f"{node.name}: files", node.cmd("ls /proc/$$/fd").split(), equals=["0", "1", "2", "255"])
            run.claim(f"{node.name}: history", node.cmd("echo ${HISTFILE:-none}").strip(), equals="none")
            run.claim(f"{node.name}: job control", "m" in node.cmd("echo $-").strip(), equals=False)
            run.claim(f"{node.name}: process group", node.cmd("ps -o pgid= -p $$").strip(), equals=str(node.pid))
        for host in (net["h1"], net["h2"]):
            flags = host.cmd("cat /sys/class/net/lo/flags").strip()
            run.claim(f"{host.name}: loopback is up", int(flags, 16) & 1, equals=1)
