"""Lossless and lossy traffic overload one port together: only the lossy one loses."""

from xoff import Duration, Flow, Incast, Port, Rate, Report, Run, experiment, network, steady_rates

LINE = Rate("10Gb/s")
LOSSLESS, LOSSY = 3, 0
LASTS = Duration("1500us")
SETTLED, STEADY = Duration("500us"), Duration("900us")


@experiment(timeout="60s")
def mixed(run: Run) -> None:
    """Lossless and lossy traffic overload one port together: only the lossy one loses.

    Two senders at line rate have a priority with PFC and two have one without. Both priorities use their equal shares
    of the port. The control case has PFC on neither: then both lose.
    """
    sums = _overload(run, "PFC on one of the priorities", Port())
    run.claim("PFC on one of the priorities: lossless frames lost", sums[LOSSLESS]["lost"], equals=0)
    # Twice the line rate for a half of it: three of four frames do not fit, but for what the buffer holds.
    run.claim("PFC on one of the priorities: lossy frames lost", sums[LOSSY]["lost"], at_least=sums[LOSSY]["sent"] // 2)

    sums = _overload(run, "PFC on none", Port().without_pfc())
    for priority in (LOSSLESS, LOSSY):
        label = f"PFC on none: frames of priority {priority} lost"
        run.claim(label, sums[priority]["lost"], at_least=sums[priority]["sent"] // 2)


def _overload(run: Run, case: str, port: Port) -> dict[int, dict[str, int]]:
    """Return the frames that were sent, received and lost, by priority."""
    priorities = [LOSSLESS, LOSSY, LOSSLESS, LOSSY]
    with network(Incast(n=4, port=port, total=1500)) as net:
        *hosts, target = net.hosts
        flows = [Flow(h, target, priority, duration=LASTS) for h, priority in zip(hosts, priorities, strict=True)]
        running = net.run(*flows)
        dropped = {
            priority: sum(sum(net.fabric.group(f"s1-eth{n}", priority).dropped_frames) for n in range(1, 5))
            for priority in (LOSSLESS, LOSSY)
        }
    sums = {}
    rates = steady_rates(running.reports, SETTLED, STEADY)
    for priority in (LOSSLESS, LOSSY):
        reports = [r for r, own in zip(running.reports, priorities, strict=True) if own == priority]
        sums[priority] = {name: _sum(reports, name) for name in ("sent", "received", "lost")}
        share = Rate.from_bps(sum(rate.bps for rate, own in zip(rates, priorities, strict=True) if own == priority))
        label = f"{case}: priority {priority}"
        run.figure(label, sums[priority])
        run.claim(f"{label}: its half of the line", share, at_least=LINE * 495 // 1000, at_most=LINE * 505 // 1000)
        run.claim(f"{label}: received twice", _sum(reports, "doubled"), equals=0)
        run.claim(
            f"{label}: frames dropped, by the switch's counters", dropped[priority], equals=sums[priority]["lost"]
        )
    return sums


def _sum(reports: list[Report], name: str) -> int:
    return sum(getattr(report, name) for report in reports)
