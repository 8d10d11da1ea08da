"""A script of snappi: a receiver pauses the switch, the switch pauses the sender, and no frame is lost.

    ./xoff run docs/examples/snappi_pfc.py

Nothing in the script is Xoff's own: with other locations it runs against a hardware tester.
"""

import time

import snappi

PRIORITY = 3
QUANTA = 0xFFFF
DATA = "data"


def configured(api):
    config = api.config()
    config.ports.port(name="tx", location="h1").port(name="rx", location="h2")
    (layer1,) = config.layer1.layer1(name="layer 1")
    layer1.port_names = ["tx", "rx"]
    layer1.speed = layer1.SPEED_100_GBPS
    setattr(layer1.flow_control.ieee_802_1qbb, f"pfc_class_{PRIORITY}", PRIORITY)

    data, pause = config.flows.flow(name=DATA).flow(name="pause")
    data.tx_rx.port.tx_name, data.tx_rx.port.rx_names = "tx", ["rx"]
    ethernet, ipv4, _ = data.packet.ethernet().ipv4().udp()
    ethernet.src.value, ethernet.dst.value = "00:AA:00:00:00:01", "00:AA:00:00:00:02"
    ethernet.pfc_queue.value = PRIORITY
    ipv4.src.value, ipv4.dst.value = "10.0.0.1", "10.0.0.2"
    ipv4.priority.dscp.phb.value = 8 * PRIORITY
    data.size.fixed, data.rate.percentage = 1024, 50
    data.metrics.enable = data.metrics.loss = True

    pause.tx_rx.port.tx_name = "rx"
    header = pause.packet.pfcpause()[-1]
    header.class_enable_vector.value = 1 << PRIORITY
    getattr(header, f"pause_class_{PRIORITY}").value = QUANTA
    pause.rate.pps = 10  # one lasts a third of a second on the lab's line of 100 Mb/s
    return config


def transmit(api, state, *flows):
    control = api.control_state()
    control.traffic.flow_transmit.state = state
    control.traffic.flow_transmit.flow_names = list(flows)
    api.set_control_state(control)


def metrics(api):
    request = api.metrics_request()
    request.flow.flow_names = [DATA]
    return api.get_metrics(request).flow_metrics[0]


def main():
    api = snappi.api(location="https://localhost:8443", verify=False)
    api.set_config(configured(api))

    transmit(api, "start", DATA)
    time.sleep(0.5)
    flowing = metrics(api)
    transmit(api, "start", "pause")
    time.sleep(0.5)
    paused = metrics(api)
    time.sleep(0.5)
    still = metrics(api)
    transmit(api, "stop", "pause")
    time.sleep(1)
    transmit(api, "stop", DATA)
    time.sleep(0.5)
    done = metrics(api)

    print(f"flowing: {flowing.frames_rx_rate:.0f} frames/s; paused: {paused.frames_rx_rate:.0f} frames/s")
    print(f"in all: {done.frames_tx} sent, {done.frames_rx} received, loss {done.loss} %")
    assert flowing.frames_rx_rate > 5000
    assert paused.frames_rx_rate == 0 and still.frames_rx == paused.frames_rx
    assert still.frames_tx == paused.frames_tx, "the sender obeys the switch"
    assert done.frames_tx == done.frames_rx > flowing.frames_tx


if __name__ == "__main__":
    main()
