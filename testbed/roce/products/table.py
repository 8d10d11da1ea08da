"""NICs as they differ: the settings of products that are public, each with its source.

`Roce(nic="connectx-5")` gives a flow's NICs the settings of a product, `xoff nics` shows the table, and
docs/reference/nics.md is made of it. A setting without a public source is in no set: it keeps its default.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from testbed.errors import nearest
from testbed.roce.products.model import Known, NicModel
from testbed.roce.settings import RoceError
from testbed.units import Duration

SOURCES: Mapping[str, str] = MappingProxyType({
    "mlxconfig": "`mlxconfig query` of a card with the firmware's defaults, as its users published it",
    "nvidia": "NVIDIA, DCQCN CC Parameters (DOCA documentation): for ConnectX-4 and later",
    "ofed": "`max_qp_rd_atom` of `ibv_devinfo -v` with the driver mlx5, as users published it",
    "irdma": "Intel, irdma 1.14 (the driver outside of Linux), main.c: defaults of module parameters",
    "juniper": "Juniper, AI Data Center Network with AMD GPUs (validated design), DCQCN configuration on NICs",
    "issue 12": "github.com/aliyun/ns-3-alibabacloud, issue 12: what its author suspects of mlx5 cards at 100 Gb/s",
})  # fmt: skip

_NOT_KNOWN_OF_CONNECTX = (
    "The times of CNPs and acknowledgements, and what selective repeat does, are not public.",
    "`roce_cc_cnp_moderation` is `DEVICE_DEFAULT`, of which no more is public: an interval of CNPs is that of a queue "
    "pair, as by default.",
)


def _connectx(name: str, title: str, interval: str, source: str, *remarks: str) -> NicModel:
    return NicModel(
        name,
        title,
        (
            Known("rate_control", "dcqcn-connectx", source),
            Known("cnp_interval", Duration(interval), source),
            *([Known("cnp_priority", 6, source), Known("cnp_dscp", 48, source)] if source == "mlxconfig" else ()),
            Known("reads", 16, "ofed"),
        ),
        remarks + _NOT_KNOWN_OF_CONNECTX,
    )


NIC_MODELS: Mapping[str, NicModel] = MappingProxyType({model.name: model for model in (
    _connectx(
        "connectx-4", "NVIDIA ConnectX-4", "0s", "mlxconfig",
        "`min_time_between_cnps` is 0, so that each marked packet brings a CNP; its sender decreases its rate once in "
        "4 us at most (`rate_reduce_monitor_period`).",
    ),
    _connectx("connectx-4-lx", "NVIDIA ConnectX-4 Lx", "4us", "mlxconfig"),
    _connectx("connectx-5", "NVIDIA ConnectX-5", "4us", "mlxconfig"),
    _connectx("connectx-6", "NVIDIA ConnectX-6", "4us", "nvidia"),
    _connectx("connectx-6-dx", "NVIDIA ConnectX-6 Dx", "4us", "mlxconfig"),
    _connectx(
        "connectx-7", "NVIDIA ConnectX-7", "4us", "nvidia",
        "Its firmware has programs for congestion control, too; these are the values of its DCQCN.",
    ),
    NicModel(
        "e810", "Intel E810",
        (Known("rate_control", "dcqcn-e810", "irdma"),),
        (
            "The driver has DCQCN off (`dcqcn_enable=0`), and none, DCTCP or TIMELY may be on instead.",
            "`dcqcn-e810` has of the driver F 5, T 55 us, B 150 000 octets, one decrease in 50 us at most "
            "(`dcqcn_rreduce_mperiod`) and 1 % as the least part of a decrease. What the driver adds in an increase is "
            "1 and 5 segments of a congestion window; the lab's DCQCN has rates, and keeps those of the paper.",
            "The interval of CNPs is not public.",
            "Up to 127 reads may arrive at a time (icrdma_hw.h); the lab has 16 at most.",
        ),
    ),
    NicModel(
        "thor-2", "Broadcom BCM57608, Thor 2",
        (Known("cnp_priority", 7, "juniper"), Known("cnp_dscp", 48, "juniper")),
        (
            "Data have DSCP 26 and priority 3 there: `Flow(..., dscp=26)`.",
            "Its driver, bnxt_re, can set many parameters of congestion control, the least time between CNPs among "
            "them, and knows none of their defaults: these are in firmware. The same holds of Thor (BCM57508).",
        ),
    ),
    NicModel(
        "trident3-setup", "mlx5 cards at 100 Gb/s over a Trident 3 switch",
        (Known("cnp_delay", Duration("55us"), "issue 12"),),
        (
            "A simulation without this delay had no pauses where the switch had some; with it, it had. It is no "
            "measurement, and other figures of the two still differed.",
        ),
    ),
)})  # fmt: skip
"""All products, by name."""


def nic_model(name: str) -> NicModel:
    """Return a product by its name."""
    if name not in NIC_MODELS:
        raise RoceError(f"there is no NIC {name!r}; {nearest(name, NIC_MODELS)}")
    return NIC_MODELS[name]
