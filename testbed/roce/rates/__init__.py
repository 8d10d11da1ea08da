"""Rate controls: how fast a queue pair sends. A new one is one module, or one class in an experiment's file.

`control` makes one from a name of the registry, from a class, or from a function. What is registered:

    fixed            the line rate, or the rate that a flow asks for
    dcqcn            DCQCN with the parameters of its paper
    dcqcn-mlx        DCQCN with separate timers for alpha and decrease, as simulators and cards commonly have it
    dcqcn-connectx   the same with the defaults of ConnectX cards, and their byte counter
    dcqcn-e810       the same with the defaults of Intel's driver of the E810
    timely           TIMELY: by the gradient of the round trip
    swift            Swift: a window by the delay and its target
    hpcc             HPCC: a window by the telemetry (INT) of the ports on the way
"""

from __future__ import annotations

from testbed.roce.rates.base import (
    Acknowledgement,
    Maker,
    RateControl,
    RateControlError,
    control,
    maker_of,
    names,
    register,
)
from testbed.roce.rates.dcqcn import Dcqcn, DcqcnParameters
from testbed.roce.rates.fixed import Fixed
from testbed.roce.rates.hpcc import Hpcc, HpccParameters
from testbed.roce.rates.swift import Swift, SwiftParameters
from testbed.roce.rates.timely import Timely, TimelyParameters
from testbed.units import Line

__all__ = [
    "Acknowledgement",
    "Dcqcn",
    "DcqcnParameters",
    "Fixed",
    "Hpcc",
    "HpccParameters",
    "Line",
    "Maker",
    "RateControl",
    "RateControlError",
    "Swift",
    "SwiftParameters",
    "Timely",
    "TimelyParameters",
    "control",
    "maker_of",
    "names",
    "register",
]
