"""The shortest frames at line rate, on all eight priorities through one switch, at a scale of 1000: PFC loses none.

100 Gb/s become 100 Mb/s, where a frame of 64 octets takes 6.72 us with preamble and gap. Agents react as fast as they
do by default, 26 us and 40 us.
"""

from __future__ import annotations

from testbed.lab import Run, experiment

SCALE, COUNT, FRAME_NS = 1000, 1500, 6720


@experiment(_in_lab_time=True, timeout="120s")
def test_pfc_on_eight_priorities_loses_no_small_frame_and_keeps_the_line_full(run: Run) -> None:
    from testbed.net.build.network import network
    from testbed.net.fabric.port import Port
    from testbed.net.traffic import Flow, Flows
    from testbed.switch.pfc.settings import PfcSettings
    from testbed.units import Rate
    from topologies.incast import Incast

    priorities = range(8)
    sent = 2 * len(priorities) * COUNT
    for name, lossless in (("PFC", frozenset(priorities)), ("without PFC", frozenset[int]())):
        port = Port(pfc=PfcSettings(enabled=lossless))
        with network(Incast(2, rate="100Gb/s", scale=SCALE, port=port), run, autoStaticArp=True) as net:
            share = Rate("100Gb/s") // SCALE // len(priorities)
            flows = [
                Flow(source, "r", priority, "60B", share, count=COUNT, dscp=8 * priority)
                for source in ("h1", "h2")
                for priority in priorities
            ]
            with Flows(flows) as running:
                running.wait()
            lost = [report.lost for report in running.reports]
            paused = [net.fabric.pfc(f"s1-eth{n}", p)["xoff_sent"] for n in (1, 2) for p in priorities]
            dropped = net.fabric.dropped()
        first_ns = min(report.first_lab_ns for report in running.reports)
        took_ns = max(report.last_lab_ns for report in running.reports) - first_ns
        received = sent - sum(lost)
        run.claim(f"{name}: dropped by the switch", dropped, equals=sum(lost))
        # The line is full from the first frame to the last. A timer that falls into a system call is up to 500 ns late,
        # which a port does not make up for.
        beyond_ns = took_ns - (received - 1) * FRAME_NS
        run.claim(f"{name}: ns beyond what the frames take", beyond_ns, at_least=0, at_most=FRAME_NS)
        if lossless:
            run.claim("lost", lost, equals=[0] * len(flows))
            run.claim("fewest pauses of a priority", min(paused), at_least=5)
        else:  # two lines into one: what the buffer holds comes through beside a half
            run.claim("without PFC: lost of each flow, at least", min(lost), at_least=COUNT // 4)
            run.claim("without PFC: pauses", sum(paused), equals=0)
