"""PT08: trimming after config reload and after a cold reboot."""

from experiments.conformance._case import Bench, Control, case
from experiments.conformance._trimming import (
    HOST_DSCP,
    asymmetric,
    trimmed,
    trims,
    without_trimming,
)
from testbed.subjects.sonic.lab.trimming_views import configuration_of
from testbed.subjects.sonic.read import read
from testbed.subjects.sonic.write import write

WORKS = "frames for a full queue arrive trimmed"


@case(ports=3, tables=trims, timeout="300s", control=Control("the action drop", without_trimming, fails=[WORKS]))
def pt08_reload(bench: Bench) -> None:
    """The configuration is the same after reload and reboot, the counters begin anew, and frames are trimmed."""
    works, shown, counters = {}, [], []
    for kind, tables, dscp in (
        ("symmetric", bench.tables, 48),
        ("asymmetric", asymmetric(bench.tables, [bench.port_of("h3"), bench.port_of("h2")]), HOST_DSCP),
    ):
        with trimmed(bench, tables) as on:
            priority = on.lossy[0]
            works[f"{kind}, at first"] = on.works("h3", priority, dscp)
            shown.append(on.shown())
            text = write(configuration_of(on.fabric)[1].tables)
            on.configure("switch-trimming global --size 128")
            refused = on.reload(text)
            shown.append(on.shown())
            works[f"{kind}, after reload"] = not refused and on.works("h3", priority, dscp)
        with trimmed(bench, read(text.encode()).require("the running configuration")) as on:
            counters.append(on.switch_counters())
            shown.append(on.shown())
            works[f"{kind}, after reboot"] = on.works("h3", priority, dscp)
    bench.claim(WORKS, works, equals=dict.fromkeys(works, True))
    bench.claim(
        "the configuration is as before", shown[:3] == [shown[0]] * 3 and shown[3:] == [shown[3]] * 3, equals=True
    )
    bench.claim("counters after a reboot", counters, equals=[[0, 0], [0, 0]])
