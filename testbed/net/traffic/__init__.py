"""Traffic between hosts of a network, measured at its ends. Only the lab can run it.

`Flow` describes what one host sends to another, `Flows` runs flows, a `Report` is what became of one. Transports are
`udp` (numbered datagrams), `tcp` (iperf3) and `roce` (RoCEv2 connections); `transport.py` has the interface for others.
`ping` and `probe` measure a round trip.
"""

# Each of these modules registers its transport.
from testbed.net.traffic import roce, tcp, udp
from testbed.net.traffic.flow import Flow, FlowError, FlowOptionError
from testbed.net.traffic.flows import Flows, flowing
from testbed.net.traffic.ping import PingError, ping, probe
from testbed.net.traffic.report import WINDOW_NS, Report
from testbed.net.traffic.transport import Endpoint, EndpointControl, Outcome, Transport, register

__all__ = [
    "WINDOW_NS",
    "Endpoint",
    "EndpointControl",
    "Flow",
    "FlowError",
    "FlowOptionError",
    "Flows",
    "Outcome",
    "PingError",
    "Report",
    "Transport",
    "flowing",
    "ping",
    "probe",
    "register",
    "roce",
    "tcp",
    "udp",
]
