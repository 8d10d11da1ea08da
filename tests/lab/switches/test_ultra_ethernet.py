"""OTG's Ultra Ethernet link layer at test ports: LLR and credits set, switched, disturbed and counted, by snappi."""

from __future__ import annotations

import json
import time
from typing import Any

from testbed.lab import Run, experiment

MARKS = {
    name: [("engines", "um")]
    for name in (
        "test_a_lost_frame_of_a_test_port_is_one_nack_and_one_replay",
        "test_llr_of_a_test_port_is_switched_and_begins_anew_after_a_flush",
        "test_a_test_port_sends_no_more_than_its_credits",
        "test_what_a_configuration_or_a_request_has_wrong_is_named",
    )
}
FRAMES = 100


class Client:
    """A client with the test ports `tx` and `rx`, and a flow from one to the other."""

    def __init__(self, **locations: str) -> None:
        import snappi

        self.api = snappi.api(ext="xoff")
        self.config = self.api.config()
        for name in ("tx", "rx"):
            self.config.ports.port(name=name, location=locations.get(name))
        (self.link,) = self.config.ultra_ethernet.ultraethernet(name="ue", port_names=["tx"])
        (self.flow,) = self.config.flows.flow(name="f")
        self.flow.tx_rx.port.tx_name, self.flow.tx_rx.port.rx_names = "tx", ["rx"]
        ethernet, ipv4, _ = self.flow.packet.ethernet().ipv4().udp()
        ethernet.src.value, ethernet.dst.value = "02:00:00:00:00:11", "02:00:00:00:00:12"
        ipv4.priority.dscp.phb.value = 26
        self.flow.size.fixed, self.flow.duration.fixed_packets.packets = 512, FRAMES
        self.flow.metrics.enable = True

    def set(self) -> None:
        self.api.set_config(self.config)

    def transmit(self, state: str, *names: str) -> None:
        control = self.api.control_state()
        control.traffic.flow_transmit.state = state
        control.traffic.flow_transmit.flow_names = list(names)
        self.api.set_control_state(control)

    def switch(self, what: str, state: str) -> None:
        control = self.api.control_state()
        getattr(control.ultra_ethernet, what).state = state
        self.api.set_control_state(control)
        time.sleep(0.05)

    def llr(self) -> Any:
        request = self.api.metrics_request()
        request.ultra_ethernet.port_names = ["tx"]
        request.ultra_ethernet.choice = request.ultra_ethernet.LLR_CBFC_STAT
        return self.api.get_metrics(request).ultra_ethernet_metrics[0].llr_cbfc

    def channels(self) -> Any:
        request = self.api.metrics_request()
        request.ultra_ethernet.sender_vc_stat.column_names = ["vc_state", "s_p_cu", "s_vc_cc", "s_vc_cf"]
        return [one.sender_vc for one in self.api.get_metrics(request).ultra_ethernet_metrics]

    def counted(self) -> tuple[int, int]:
        request = self.api.metrics_request()
        request.flow.flow_names = ["f"]
        (metric,) = self.api.get_metrics(request).flow_metrics
        return metric.frames_tx, metric.frames_rx

    def refusal(self, change: Any) -> list[str]:
        """Return the errors of a call that is refused."""
        try:
            change()
        except Exception as refused:
            return list(refused.args[0].errors)
        return []


def _with_llr(tester: Client, **changes: Any) -> None:
    for name, value in (
        {"outstanding_seq_max": 61, "outstanding_data_max": 31_184, "replay_timer_max": 5000} | changes
    ).items():
        setattr(tester.link.llr, name, value)
    tester.flow.ultra_ethernet.llr_eligible = True


def _between_hosts() -> Any:
    from testbed.net.build.topo import LosslessTopo
    from testbed.net.fabric.cable import Cable

    class Pair(LosslessTopo):
        """Two hosts and a switch."""

        def build(self) -> None:
            self.addSwitch("s1")
            for number in (1, 2):
                self.addLink(self.addHost(f"h{number}"), "s1", cable=Cable("200Gb/s", "5m", llr=number == 1))

    return Pair(scale=2000)


