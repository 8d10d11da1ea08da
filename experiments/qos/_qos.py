"""Policies and flows of the QoS experiments. Not an experiment."""

from collections.abc import Mapping, Sequence
from typing import Any

from testbed.frames.path_record import SLS, dscp_of
from xoff import Duration, Flow, Policy, Rate, load_policy

LINE = Rate("10Gb/s")
SETTLED, STEADY = Duration("200us"), Duration("800us")
"""The part of a flow that counts: it begins so long after the first frame of all, and lasts so long."""


def setup_of(sl2vl: Mapping[int, int], high: str = "", low: str = "", limit: int | None = None) -> str:
    """Return the setup of all ports: the VL of each SL, 15 where none is given, and the arbitration tables."""
    table = ",".join(str(sl2vl.get(sl, 15)) for sl in SLS)
    tables = f"<vlarb-high>{high}</vlarb-high>" if high else ""
    tables += f"<vlarb-low>{low}</vlarb-low>" if low else ""
    tables += f"<vl-high-limit>{limit}</vl-high-limit>" if limit is not None else ""
    arbitration = f"<vlarb-tables><vlarb-scope><group>all</group>{tables}</vlarb-scope></vlarb-tables>"
    return (
        "<qos-setup><sl2vl-tables><sl2vl-scope><group>all</group><from>*</from><to>*</to>"
        f"<sl2vl-table>{table}</sl2vl-table></sl2vl-scope></sl2vl-tables>{arbitration if tables else ''}</qos-setup>"
    )


def policy(setup: str, levels: str = "", rules: str = "", groups: str = "") -> Policy:
    """Return a policy of these parts, in XML; the group `all` has every port."""
    text = (
        "<qos-policy><port-groups><port-group><name>all</name><node-type>ALL</node-type></port-group>"
        f"{groups}</port-groups>{setup}{levels}{rules}</qos-policy>"
    )
    return load_policy(text.encode(), "the experiment's policy")


def flow(source: Any, target: Any, sl: int, **others: Any) -> Flow:
    """Return a flow of datagrams of a service level, as fast as the port lets them."""
    return Flow(source, target, 0, dscp=dscp_of(sl), **({"duration": SETTLED + STEADY} | others))


def shares(rates: Sequence[Rate]) -> list[float]:
    """Return the part that each rate is of all, in percent."""
    total = sum(rate.bps for rate in rates)
    return [round(100 * rate.bps / total, 2) if total else 0.0 for rate in rates]
