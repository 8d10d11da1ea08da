"""VL arbitration on a real port: weights are kept, and the high-priority limit decides what the low table gets."""

from experiments.qos._qos import LINE, SETTLED, STEADY, flow, policy, setup_of, shares
from xoff import Incast, Policy, Port, Rate, Run, SubnetManager, experiment, network, steady_rates

WITHIN = 0.05
"""The part of its share by which a VL may differ."""


@experiment(timeout="120s")
def qos_arbitration(run: Run) -> None:
    """Four VLs, all with frames waiting at one port, share its line by their weights in VL arbitration tables.

    A low table alone is weighted. With a high table of VL 0 the limit decides: 255 lets the low table starve, 10 gives
    it one packet after ten times 4096 bytes, 0 one after each packet. Without a policy, the control case, all VLs have
    the same share.
    """
    own = {sl: sl for sl in range(4)}
    equal = dict.fromkeys(range(4), 25.0)
    _share(run, "without a policy", None, equal)
    _share(run, "weights 1, 2, 3, 4", policy(setup_of(own, low="0:1,1:2,2:3,3:4")), {0: 10, 1: 20, 2: 30, 3: 40})
    _share(run, "weights 200, 100, 50, 25", policy(setup_of(own, low="0:200,1:100,2:50,3:25")),
           {0: 53.33, 1: 26.67, 2: 13.33, 3: 6.67})  # fmt: skip
    low = "1:64,2:64,3:64"
    _share(run, "limit 255", policy(setup_of(own, "0:64", low, 255)), {0: 100, 1: 0, 2: 0, 3: 0})
    # A frame's packet is 1500 bytes long; the three VLs of the low table have what the high one leaves.
    high = 100 * 40960 / (40960 + 1500)
    left = (100 - high) / 3
    _share(run, "limit 10", policy(setup_of(own, "0:64", low, 10)), {0: high, 1: left, 2: left, 3: left})
    _share(run, "limit 0", policy(setup_of(own, "0:64", low, 0)), {0: 50, 1: 50 / 3, 2: 50 / 3, 3: 50 / 3})


def _share(run: Run, case: str, policy: Policy | None, due: dict[int, float]) -> None:
    """Return the shares of four senders, one for each SL, to one receiver."""
    with network(Incast(n=4, port=Port().with_vls(), total=20_000)) as net:
        *hosts, target = net.hosts
        manager = SubnetManager(net.fabric, policy) if policy else None
        if manager:
            manager.sweep()
        flows = [flow(host, target, sl) for sl, host in enumerate(hosts)]
        running = net.run(*flows)
        rates = steady_rates(running.reports, SETTLED, STEADY)
        if manager:
            run.claim(f"{case}: drift of the ports from the plan", list(map(str, manager.sweep().drift)), equals=[])
            manager.close()
    found = shares(rates)
    run.figure(f"{case}: shares in percent", found)
    for vl, share in due.items():
        label = f"{case}: share of VL {vl} in percent"
        run.claim(label, found[vl], at_least=share * (1 - WITHIN), at_most=max(share * (1 + WITHIN), 0.2))
    lost = running.lost
    run.claim(f"{case}: frames lost", lost, equals=0)
    total = Rate.from_bps(sum(rate.bps for rate in rates))
    run.claim(f"{case}: goodput of all", total, at_least=LINE * 94 // 100)