@experiment(timeout="60s", packages=["snappi"])
def test_a_lost_frame_of_a_test_port_is_one_nack_and_one_replay(run: Run) -> None:
    """LLR-02 by snappi: of 100 frames one is lost or damaged; the flow loses none."""
    from testbed.net.build.network import network
    from testbed.switch.link.jam import Jam

    for fate in ("lost", "damaged", None):
        with network(_between_hosts(), run, case=str(fate)) as net:
            tester = Client(tx="h1", rx="h2")
            _with_llr(tester, local_enable=True, remote_enable=True)
            tester.set()
            time.sleep(0.05)
            if fate:
                net.fabric.core.cabling.jam("h1-eth0", Jam("frame", fate, 50))
            tester.transmit("start")
            time.sleep(0.3)
            seen, count = tester.llr(), int(fate is not None)
            run.claim(f"{fate}: modes", (seen.llr_mode_local, seen.llr_mode_remote), equals=("on", "on"))
            states = seen.llr_transmit_state, seen.llr_ack_nack_transmit_state
            run.claim(f"{fate}: states", states, equals=("advance", "send_acks"))
            run.claim(f"{fate}: NACKs, replays", (seen.rx_nack_ctl_os, seen.tx_replay_event), equals=(count, count))
            # The gap after a lost frame shows at the next one, which goes again with it; a damaged one is seen itself.
            again = {"lost": 2, "damaged": 1, None: 0}[fate]
            run.claim(f"{fate}: frames sent again", seen.replayed_packet, equals=again)
            run.claim(f"{fate}: their octets", seen.replayed_byte, equals=512 * seen.replayed_packet)
            run.claim(f"{fate}: good frames sent", seen.tx_ok, equals=FRAMES + seen.replayed_packet)
            run.claim(
                f"{fate}: next number, not acknowledged", (seen.tx_seq, seen.tx_outstanding_seq), equals=(FRAMES, 0)
            )
            run.claim(f"{fate}: begun once", (seen.tx_init_ctl_os, seen.rx_init_echo_ctl_os), equals=(1, 1))
            run.claim(f"{fate}: frames sent and received", tester.counted(), equals=(FRAMES, FRAMES))
            far = net.fabric.llr("s1-eth1")
            run.claim(f"{fate}: frames that the switch took", far["RX_EXPECTED_SEQ_GOOD"], equals=FRAMES)
            run.claim(f"{fate}: ACKs that the switch sent came", seen.rx_ack_ctl_os, equals=far["TX_ACK_CTL_OS"])
            tester.api.close()


@experiment(timeout="60s", packages=["snappi"])
def test_llr_of_a_test_port_is_switched_and_begins_anew_after_a_flush(run: Run) -> None:
    """Off, one direction, both; and LLR-03: three replays, FLUSH, and INIT when management asks for it."""
    from testbed.net.build.network import network
    from testbed.switch.link.jam import Jam

    with network(_between_hosts(), run) as net:
        tester = Client(tx="h1", rx="h2")
        _with_llr(tester, replay_count_max=3, re_init_on_discard=False)
        tester.set()
        seen = tester.llr()
        run.claim("off at first", (seen.llr_mode_local, seen.llr_transmit_state), equals=("off", "off"))
        net.fabric.core.cabling.jam("h1-eth0", Jam("frame", "lost", 1))
        tester.transmit("start")
        time.sleep(0.3)
        run.claim("unnumbered frames", (tester.llr().tx_ok, tester.counted()), equals=(0, (FRAMES, FRAMES)))
        net.fabric.core.cabling.jam("h1-eth0")
        tester.switch("llr", "remote_enable")
        seen = tester.llr()
        run.claim("sends alone", (seen.llr_mode_local, seen.llr_mode_remote), equals=("off", "on"))
        run.claim("its states", (seen.llr_transmit_state, seen.llr_ack_nack_transmit_state), equals=("advance", "off"))
        run.claim("the switch has no echo of it", net.fabric.llr("s1-eth1").state, equals="INIT")
        tester.switch("llr", "local_enable")
        run.claim("now it has", net.fabric.llr("s1-eth1").state, equals="ADVANCE")
        net.fabric.core.cabling.jam("s1-eth1", Jam("ack", "lost", 1, 10**6))
        tester.transmit("start")
        time.sleep(0.4)
        seen = tester.llr()
        run.claim("without ACKs it gives up", (seen.llr_transmit_state, seen.tx_replay_event), equals=("flush", 3))
        net.fabric.core.cabling.jam("s1-eth1")
        inits = seen.tx_init_ctl_os
        tester.switch("llr", "remote_enable")
        seen = tester.llr()
        run.claim("begins anew", (seen.llr_transmit_state, seen.tx_init_ctl_os - inits), equals=("advance", 1))
        tester.switch("llr", "disable_all")
        seen = tester.llr()
        run.claim("off again", (seen.llr_mode_remote, seen.llr_transmit_state), equals=("off", "off"))
        tester.api.close()


