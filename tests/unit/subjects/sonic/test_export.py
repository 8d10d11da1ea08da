"""Switches of the lab as config_db.json: a switch that is written and read is the same, with any settings."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.net.fabric.port import Buffer, Port, PortNeeds, Reaction
from testbed.subjects.sonic.lab.export import Exported, ExportedPort, ExportError, switch_of, tables_of
from testbed.subjects.sonic.read import read
from testbed.subjects.sonic.write import write
from testbed.switch.buffer.headroom import PER_GROUP, DynamicSharedHeadroom, SharedHeadroomPool
from testbed.switch.buffer.settings import BufferSettings, Dynamic, GroupSettings, Pool, QueueSettings, Static
from testbed.switch.ecn.curve import EcnCurve
from testbed.switch.link.retry import Llr, LlrAction
from testbed.switch.pfc.settings import Action, Kind, PfcSettings, WatchdogSettings
from testbed.switch.priority.settings import PriorityMap
from testbed.units import Duration, Length, Rate, Size

pytestmark = pytest.mark.slow

numbers = st.integers(0, 7)
cells = st.integers(0, 5000)
durations = st.integers(1, 10**12).map(Duration.from_ps)
thresholds = st.one_of(
    cells.map(Static),
    st.integers(-8, 8).map(Dynamic.power),
    st.builds(Fraction, st.integers(1, 65535), st.integers(1, 65535)).map(Dynamic),
)


ratios = st.fractions(1, 9, max_denominator=9).map(lambda ratio: SharedHeadroomPool(over_subscribe=ratio))


@st.composite
def groups(draw: st.DrawFn, pools: int) -> GroupSettings:
    lossless, threshold = draw(st.booleans()), draw(thresholds)
    most = threshold.cells if isinstance(threshold, Static) else 5000
    return GroupSettings(
        lossless, draw(st.integers(0, 50)), threshold, draw(st.integers(0, most)),
        draw(st.integers(0, 500)) if lossless else 0, draw(cells), draw(st.integers(0, pools - 1)),
    )  # fmt: skip


@st.composite
def buffers(draw: st.DrawFn, ports: tuple[int, ...]) -> BufferSettings:
    pools, egress = draw(st.integers(1, 4)), draw(st.integers(0, 4))
    places = st.tuples(st.sampled_from(ports), numbers)
    queues = st.builds(QueueSettings, st.integers(0, 50), thresholds, st.integers(0, max(0, egress - 1)))
    headroom = st.one_of(st.none(), st.integers(500, 9000))
    return BufferSettings(
        ports,
        draw(st.integers(50_000, 10**6)),
        draw(headroom),
        draw(st.dictionaries(numbers, groups(pools), max_size=3)),
        draw(st.dictionaries(places, groups(pools), max_size=8)),
        draw(st.sampled_from([1, 208, 254])),
        True,
        tuple(Pool(draw(st.integers(50_000, 10**6)), draw(headroom)) for _ in range(pools - 1)),
        tuple(draw(st.integers(50_000, 10**6)) for _ in range(egress)),
        draw(st.dictionaries(places, queues, max_size=8)) if egress else {},
        draw(st.one_of(st.just(PER_GROUP), ratios, st.just(DynamicSharedHeadroom() if pools == 1 else PER_GROUP))),
    )


curves = st.builds(
    lambda low, more, part, limit, keep: EcnCurve(
        Size.from_bytes(low), Size.from_bytes(low + more), part, limit and Size.from_bytes(low + more + limit), keep
    ),
    st.integers(0, 10**6), st.integers(0, 10**6), st.fractions(Fraction(1, 1000), 1, max_denominator=1000),
    st.one_of(st.none(), st.integers(1, 10**6)), st.booleans(),
)  # fmt: skip
tables = st.dictionaries(numbers, numbers)
rewriting = st.dictionaries(numbers, st.one_of(st.none(), numbers))
maps = st.builds(
    PriorityMap, st.sampled_from(["dscp", "dot1p"]), numbers,
    dscp_to_dot1p=st.dictionaries(st.integers(0, 63), numbers), dot1p_to_local=tables, rewrite_dot1p=rewriting,
    rewrite_dscp=rewriting, pcp_to_dot1p=tables, dot1p_to_group=tables, pause_to_local=tables,
)  # fmt: skip
guards = st.builds(WatchdogSettings, durations, durations, durations, st.sampled_from(Action), st.sampled_from(Kind))
pauses = st.builds(
    PfcSettings, st.frozensets(numbers), st.integers(1, 65535), st.fractions(Fraction(1, 100), Fraction(1, 2)),
    st.booleans(), st.one_of(st.none(), guards),
)  # fmt: skip


@st.composite
def ports(draw: st.DrawFn) -> Port:
    strict = draw(st.frozensets(numbers, max_size=3))
    shared = [number for number in range(8) if number not in strict]
    weights = draw(st.dictionaries(st.sampled_from(shared), st.integers(1, 10), max_size=4))
    is_dwrr = draw(st.booleans())
    reactions = st.builds(Reaction, durations, durations)
    return Port(
        draw(pauses), draw(maps), {} if is_dwrr else weights, strict, weights if is_dwrr else {},
        draw(st.dictionaries(numbers, curves, max_size=3)),
        obeys_after=draw(durations), reaction=draw(st.one_of(st.none(), reactions)),
    )  # fmt: skip


retries = st.builds(
    Llr, st.integers(1, 1 << 19), st.integers(60, (1 << 31) - 1), st.integers(1, 65_535).map(Duration.from_ns),
    st.integers(1, 255), st.integers(400, 16_384), st.sampled_from(LlrAction), st.sampled_from(LlrAction),
    st.booleans(), st.none() | st.integers(1, 4_290_000_000).map(Duration.from_ns),
)  # fmt: skip


@st.composite
def switches(draw: st.DrawFn) -> Exported:
    places = tuple(draw(st.lists(st.integers(1, 64), min_size=1, max_size=4, unique=True)))
    made = {
        place: ExportedPort(
            draw(ports()),
            Rate.from_bps(draw(st.integers(10, 10**6)) * 10**6),
            Length.from_mm(draw(st.integers(0, 10**9))),
            draw(st.none() | retries),
        )
        for place in places
    }
    return Exported(
        draw(st.sampled_from(["s1", "leaf-1", ""])), made, draw(buffers(places)), draw(st.integers(1, 9999))
    )


def _same(one: BufferSettings, other: BufferSettings) -> bool:
    """Return True if two buffers are equal, whether groups are given for all ports or one by one."""
    return (
        one.all_groups() == other.all_groups()
        and (one.pools, one.egress_pools, dict(one.queues)) == (other.pools, other.egress_pools, dict(other.queues))
        and (one.ports, one.cell_bytes, one.overbook_headroom, one.policy)
        == (other.ports, other.cell_bytes, other.overbook_headroom, other.policy)
    )


@settings(max_examples=40, deadline=None)
@given(switches())
def test_any_switch_is_written_and_read_as_the_same_switch(switch: Exported) -> None:
    written = tables_of(switch)
    reading = read(write(written).encode())
    assert reading.problems.errors == [] and reading.tables == written
    again = switch_of(reading.tables)
    assert again.ports == switch.ports
    assert (again.name, again.scale) == (switch.name, switch.scale)
    assert _same(again.buffer, switch.buffer)


def test_llr_that_sonic_has_no_numbers_for_is_refused() -> None:
    buffer = Buffer().settings({1: PortNeeds(frozenset({3}), Rate("10Mb/s"), Duration("0s"))})
    port = ExportedPort(Port(), Rate("10Gb/s"), Length("5m"), Llr(61, 31_184, "5us", replay_count=0))
    with pytest.raises(ExportError, match=r"Ethernet1: LLR's max_replay_count is 0; config_db\.json has 1 to 255"):
        tables_of(Exported("s1", {1: port}, buffer))


def test_the_default_switch_is_one_that_sonic_can_say() -> None:
    needs = PortNeeds(frozenset({3}), Rate("10Mb/s"), Duration("0s"))
    buffer = Buffer().settings({1: needs, 2: needs})
    made = {number: ExportedPort(Port(), Rate("10Gb/s"), Length("5m")) for number in (1, 2)}
    found = tables_of(Exported("s1", made, buffer, 1000))
    profile = found.profile("Ethernet1", 3)
    assert profile is not None and (profile.dynamic_th, profile.lossless) == (-1, True)
    assert (found.cables["Ethernet1"], found.ports["Ethernet2"].speed) == ("5m", 10000)
    assert found.own["XOFF_PROFILE"] == {}


@pytest.mark.parametrize(
    ("port", "rate", "message"),
    [
        (Port().with_dcbx(), "10Gb/s", "port 1 of s1 speaks DCBX; config_db.json has no table for it"),
        (Port().with_vls(), "10Gb/s", "port 1 of s1 has virtual lanes of a QoS policy"),
        (Port(), "10500kb/s", "port 1 of s1 has 10.5Mb/s; speed is a whole number of Mb/s"),
    ],
)
def test_what_has_no_form_is_refused(port: Port, rate: str, message: str) -> None:
    made: Any = {1: ExportedPort(port, Rate(rate), Length("5m"))}
    with pytest.raises(ExportError, match=f"^{message}"):
        tables_of(Exported("s1", made, BufferSettings((1,), 100, None)))


def test_a_file_of_another_origin_is_refused_with_the_way_out() -> None:
    with pytest.raises(ExportError, match=r"Switch\.from_config_db reads any"):
        switch_of(read(b'{"PORT": {"Ethernet0": {"speed": "100000"}}}').tables)
