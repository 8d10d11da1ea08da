"""The fabric that a benchmark measures, of switches of config_db.json files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from testbed.errors import UsageError
from testbed.measures.fabric_under_test import LEAST_HOSTS, FabricUnderTest, curve_shown, recovery_shown
from testbed.measures.own_files import shown as shown_control
from testbed.net.build.topo import LosslessTopo
from testbed.net.fabric.port import ROCE
from testbed.roce.nic import Recovery
from testbed.roce.rates import Maker
from testbed.subjects.sonic.lab.places import free_places, hosts_at
from testbed.subjects.sonic.lab.settings import Switch
from testbed.subjects.sonic.lab.topo import SonicTopo
from testbed.switch.ways.settings import Ways, ways_of

_MOST_PLACES = 16
"""The hosts, at the ports most at risk first."""


def of_config(files: Sequence[Path], control: str | Maker, recovery: Recovery) -> FabricUnderTest:
    """Return the fabric of the switches of config_db.json files; UsageError if they make none."""
    scale = max((Switch.from_config_db(file).scale for file in files), key=lambda one: one.k)
    switches = [Switch.from_config_db(file, scale=scale) for file in files]
    for switch in switches:
        switch.require()
    by_name = {switch.name: switch for switch in switches}
    names = ", ".join(file.name for file in files)
    free = hosts_at(switches, len(free_places(switches)), last_receives=True)
    places = [one for one in free if ROCE in by_name[one[0]].ports[one[1]].settings.pfc.enabled][-_MOST_PLACES:]
    many = len(places)
    if many < LEAST_HOSTS:
        raise UsageError(
            f"{names}: {many} ports are up and free and have PFC of priority {ROCE}, and a benchmark takes "
            f"{LEAST_HOSTS} hosts or more"
        )
    ports = [by_name[name].ports[port] for name, port in places]
    hosts = tuple(f"h{number}" for number in range(1, many + 1))
    dscp = {host: by_name[name].dscp(ROCE, port) for host, (name, port) in zip(hosts, places, strict=True)}
    curve = ports[-1].settings.ecn.get(ROCE)
    line = min((port.rate for port in ports), key=lambda rate: rate.bps)

    def make(marks: bool = True, **options: Any) -> LosslessTopo:
        return SonicTopo(*switches, places=places, **options)

    settings = (
        ("switches", names),
        ("hosts", f"{many}, with lines of {line}, at {', '.join(f'{name} {port}' for name, port in places)}"),
        ("PFC", f"priority {ROCE}"),
        ("ECN", curve_shown(curve)),
        ("equal ways", str(SonicTopo.ways.by if isinstance(SonicTopo.ways, Ways) else SonicTopo.ways)),
        ("rate control", shown_control(control)),
        ("recovery", recovery_shown(recovery, ways_of(SonicTopo.ways))),
    )
    return FabricUnderTest(names, hosts, line, control, None, curve, settings, recovery, True, True, make, dscp)
