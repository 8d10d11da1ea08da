"""The networks of bench/partitions.py."""

import json
from typing import Any

from xoff import Cable, EcnCurve, Flow, LosslessTopo, Port, Run, experiment, network


class Racks(LosslessTopo):
    """Racks in a ring, or two with one cable: a switch each, with hosts at cables without a delay."""

    def build(self, racks: int = 2, hosts: int = 16, rate: str = "100Gb/s", between: str = "100m") -> None:
        for rack in range(1, racks + 1):
            self.addSwitch(f"s{rack}")
            for host in range(1, hosts + 1):
                self.addLink(self.addHost(f"h{rack}_{host}"), f"s{rack}", cable=Cable(rate))
        for rack in range(1, racks + (racks > 2)):
            self.addLink(f"s{rack}", f"s{rack % racks + 1}", cable=Cable(rate, between))


@experiment(timeout="600s")
def racks(
    run: Run,
    *,
    racks: int = 2,
    hosts: int = 16,
    rate: str = "100Gb/s",
    between: str = "100m",
    scale: int = 1000,
    transport: str = "udp",
    us: int = 1000,
) -> None:
    """Every host sends to the next one of its rack at line rate, but for the first, which sends to the next rack."""
    port = Port(ecn={3: EcnCurve("100kB", "400kB", "20%")}).with_pfc(3)
    control: dict[str, Any] = {"rate_control": "dcqcn"} if transport == "roce" else {}
    with network(Racks(racks, hosts, rate, between, port=port, scale=scale, total=60000)) as net:
        flows = [
            Flow(f"h{rack}_{host}", f"h{rack % racks + 1 if host == 1 else rack}_{host % hosts + 1}", 3,
                 transport=transport, duration=f"{us}us", **control)
            for rack in range(1, racks + 1)
            for host in range(1, hosts + 1)
        ]  # fmt: skip
        _windows()
        print("begin", flush=True)
        running = net.run(*flows)
        print("end", flush=True)
        (run.directory / "windows.json").write_text(json.dumps(_windows()))
    run.figure("received", sum(report.received for report in running.reports))
    run.claim("lost", sum(report.lost for report in running.reports), equals=0)


def _windows() -> list[tuple[int, ...]]:
    """Return what each part's kernel has worked in each window since the last call, in ns of CPU time."""
    from testbed.net.fabric.core import FabricCore
    from testbed.net.partition.divided import Divided

    parts = FabricCore.current().parts
    return parts.exchange("windows", parts.device.windows()) if isinstance(parts, Divided) else []
