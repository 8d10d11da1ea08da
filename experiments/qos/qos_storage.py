"""The RFC's example on a network: storage with a limit, low latency by TClass, and everything else by the default."""

from typing import Any

from testbed.frames.path_record import QOS_SUPPORTED, ClassPortInfo
from testbed.subjects.qos.lab.from_controller import flow
from testbed.subjects.qos.rfc_clients import Cma, IoController, ServiceEntry, SocketAddress, SrpInitiator, asking
from xoff import (
    Duration,
    Incast,
    Port,
    Run,
    SubnetManager,
    experiment,
    load_policy,
    network,
    steady_rates,
)

POLICY = b"""<?xml version="1.0"?>
<qos-policy>
  <port-groups>
    <port-group><name>Storage</name><use>our SRP storage targets</use><port-name>r/HCA-1/P1</port-name></port-group>
    <port-group><name>all</name><node-type>ALL</node-type></port-group>
  </port-groups>
  <qos-setup>
    <sl2vl-tables>
      <sl2vl-scope><group>all</group><from>*</from><to>*</to>
        <sl2vl-table>0,1,2,2,2,2,2,2,2,2,2,2,2,2,2,2</sl2vl-table></sl2vl-scope>
    </sl2vl-tables>
    <vlarb-tables>
      <vlarb-scope><group>all</group><to>*</to>
        <vlarb-high>0:64</vlarb-high><vlarb-low>1:64,2:192</vlarb-low><vl-high-limit>255</vl-high-limit></vlarb-scope>
    </vlarb-tables>
  </qos-setup>
  <qos-levels>
    <qos-level><sn>1</sn><use>for the lowest priority comm</use><sl>15</sl></qos-level>
    <qos-level><sn>2</sn><use>low latency best bandwidth</use><sl>0</sl><tclass>7</tclass></qos-level>
    <qos-level><sn>3</sn><use>storage</use><sl>1</sl><tclass>32</tclass><mtu_limit>2</mtu_limit>
      <rate_limit>1</rate_limit></qos-level>
  </qos-levels>
  <qos_match_rules>
    <qos_match_rule><sn>1</sn><use>low latency by tclass 7-9 or 11</use><tclass>7-9,11</tclass>
      <match-level>2</match-level></qos_match_rule>
    <qos_match_rule><sn>2</sn><use>Storage targets connection</use><destination>Storage</destination>
      <service>22,4719</service><match-level>3</match-level></qos_match_rule>
  </qos_match_rules>
  <default-level>1</default-level>
</qos-policy>
"""
WITHOUT = b"<qos-policy><qos-levels><qos-level><sn>1</sn><sl>0</sl></qos-level></qos-levels>\
<default-level>1</default-level></qos-policy>"
LASTS, SETTLED, STEADY = Duration("1500us"), Duration("500us"), Duration("900us")


@experiment(timeout="120s")
def qos_storage(run: Run) -> None:
    """A storage target is overloaded by SRP writes and by bulk traffic, and gets small messages of a third host.

    By the policy SRP has SL 1, packets of 512 bytes and 2.5 Gb/s, which it does not exceed; messages with TClass 8 have
    SL 0, whose VL is strict, so they wait for no more than a few frames; bulk traffic has the default level. Without a
    policy, the control case, messages wait behind all that the others have in the buffer, and SRP has what it can get.
    """
    with_policy = _run(run, "with the policy", POLICY)
    without = _run(run, "without", WITHOUT)
    run.claim("with the policy: SL, MTU, rate in Mb/s of SRP", with_policy["path"], equals=[1, 512, 2500])
    run.claim("without: SL, MTU, rate in Mb/s of SRP", without["path"], equals=[0, 1500, 10000])
    run.claim("with the policy: goodput of SRP in Mb/s", with_policy["SRP"], at_least=2200, at_most=2500)
    run.claim("with the policy: goodput of bulk in Mb/s", with_policy["bulk"], at_least=6500)
    run.claim("without: goodput of SRP in Mb/s", without["SRP"], at_least=3500)
    run.claim("with the policy: worst delay of a message in ms", with_policy["delay"], at_most=0.005)
    run.claim("without: worst delay of a message in ms", without["delay"], at_least=0.05)
    for case, found in (("with the policy", with_policy), ("without", without)):
        run.claim(f"{case}: goodput of messages in Mb/s", found["messages"], at_least=390, at_most=410)
        run.claim(f"{case}: frames dropped", found["dropped"], equals=0)


def _run(run: Run, case: str, policy: bytes) -> dict[str, Any]:
    topology = Incast(n=3, port=Port().with_vls(3), total=3000)
    with (
        network(topology) as net,
        SubnetManager(net.fabric, load_policy(policy, "the policy")) as manager,
    ):
        *senders, target = net.hosts
        ask = asking(manager.records())
        gids = {port.key.node: port.gid for port in manager.subnet.end_ports}
        own = [gids[host.name] for host in senders]
        srp = SrpInitiator(own[0], ask, ClassPortInfo(capabilities2=QOS_SUPPORTED))
        storage = srp.connect(IoController(gids["r"], [ServiceEntry(4719, "SRP.T10")]))
        bulk = Cma(own[1], ask).connect(SocketAddress(gids["r"], 5001))
        messages = Cma(own[2], ask).connect(SocketAddress(gids["r"], 5002), tclass=8)
        flows = [
            flow(storage, senders[0], target, "udp", duration=LASTS),
            flow(bulk, senders[1], target, "udp", duration=LASTS),
            flow(messages, senders[2], target, "udp", duration=LASTS, rate="400Mb/s"),
        ]
        running = net.run(*flows)
        dropped = net.fabric.dropped()

    rates = [round(rate.bps / 10**6, 3) for rate in steady_rates(running.reports, SETTLED, STEADY)]
    found = dict(zip(("SRP", "bulk", "messages"), rates, strict=True))
    delay = running.reports[2].worst_delay.ps / 10**9
    run.figure(f"{case}: goodput in Mb/s, and worst delay of a message in ms", found | {"delay": delay})
    path = [storage.sl, storage.mtu, storage.rate // 10**6]
    return found | {"delay": delay, "dropped": dropped, "path": path}
