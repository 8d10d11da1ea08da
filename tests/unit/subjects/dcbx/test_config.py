"""The agent's file: its text becomes settings, settings become a file again, and mistakes are named."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.frames.dcbx.values import AppEntry, DcbxVersion, Ets, EtsRecommendation, Selector
from testbed.frames.lldp_timers import LldpTimers
from testbed.subjects.dcbx.config import WILLING, Config, ConfigError, dump, parse
from testbed.subjects.dcbx.settings import (
    ApplicationAdmin,
    CnAdmin,
    DcbxSettings,
    EtsAdmin,
    PfcAdmin,
    Recommend,
    Shares,
    TieBreak,
)
from testbed.units import Duration
from tests.unit.subjects.dcbx.dcbx_strategies import (
    algorithms,
    classes,
    draft_groups,
    masks,
    maybe,
    percents,
    priorities,
)

PAGE = Path(__file__).parents[4] / "docs" / "dcbx.md"


def test_an_empty_file_runs_no_feature() -> None:
    assert parse("", "f") == Config(DcbxSettings(), LldpTimers())


def test_every_section_becomes_its_settings() -> None:
    config = parse(
        """
        tie_break = "lower"
        traffic_classes = 3
        buffer_by_classes = true
        [lldp]
        interval = "5s"
        fast_count = 2
        [pfc]
        enabled = [3, 4]
        willing = true
        cap = 2
        defense = true
        headroom = true
        [ets]
        classes = [0, 0, 0, 1, 0, 0, 0, 2]
        bandwidth = [60, 40]
        strict = [2]
        vendor = [5]
        shaped = [4]
        cbs = true
        [ets.recommend]
        classes = [0, 0, 0, 0, 1, 0, 0, 0]
        bandwidth = [50, 50]
        wait = true
        [applications]
        willing = true
        [[application]]
        ethertype = 0x8906
        priority = 3
        [[application]]
        dscp = 46
        priority = 5
        [cn]
        enabled = [5]
        """,
        "f",
    )
    table = Ets((0, 0, 0, 1, 0, 0, 0, 2), (60, 40, 0, 0, 0, 0, 0, 0), (2, 2, 0, 2, 1, 255, 2, 2))
    advice = EtsRecommendation((50, 50, 0, 0, 0, 0, 0, 0), (0, 0, 0, 0, 1, 0, 0, 0), (2,) * 8)
    assert config.timers == LldpTimers(interval=Duration("5s"), fast_count=2)
    assert config.settings == DcbxSettings(
        DcbxVersion.PUBLISHED,
        TieBreak.LOWER,
        3,
        EtsAdmin(table, False, Recommend(advice, wait=True), cbs=True),
        PfcAdmin(0x18, True, 2, True, headroom=True),
        ApplicationAdmin((AppEntry(3, Selector.ETHERTYPE, 0x8906), AppEntry(5, Selector.DSCP, 46)), True),
        CnAdmin(0x20),
        buffer_by_classes=True,
    )


def test_the_drafts_own_words() -> None:
    settings = parse(
        """
        version = "draft"
        [ets]
        classes = [0, 1, 0, 1, 0, 13, 14, "strict"]
        bandwidth = [30, 70]
        [ets.recommend]
        shares = [10, 20, 30, 40]
        [[application]]
        other-port = 5000
        priority = 1
        """,
        "f",
    ).settings
    assert settings.ets == EtsAdmin(
        Ets((0, 1, 0, 1, 0, 13, 14, 15), (30, 70, 0, 0, 0, 0, 0, 0)),
        recommend=Shares((10, 20, 30, 40, 0, 0, 0, 0)),
    )
    assert settings.applications == ApplicationAdmin((AppEntry(1, Selector.OTHER_PORT, 5000),))


def test_the_page_shows_a_file_with_every_key_and_it_is_right() -> None:
    text = PAGE.read_text().partition("```toml\n")[2].partition("```")[0]
    config = parse(text, str(PAGE))
    for name in ("ets", "pfc", "applications", "cn"):
        assert getattr(config.settings, name) is not None
    written = {line.partition(" =")[0] for line in dump(config.settings, config.timers).splitlines() if " = " in line}
    shown = {line.strip(" #").partition(" =")[0] for line in text.splitlines() if " = " in line}
    assert written <= shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pfc", "f is not TOML: Expected '=' after a key in a key/value pair (at end of document)"),
        ("a = 1\n[pfc\n", "f is not TOML: Expected ']' at the end of a table declaration (at line 2, column 5)"),
        ("[pcf]", "f: pcf: unknown key; did you mean pfc?"),
        ("[pfc]\nenable = [3]", "f: [pfc] enable: unknown key; did you mean enabled?"),
        (
            "[cn]\nxyz = 1",
            "f: [cn] xyz: unknown key; there are enabled, willing, hold",
        ),
        ("pfc = 3", "f: pfc: 3 is not a section; write [pfc] on a line of its own"),
        ("[application]", "f: application: {} is not a list of sections; write [[application]] above each of them"),
        ('version = "drafty"', "f: version: 'drafty' is unknown; did you mean 'draft'?"),
        ("tie_break = 3", "f: tie_break: 3 is unknown; there are 'none', 'lower', 'higher'"),
        ("traffic_classes = 9", "f: 9 traffic classes are invalid: there are 1 to 8"),
        ("traffic_classes = true", "f: traffic_classes: true is not a whole number"),
        ("[pfc]\nwilling = 1", "f: [pfc] willing: 1 is neither true nor false"),
        ("[pfc]\nenabled = 3", "f: [pfc] enabled: 3 is not a list: write [3]"),
        ("[pfc]\nenabled = [8]", "f: [pfc] enabled: 8 is not a priority: there are 0 to 7"),
        (
            "[pfc]\ncap = 9",
            "f: [pfc]: PFC capability is 9, and has to be 1 to 8; a port without PFC has no PFC settings at all",
        ),
        ("[ets]", "f: [ets] classes: is missing"),
        (
            "[ets]\nclasses = [0]",
            "f: [ets] classes: 1 entries, and 8 are expected: the classes of priorities 0 to 7 in order",
        ),
        (
            "[ets]\nclasses = [0,0,0,0,0,0,0,'strict']",
            'f: [ets] classes: "strict" is the draft\'s; '
            "give the priority a class, and name that class in strict = [..]",
        ),
        (
            "[ets]\nclasses = [0,0,0,0,0,0,0,0]\nbandwidth = [90]",
            "f: ETS table: its bandwidths sum to 90, not 100",
        ),
        (
            "[ets]\nclasses = [0,0,0,0,0,0,0,0]\nbandwidth = [1,2,3,4,5,6,7,8,9]",
            "f: [ets] bandwidth: 9 entries, and there are 8 classes",
        ),
        (
            "[ets]\nclasses = [0,0,0,0,0,0,0,0]\nstrict = [8]",
            "f: [ets] strict: 8 is not a traffic class: there are 0 to 7",
        ),
        (
            "[ets]\nclasses = [0,0,0,0,0,0,0,0]\nstrict = [1]\nvendor = [1]",
            "f: [ets] vendor: class 1 is in strict too; leave one out",
        ),
        (
            "version = 'draft'\n[ets]\nclasses = [0,0,0,0,0,0,0,0]\nstrict = [1]",
            "f: [ets] strict: the draft has no transmission selection of classes; "
            'write "strict" in place of a priority\'s class',
        ),
        (
            "version = 'draft'\n[ets]\nclasses = [0,0,0,0,0,0,0,0]\nbandwidth=[100]\n[ets.recommend]\nclasses=[0]",
            "f: [ets.recommend] classes: the draft recommends bandwidth only; leave this out",
        ),
        (
            "version = 'draft'\n[ets]\nclasses = [0,0,0,0,0,0,0,0]\n[ets.recommend]\nshares=[100]\nwait=true",
            "f: [ets.recommend] wait: does not go with shares, which always wait for the peer's table; give one",
        ),
        (
            "[ets]\nclasses = [0,0,0,0,0,0,0,0]\nbandwidth=[100]\n[ets.recommend]\nshares=[50]",
            "f: [ets.recommend]: shares (50, 0, 0, 0, 0, 0, 0, 0) are invalid: give one for each of 8 priorities, "
            "100 in sum",
        ),
        (
            "[[application]]\npriority = 3",
            "f: [[application]] number 1 protocol: no protocol is there; "
            "give one of ethertype, tcp, udp, tcp-udp, other-port, dscp",
        ),
        (
            "[[application]]\ntcp = 1\nudp = 2\npriority = 3",
            "f: [[application]] number 1 protocol: tcp and udp are there; "
            "give one of ethertype, tcp, udp, tcp-udp, other-port, dscp",
        ),
        ("[[application]]\ntcp = 1", "f: [[application]] number 1 priority: is missing"),
        (
            "[[application]]\nethertype = 800\npriority = 3",
            "f: [[application]] number 1 ethertype: 800 (0x320) is not an EtherType: "
            "there are 0x600 to 0xffff, or 0 for everything else",
        ),
        (
            "[[application]]\ndscp = 64\npriority = 3",
            "f: [[application]] number 1 dscp: 64 is not a DSCP: there are 0 to 63",
        ),
        (
            "[[application]]\ntcp = 80\npriority = 8",
            "f: [[application]] number 1: 8 is not a priority: there are 0 to 7",
        ),
        (
            "[[application]]\ntcp = 80\npriority = 1\n[[application]]\ntcp = 80\npriority = 2",
            "f: application: tcp = 80 has priority 1 and priority 2; leave one out",
        ),
        (
            "[ets]\nclasses = [0,0,0,0,0,0,0,0]\nbandwidth = [-1, 101]",
            "f: [ets] bandwidth: -1 is not a share: there are 0 to 100 percent",
        ),
        (f"{'ab.' * 20_000}ab = 1", f"f has a key of more than 16 parts, '{'ab.' * 12}..."),
        (f"a = {'[' * 5000}", "f is not TOML that can be read: its lists or tables are nested too deep"),
        ("version = 'draft'\n[[application]]\ndscp = 1\npriority = 1", "f: the draft format has no selector for DSCP"),
        ("[lldp]\ninterval = 30", "f: [lldp] interval: 30 has no unit: write for example '30s'"),
        ("[lldp]\nhold = 0", "f: [lldp]: LLDP hold is 0, and has to be 1 to 100"),
        (
            "[cn]\nwilling = true",
            "f: the published format cannot pass CN on; leave `willing` of CN at False",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place_and_the_way_out(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse(text, "f")
    assert str(error.value) == message


def test_too_many_applications_are_refused() -> None:
    text = "[[application]]\ntcp = 80\npriority = 1\n" * 169
    with pytest.raises(ConfigError, match="f: application: 169 application priorities do not fit into a TLV"):
        parse(text, "f")


# What is written is read again

_ports = st.integers(1, 0xFFFF)
_protocols = {
    Selector.ETHERTYPE: st.just(0) | st.integers(0x600, 0xFFFF),
    Selector.DSCP: st.integers(0, 63),
}


@st.composite
def settings(draw: st.DrawFn) -> DcbxSettings:
    version = draw(st.sampled_from(DcbxVersion))
    is_draft = version is DcbxVersion.DRAFT
    without = Selector.DSCP if is_draft else Selector.OTHER_PORT

    def entry() -> AppEntry:
        selector = draw(st.sampled_from([one for one in Selector if one is not without]))
        return AppEntry(draw(priorities), selector, draw(_protocols.get(selector, _ports)))

    ets: Any = None
    if draw(st.booleans()):
        table = Ets(draw(draft_groups), draw(percents())) if is_draft else None
        table = table or Ets(draw(classes), draw(percents()), draw(algorithms))
        advice = EtsRecommendation(draw(percents()))
        if not is_draft:
            advice = replace(advice, assignment=draw(classes), tsa=draw(algorithms))
        choices: list[st.SearchStrategy[Any]] = [st.none(), st.builds(Recommend, st.just(advice), st.booleans())]
        choices += [st.builds(Shares, percents())] if is_draft else []
        ets = EtsAdmin(table, draw(st.booleans()), draw(st.one_of(choices)), not is_draft and draw(st.booleans()))
    pfc = None
    if draw(st.booleans()):
        octet = draw(st.booleans())
        headroom = draw(st.booleans()) and (octet or not is_draft)
        flags = draw(st.booleans()), draw(st.integers(1, 8)), draw(st.booleans())
        pfc = PfcAdmin(draw(masks), *flags, octet, headroom)
    applications = None
    if draw(st.booleans()):
        drawn = {(one.selector, one.protocol): one for one in (entry() for _ in range(draw(st.integers(0, 4))))}
        applications = ApplicationAdmin(tuple(drawn.values()), draw(st.booleans()))
    cn = CnAdmin(draw(masks), is_draft and draw(st.booleans())) if draw(st.booleans()) else None
    return DcbxSettings(version, draw(maybe(st.sampled_from(TieBreak))), 8, ets, pfc, applications, cn)


_timers = st.builds(
    LldpTimers,
    st.integers(1, 3600).map(lambda s: Duration(f"{s}s")),
    st.integers(1, 100),
    st.integers(10**9, 3600 * 10**9).map(Duration.from_ns),
    st.integers(1, 8),
    st.integers(10**9, 10**10).map(Duration.from_ns),
    st.integers(1, 10),
)


@given(settings(), _timers)
def test_settings_that_are_written_are_read_as_the_same(given_settings: DcbxSettings, timers: LldpTimers) -> None:
    assert parse(dump(given_settings, timers), "f") == Config(given_settings, timers)


def test_without_a_file_a_port_is_willing_and_that_can_be_written_too() -> None:
    assert parse(dump(WILLING.settings), "f") == WILLING


_ANYTHING: tuple[str, ...] = (
    "true",
    "3",
    "-1",
    "99999999999999999999",
    "1.5",
    "nan",
    "'x'",
    "'strict'",
    "[]",
    "[3]",
    "[[3]]",
    "{a=1}",
)
_ANYTHING += ("1979-05-27", "[1,1,1,1,1,1,1,1]", "[100]", "['strict', 0, 0, 0, 0, 0, 0, 0]", "'30s'", "'draft'")


@given(settings(), st.lists(st.tuples(st.integers(0, 60), st.sampled_from(_ANYTHING)), max_size=4))
def test_whatever_a_key_is_set_to_is_read_or_refused_in_one_line(
    given_settings: DcbxSettings, changed: list[tuple[int, str]]
) -> None:
    lines = dump(given_settings).splitlines()
    for number, value in changed:
        at = number % len(lines)
        lines[at] = re.sub(" = .*", f" = {value}".replace("\\", r"\\"), lines[at])
    try:
        parse("\n".join(lines), "f")
    except ConfigError as error:
        assert str(error).startswith("f: ") and "\n" not in str(error)