@experiment(timeout="60s", packages=["snappi"])
def test_a_test_port_sends_no_more_than_its_credits(run: Run) -> None:
    """CBFC-04 by snappi: 24 credits are four frames of six cells; they come back when the far port goes on."""
    tester = Client()
    sender = tester.link.cbfc.sender
    sender.enable, sender.credit_mode, sender.cell_size = True, sender.PER_VC, 256
    sender.mapping = sender.IPV4_DSCP
    for number in range(8):
        (*_, channel) = sender.virtual_channels.vc()
        if number == 3:
            channel.lossless.credit_limit = 24
        channel.mapping.ipv4_dscp.values = list(range(8 * number, 8 * number + 8))
    tester.flow.size.fixed = 1518
    for name in ("learn", "pause"):
        (*_, flow) = tester.config.flows.flow(name=name)
        flow.tx_rx.port.tx_name = "rx"
        if name == "learn":
            ethernet, _ = flow.packet.ethernet().ipv4()
            ethernet.src.value = "02:00:00:00:00:12"
        else:
            pause = flow.packet.pfcpause()[-1]
            pause.class_enable_vector.value, pause.pause_class_3.value = 8, 0xFFFF
        flow.duration.fixed_packets.packets = 1
    for switched in (True, False):
        tester.set()
        if not switched:
            tester.switch("cbfc", "disable_all")
        tester.transmit("start", "learn", "pause")
        time.sleep(0.05)
        tester.transmit("start", "f")
        time.sleep(0.2)
        sent, received = tester.counted()
        rows = tester.channels()
        states = [row.vc_state for row in rows]
        run.claim(f"{switched}: channels", states, equals=["lossless" if vc == 3 else "best_effort" for vc in range(8)])
        run.claim(
            f"{switched}: credits in use", (rows[3].s_p_cu, rows[3].s_vc_cc), equals=(24, 24) if switched else (0, 0)
        )
        run.claim(f"{switched}: frames that arrived", received, equals=0)
        if switched:
            run.claim("frames that left, and wait at the port", sent, at_least=4, at_most=12)
        else:
            run.claim("without credits all frames leave", sent, equals=FRAMES)
        time.sleep(0.5)
        rows = tester.channels()
        run.claim(f"{switched}: credits come back", (rows[3].s_p_cu, rows[3].s_vc_cf), equals=(0, 600 * switched))
        run.claim(f"{switched}: frames sent and received", tester.counted(), equals=(FRAMES, FRAMES))
    tester.api.close()


@experiment(timeout="60s", packages=["snappi"])
def test_what_a_configuration_or_a_request_has_wrong_is_named(run: Run) -> None:
    tester = Client()
    tester.link.llr.outstanding_seq_max = 600_000
    tester.link.phy.o_code = 7
    run.claim("ranges and what the lab has not", tester.refusal(tester.set), equals=[
        "ultra_ethernet[0].llr.outstanding_seq_max: it is 600000; 0 to 524288 is possible",
        "ultra_ethernet[0].phy.o_code: it is 7; Xoff has 6 only: ordered sets of the lab have this O-code",
    ])  # fmt: skip
    described = {
        "ports": [{"name": "a"}],
        "ultra_ethernet": [{"name": "u", "port_names": ["a", "b"], "llr": {"init_behavior": "wait"}}],
    }
    raw = tester.refusal(lambda: tester.api.set_config(json.dumps(described)))
    run.claim("JSON is read alike", raw, equals=[
        "ultra_ethernet[0].llr.init_behavior: 'wait' is not supported; there are best_effort, block, discard",
        "ultra_ethernet[0].port_names[1]: there is no 'b'",
    ])  # fmt: skip
    tester = Client()
    tester.link.llr.local_enable = True
    tester.set()
    control = tester.api.control_state()
    control.ultra_ethernet.cbfc.state = "receiver_enable"
    run.claim("a state", tester.refusal(lambda: tester.api.set_control_state(control)), equals=[
        "ultra_ethernet.cbfc.state: it is receiver_enable; a test port of Xoff has no receiver of credits"
    ])  # fmt: skip
    request = tester.api.metrics_request()
    request.ultra_ethernet.llr_cbfc_stat.column_names = ["tx_ok", "round_trip_time_ns"]
    run.claim("a column", tester.refusal(lambda: tester.api.get_metrics(request)), equals=[
        "ultra_ethernet.llr_cbfc_stat.column_names[1]: Xoff does not count round_trip_time_ns"
    ])  # fmt: skip
    read = tester.api.get_config().ultra_ethernet[0]
    run.claim(
        "what is set can be read",
        (read.name, read.llr.local_enable, read.llr.replay_timer_max),
        equals=("ue", True, 65_535),
    )
    tester.api.close()
