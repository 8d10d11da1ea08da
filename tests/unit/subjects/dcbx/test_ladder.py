"""Ladder diagrams from logs: the draft's three, what else can happen on a link, any log, and `xoff export --ladder`."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.cli import main
from testbed.frames import Mac
from testbed.frames.dcbx.values import AppEntry, DcbxVersion, Selector
from testbed.frames.lldp import ChassisId, Lldpdu, LldpFrame, PortId
from testbed.subjects.dcbx.ladder.diagram import Arrow, Folded, Ladder, LadderError, Note, Side, ladder, read
from testbed.subjects.dcbx.ladder.svg import COLUMN, ROW, as_svg
from testbed.subjects.dcbx.ladder.text import WIDTH, as_text
from testbed.subjects.dcbx.settings import DcbxSettings, PfcAdmin
from testbed.subjects.dcbx.show import Direction, frame_record, record
from testbed.subjects.dcbx.tlvs import ApplicationPriority, DcbxTlvs, Pfc, encode
from tests.unit.subjects.dcbx.dcbx_ladders import CABLE_NS, Log, asymmetric, defense, logged, symmetric, write
from tests.unit.subjects.dcbx.dcbx_link import LOW, S
from tests.unit.subjects.dcbx.test_show import LINES

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "dcbx-ladders.md").read_text()
LEFT, RIGHT = Side.LEFT, Side.RIGHT
DRAFT, PUBLISHED = DcbxVersion.DRAFT, DcbxVersion.PUBLISHED
MS = 10**6
STRANGER = Mac.parse("02:00:00:00:00:0c")


def arrows(drawn: Ladder) -> list[tuple[Side, tuple[str, ...], bool]]:
    """Return the source, the text and the arrival of each arrow."""
    return [(s.source, s.texts, s.arrived_ns is not None) for s in drawn.steps if isinstance(s, Arrow)]


def notes(drawn: Ladder, side: Side) -> list[str]:
    return [said for step in drawn.steps if isinstance(step, Note) and step.side is side for said in step.texts]


def folds(drawn: Ladder) -> list[str]:
    return [step.texts for step in drawn.steps if isinstance(step, Folded)]


def octets(tlvs: DcbxTlvs, mac: Mac = LOW, ttl: int = 121, version: DcbxVersion = PUBLISHED) -> bytes:
    identity = ChassisId.of_mac(mac), PortId.interface("eth0")
    return LldpFrame(mac, Lldpdu(*identity, ttl, tuple(encode(version, tlvs)))).encode()


def sent(at: int, frame: bytes, port: str = "a") -> dict[str, Any]:
    return frame_record(frame, PUBLISHED, "sent", at) | {"port": port}


def received(at: int, frame: bytes, port: str = "b") -> dict[str, Any]:
    return frame_record(frame, PUBLISHED, "received", at) | {"port": port}


def found(at: int, port: str, mac: Mac = LOW) -> dict[str, Any]:
    named = {"chassis_id": str(mac), "port_id": "eth0", "mac": str(mac)}
    return {"t_ns": at, "what": "neighbour_found", "port": port, **named}


def lost(at: int, port: str, mac: Mac = LOW) -> dict[str, Any]:
    named = {"chassis_id": str(mac), "port_id": "eth0", "why": "its TTL is over"}
    return {"t_ns": at, "what": "neighbour_lost", "port": port, **named}


def nothing(at: int, port: str) -> dict[str, Any]:
    """Return a line that is not drawn, so that a port is in the log."""
    return {"t_ns": at, "what": "peer_changed", "port": port, "mac": None, "tlvs": {}}


def drawn(*records: dict[str, Any]) -> Ladder:
    return ladder([nothing(0, "a"), nothing(0, "b"), *records], "a", "b")


THREE = octets(DcbxTlvs(pfc=Pfc(0x08)))
FOUR = octets(DcbxTlvs(pfc=Pfc(0x10)))
OTHERS = octets(DcbxTlvs(pfc=Pfc(0x20)), STRANGER)
GOODBYE, DRAFTS = octets(DcbxTlvs(), ttl=0), octets(DcbxTlvs(8), version=DRAFT)
SAYS_THREE, SAYS_FOUR = ("PFC 3, not willing",), ("PFC 4, not willing",)


# The draft's ladders


def test_symmetric_passing_follows_the_drafts_text() -> None:
    """A willing port takes over the value of one that is not and sends it back; Pending ends with that."""
    found = ladder(symmetric(), "host", "bridge")
    bridge = ("TC 8", "PFC 3,4, not willing, defends none")
    assert arrows(found) == [
        (RIGHT, bridge, False),
        (LEFT, ("TC 8", "PFC none, willing, defends none"), True),
        (RIGHT, bridge, True),
        (LEFT, ("PFC 3,4, willing, defends none",), True),
    ]
    assert notes(found, LEFT) == [
        "TC 8",
        "PFC none, local setting: no LLDPDU has been received",
        "pending: TC, PFC",
        "new neighbour 02:00:00:00:00:0b port bridge",
        "PFC 3,4, the peer's: this port is willing and the peer is not",
        "no longer pending: TC, PFC",
    ]
    assert notes(found, RIGHT) == [
        "TC 8",
        "PFC 3,4, local setting: no LLDPDU has been received",
        "pending: TC, PFC",
        "new neighbour 02:00:00:00:00:0a port host",
        "no longer pending: TC",
        "no longer pending: PFC",
    ]
    *_, last = (step for step in found.steps if isinstance(step, Note))
    assert (last.side, last.t_ns) == (RIGHT, 10 * S + 3 * CABLE_NS)  # three frames after the host came
    assert folds(found) == ["… 3 more of the same from bridge, lost", "… 3 more of the same from bridge; 2 from host"]


def test_asymmetric_passing_takes_two_transfers_in_one_direction_and_one_in_the_other() -> None:
    found = ladder(asymmetric(), "host", "bridge")
    configured, followed = "ETS 0:70 1:30 / 0001100S", "ETS 0:25 1:75 / 0001100S"
    assert arrows(found) == [
        (RIGHT, ("TC 8", f"{configured}, not willing", "recommends nothing yet (RV 0)"), False),
        (LEFT, ("TC 8", f"{configured}, willing"), True),
        (RIGHT, ("TC 8", f"{configured}, not willing", "recommends ETS 0:25 1:75 (RV 1)"), True),
        (LEFT, (f"{followed}, willing",), True),
    ]
    assert notes(found, LEFT) == [
        "TC 8",
        f"{configured}, local setting: no LLDPDU has been received",
        "pending: TC, ETS",
        "new neighbour 02:00:00:00:00:0b port bridge",
        f"{followed}, the peer's recommendation: this port is willing",
        "no longer pending: TC, ETS",
    ]
    assert notes(found, RIGHT) == [
        "TC 8",
        f"{configured}, local setting: this port is not willing",
        "pending: TC, ETS, ETS rec",
        "new neighbour 02:00:00:00:00:0a port host",
        "no longer pending: TC, ETS, ETS rec",
    ]
    legend = "ETS is class:percent / class of priority 0 to 7; S is strict, A and B are the AVB groups"
    assert found.remarks == (legend,)


def test_defenses_end_where_both_run_the_feature() -> None:
    found = ladder(defense(), "host", "bridge")
    assert [says for _, says, arrived in arrows(found) if arrived] == [
        ("TC 8", "PFC 3, not willing, defends 3", "CN 4, not willing, defends 4"),
        ("TC 8", "PFC 3,4, not willing, defends 4", "CN 4, not willing, defends none"),
        ("PFC 3, not willing, defends none", "CN 4, not willing, defends none"),
    ]
    assert [said for said in notes(found, RIGHT) if "defends" in said] == [
        "PFC defends 3,4", "CN defends 4", "PFC defends 4", "CN defends none",
    ]  # fmt: skip


def test_a_log_is_drawn_in_the_same_way_after_json_and_whatever_the_order_of_its_ports() -> None:
    log = asymmetric()
    of_ports = sorted(log, key=lambda line: line["port"])
    assert ladder(json.loads(json.dumps(of_ports)), "host", "bridge") == ladder(log, "host", "bridge")


def test_the_ports_may_change_sides() -> None:
    mirrored = ladder(symmetric(), "bridge", "host")
    assert [(source.other, *rest) for source, *rest in arrows(mirrored)] == arrows(
        ladder(symmetric(), "host", "bridge")
    )


# The page


def blocks() -> list[tuple[str, str]]:
    """Return the commands of the page, each with the output that it shows."""
    matches = re.findall(r"^    \$ xoff (export .*)\n((?:    .*\n)+)", PAGE, re.MULTILINE)
    return [(command, re.sub(r"^    ", "", output, flags=re.MULTILINE)) for command, output in matches]


@pytest.mark.slow
def test_the_page_shows_what_its_commands_make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (command,) = re.findall(r"^    PYTHONPATH=\. python3 (.*)$", PAGE, re.MULTILINE)
    script, folder = shlex.split(command)
    subprocess.run(
        [sys.executable, str(ROOT / script), str(tmp_path / folder)], check=True, env={"PYTHONPATH": str(ROOT)}
    )
    monkeypatch.chdir(tmp_path)
    assert len(blocks()) == 3
    for command, output in blocks():
        assert main(shlex.split(command)) == 0
        assert capsys.readouterr().out == output


# What else happens on a link


def test_a_frame_is_an_arrow_from_sender_to_receiver() -> None:
    row = as_text(drawn(sent(1, THREE), received(5001, THREE))).splitlines()[2]
    assert row == f"  0.000000 │─── PFC 3, not willing {'─' * 63}▶│"
    mirrored = as_text(drawn(sent(1, THREE, "b"), received(5001, THREE, "a"))).splitlines()[2]
    assert mirrored == f"  0.000000 │◀{'─' * 63} PFC 3, not willing ───│"


@pytest.mark.parametrize(
    ("port", "arrow"),
    [("a", r"│─── PFC 3, not willing ─+x +│"), ("b", r"│ +x─+ PFC 3, not willing ───│")],
)
def test_a_frame_that_was_lost_is_an_arrow_that_ends_in_x(port: str, arrow: str) -> None:
    found = drawn(sent(1, THREE, port))
    assert re.search(arrow, as_text(found))
    assert 'class="lost"' in as_svg(found)
    assert 'class="sent"' not in as_svg(found)


def test_repetitions_are_folded_and_counted() -> None:
    frames = [line for at in range(5) for line in (sent(at * S, THREE), received(at * S + 1, THREE))]
    found = drawn(*frames)
    assert len(arrows(found)) == 1
    assert found.steps[1] == Folded(S, "… 4 more of the same from a")


def test_a_repetition_that_has_another_fate_than_the_one_before_is_shown() -> None:
    found = drawn(sent(0, THREE), received(1, THREE), sent(S, THREE), sent(2 * S, THREE), sent(3 * S, THREE),
                  received(3 * S + 1, THREE))  # fmt: skip
    assert arrows(found) == [(LEFT, SAYS_THREE, True), (LEFT, ("as before",), False), (LEFT, ("as before",), True)]
    assert folds(found) == ["… 1 more of the same from a, lost"]


def test_a_repetition_that_has_an_effect_is_shown() -> None:
    """The receiver has been restarted, say."""
    found = drawn(sent(0, THREE), received(1, THREE), sent(S, THREE), received(S + 1, THREE), ended(S + 1, "b"))
    assert arrows(found) == [(LEFT, SAYS_THREE, True), (LEFT, ("as before",), True)]
    assert folds(found) == []


def ended(at: int, port: str) -> dict[str, Any]:
    return {"t_ns": at, "what": "pending_changed", "port": port, "feature": "pfc", "pending": False}


def test_the_content_of_a_lost_frame_is_shown_with_the_next_that_arrives() -> None:
    found = drawn(sent(0, THREE), received(1, THREE), sent(2, FOUR), sent(S, FOUR), received(S + 1, FOUR))
    assert arrows(found) == [(LEFT, SAYS_THREE, True), (LEFT, SAYS_FOUR, False), (LEFT, SAYS_FOUR, True)]


def test_a_frame_is_shown_whole_to_a_port_that_has_dropped_its_sender() -> None:
    before = sent(0, THREE), received(1, THREE), found(1, "b")
    again = sent(2 * S, THREE), received(2 * S + 1, THREE), found(2 * S + 1, "b")
    assert arrows(drawn(*before, lost(S, "b"), *again)) == [(LEFT, SAYS_THREE, True)] * 2
    assert arrows(drawn(*before, lost(S, "b", STRANGER), *again))[1] == (LEFT, ("as before",), True)


def test_a_tlv_that_is_gone_is_reported() -> None:
    less = octets(DcbxTlvs())
    found = drawn(sent(0, THREE), received(1, THREE), sent(2, less), received(3, less))
    assert arrows(found)[1] == (LEFT, ("no PFC any more",), True)


def test_another_ttl_a_shutdown_and_no_dcbx_at_all_are_reported() -> None:
    empty, other, goodbye = octets(DcbxTlvs()), octets(DcbxTlvs(), ttl=120), octets(DcbxTlvs(), ttl=0)
    frames = [
        line for at, frame in enumerate((empty, other, goodbye)) for line in (sent(at, frame), received(at, frame))
    ]
    assert [says for _, says, _ in arrows(drawn(*frames))] == [("no DCBX",), ("TTL 120",), ("shutdown (TTL 0)",)]


def test_after_a_shutdown_a_frame_is_shown_whole() -> None:
    log = [line for at, frame in enumerate((THREE, GOODBYE, THREE)) for line in (sent(at, frame), received(at, frame))]
    assert [says for _, says, _ in arrows(drawn(*log))] == [SAYS_THREE, ("shutdown (TTL 0)",), SAYS_THREE]


def test_a_frame_with_a_long_delay_is_labelled_with_its_arrival() -> None:
    text = as_text(drawn(sent(0, THREE), received(250 * MS, THREE)))
    assert "─── PFC 3, not willing; arrives at 0.250000 ──" in text
    assert "arrives" not in as_text(drawn(sent(0, THREE), received(MS - 1, THREE)))


def test_equal_frames_without_reordering_are_paired_in_order() -> None:
    late = [sent(0, THREE), sent(S, THREE), sent(2 * S, THREE)]
    came = [received(at, THREE) for at in (3 * S // 2, 5 * S // 2, 7 * S // 2)]
    (first, *_) = (step for step in drawn(*late, *came).steps if isinstance(step, Arrow))
    assert first.arrived_ns == 3 * S // 2
    assert folds(drawn(*late, *came)) == ["… 2 more of the same from a"]


def test_of_equal_frames_the_last_before_an_arrival_is_the_one_that_arrived() -> None:
    found = drawn(sent(0, THREE), sent(S, THREE), received(S + 1, THREE))
    assert [arrived for _, _, arrived in arrows(found)] == [False, True]


def test_what_is_received_comes_after_what_was_sent_at_the_same_time() -> None:
    """This holds also if the receiver's log is read first, and both ports react in no time."""
    records = [sent(5, THREE, "b"), received(5, THREE, "a"), found(5, "a"), sent(5, FOUR, "a"), received(5, FOUR, "b"),
               found(5, "b")]  # fmt: skip
    kinds = [(type(step), getattr(step, "source", getattr(step, "side", None))) for step in drawn(*records).steps]
    assert kinds == [(Arrow, RIGHT), (Note, LEFT), (Arrow, LEFT), (Note, RIGHT)]


def test_a_third_station_is_noted_at_the_port_that_receives_it() -> None:
    found = drawn(received(1, OTHERS), received(2, OTHERS), received(3, OTHERS))
    hears = "receives from 02:00:00:00:00:0c, whose sending is not in these logs: PFC 5, not willing"
    assert notes(found, RIGHT) == [hears]
    assert folds(found) == ["… 2 more of the same from 02:00:00:00:00:0c"]


def test_a_frame_that_comes_twice_is_reported() -> None:
    found = drawn(sent(0, THREE), received(1, THREE), received(2, THREE))
    assert len(arrows(found)) == 1
    assert notes(found, RIGHT)[0].startswith("receives from 02:00:00:00:00:0a, whose sending is not in these logs: ")


def test_ports_of_different_links_are_noticed() -> None:
    remark = "no frame of one port arrived at the other: are they the two ends of one link?"
    assert drawn(sent(0, THREE), received(1, OTHERS)).remarks == (remark,)
    assert drawn(sent(0, THREE)).remarks == ()
    assert drawn(sent(0, THREE), received(1, THREE)).remarks == ()


def test_a_frame_that_is_refused_is_reported() -> None:
    found = drawn(sent(0, THREE[:20]), received(1, THREE[:20]))
    assert arrows(found)[0][1][0].startswith("not LLDP as it should be: ")
    assert notes(found, RIGHT)[0].startswith("refuses a frame: ")


def test_an_event_of_another_kind_is_reported_with_its_values() -> None:
    assert notes(drawn({"t_ns": 1, "what": "link_down", "port": "a", "why": "carrier"}), LEFT) == [
        "link down, why carrier"
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    list(zip(
        [record(event) for event, _ in LINES],
        [
            ["PFC 3,4, w"],
            ["CN 3,4, w"],
            ["ETS 0:70 1:30 2:strict / 00011002, w"],
            ["ETS off, w"],
            ["APP 4:tcp/3260, w"],
            ["TC 8"],
            ["headroom can be measured, w"],
            ["LLR on, CBFC off, UE 1, w"],
            ["8 VCs, lossless 3,4, 9 credits, w"],
            ["pending: PFC"],
            [],
            [],
            ["new neighbour 02:00:00:00:00:0b port eth0"],
            ["neighbour 02:00:00:00:00:0b port eth0 is gone: its TTL is over"],
            ["DCBX is off: 2 neighbours are on the link"],
            ["the peer speaks the draft format"],
            ["no longer a peer of the other format"],
        ],
        strict=True,
    )),
)  # fmt: skip
def test_each_event_has_its_text(line: dict[str, Any], said: list[str]) -> None:
    assert notes(drawn(line | {"port": "a"}), LEFT) == said


def test_what_only_the_remote_end_changed_is_not_repeated_at_this_one() -> None:
    line = record(LINES[0][0]) | {"port": "a"}
    assert len(notes(drawn(line, line | {"t_ns": 9, "remote": [3]}), LEFT)) == 1
    more = notes(drawn(line, line | {"t_ns": 9, "defended": [4], "remote": [3]}), LEFT)
    assert more[1:] == ["PFC defends 4"]


def test_an_arrow_is_labelled_with_all_six_tlvs() -> None:
    full = octets(
        DcbxTlvs(applications=ApplicationPriority((AppEntry(3, Selector.TCP, 1),)), pfc=Pfc(1, cap=2, headroom=True))
    )
    (says,) = (says for _, says, _ in arrows(drawn(sent(0, full))))
    assert says == ("PFC 0, on 2 at most, not willing, headroom", "APP 3:tcp/1")


# What is no log

WHOLE = "and has to be a time in whole nanoseconds"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["{"], "line 1 is not JSON: '{'"),
        (['{"t_ns": 1, "what": "x", "port": "a"}', ""], "line 2 is not JSON: ''"),
        (["[1]"], "line 1: '[1]' is not a line of a DCBX log, which is an object"),
        (['{"what": "x", "port": "a"}'], f"line 1: t_ns is None, {WHOLE}"),
        (['{"t_ns": true, "what": "x", "port": "a"}'], f"line 1: t_ns is True, {WHOLE}"),
        (['{"t_ns": -1, "what": "x", "port": "a"}'], f"line 1: t_ns is -1, {WHOLE}"),
        (['{"t_ns": 1, "port": "a"}'], "line 1: what is None, and has to be text"),
        (['{"t_ns": 1, "what": "x", "port": 7}'], "line 1: port is 7, and has to be text"),
    ],
)  # fmt: skip
def test_what_is_not_a_line_of_a_log_is_named(lines: list[str], message: str) -> None:
    with pytest.raises(LadderError) as error:
        list(read(lines))
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ladder([], "a", "b"), "no port a in the log; the log is empty"),
        (lambda: ladder([nothing(0, "b"), nothing(0, "c")], "a", "b"), "no port a in the log; there are b, c"),
        (lambda: ladder([nothing(0, "a")], "a", "b"), "no port b in the log; there are a"),
        (
            lambda: ladder([nothing(0, "a")], "a", "a"),
            "a ladder has two ports, and both are a; give the two ends of a link",
        ),
        (
            lambda: drawn({"t_ns": 7, "what": "pfc_changed", "port": "a"}),
            "a line 'pfc_changed' of a at 7 ns is not as Xoff writes it",
        ),
    ],
)
def test_logs_that_cannot_be_drawn(make: Callable[[], Ladder], message: str) -> None:
    with pytest.raises(LadderError) as error:
        make()
    assert str(error.value) == message


# Any log at all


def check_text(found: Ladder) -> None:
    lines = as_text(found).splitlines()
    assert max(map(len, lines)) <= WIDTH
    times = [float(match[1]) for line in lines[1:] if (match := re.match(r" *([0-9]+\.[0-9]{6}) ", line))]
    assert times == sorted(times)
    assert [step.t_ns for step in found.steps] == sorted(step.t_ns for step in found.steps)
    rows = [line for line in lines if re.search("[│├]", line) and re.search("[│┤]$", line)]
    assert len({(re.search("[│├]", line).start(), len(line)) for line in rows}) == 1  # type: ignore[union-attr]


def check_svg(found: Ladder) -> None:
    """Check that it is XML, that all of it is in the picture, and that no text is over another."""
    root = ElementTree.fromstring(as_svg(found))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    rows: dict[float, list[tuple[float, float]]] = {}
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        x, y, size = float(text.attrib["x"]), float(text.attrib["y"]), len(text.text or "") * COLUMN
        start = x - size * {"start": 0, "middle": 0.5, "end": 1}[text.attrib.get("text-anchor", "start")]
        assert start >= 0
        assert start + size <= width
        assert ROW / 2 <= y <= height
        rows.setdefault(y, []).append((start, start + size))
    for spans in rows.values():
        spans.sort()
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    heights = sorted(rows)
    assert all(low + ROW <= high + 1e-6 for low, high in pairwise(heights))


def test_the_longest_names_and_times_keep_apart() -> None:
    names = "h" * 300, "s" * 300
    log = [nothing(at, name) for name in names for at in (0, 2**63 - 1)] + [sent(2**63 - 1, THREE, names[1])]
    check_text(ladder(log, *names))
    check_svg(ladder(log, *names))
    heads = as_text(ladder(log, *names)).splitlines()[1]
    assert re.fullmatch(" +h+… +s+…", heads)


frames = st.sampled_from([THREE, FOUR, OTHERS, GOODBYE, THREE[:30], DRAFTS])
times = st.integers(0, 5) | st.integers(0, 40 * S) | st.integers(0, 2**63 - 1)
texts = st.text(max_size=30) | st.text("0123456789 é\n<&", max_size=300)


@st.composite
def lines(draw: st.DrawFn, names: tuple[str, str]) -> dict[str, Any]:
    """Draw lines as `show` makes them, or something that an agent added."""
    port, at = draw(st.sampled_from(names)), draw(times)
    direction: Direction = draw(st.sampled_from(["sent", "received"]))
    made = draw(
        st.builds(lambda frame: frame_record(frame, PUBLISHED, direction, at), frames)
        | st.sampled_from([record(event) for event, _ in LINES])
        | st.builds(lambda what, why: {"what": what, "why": why}, texts, texts)
    )
    return made | {"t_ns": at, "port": port}


@pytest.mark.slow
@settings(max_examples=200)
@given(st.data(), st.tuples(texts, texts).filter(lambda names: names[0] != names[1]))
def test_any_sequence_of_events_makes_a_diagram(data: st.DataObject, names: tuple[str, str]) -> None:
    log = data.draw(st.lists(lines(names), max_size=40)) + [nothing(0, name) for name in names]
    found = ladder(log, *names)
    check_text(found)
    check_svg(found)
    frames_sent = sum(line["what"] == "frame" and line["direction"] == "sent" for line in log)
    counts = [int(n) for said in folds(found) for n in re.findall(r"(?:… |; )([0-9]+) ", said)]
    assert len(arrows(found)) <= frames_sent
    assert frames_sent <= len(arrows(found)) + sum(counts)


fates = st.lists(st.lists(st.integers(0, 5 * S), max_size=2), min_size=1, max_size=8)
actions = st.tuples(st.integers(0, 40 * S), st.sampled_from(["start", "stop", "down", "3", "4"]), st.sampled_from("ab"))


def log_of(fates: list[list[int]], steps: list[tuple[int, str, str]]) -> Log:
    """Draw the log of two ports on a bad cable."""
    link, log = logged(("a", DcbxSettings(pfc=PfcAdmin(8, willing=True))), ("b", DcbxSettings(pfc=PfcAdmin(24))))
    count = iter(range(10**9))
    link.fate = lambda name: fates[next(count) % len(fates)]
    link.a.start(0)
    link.b.start(0)
    for wait, what, name in steps:
        link.run_until(link.now + wait)
        port = link.port(name)
        match what:
            case "start":
                port.start(link.now)
            case "stop":
                port.stop(link.now)
            case "down":
                port.link_down(link.now)
            case _:
                port.configure(DcbxSettings(pfc=PfcAdmin(1 << int(what), willing=name == "a")), link.now)
    link.run_until(link.now + 60 * S)
    return log


@settings(max_examples=50, deadline=None)
@given(fates, st.lists(actions, max_size=8))
def test_any_run_makes_a_diagram_that_ends_with_what_the_ports_say(
    fates: list[list[int]], steps: list[tuple[int, str, str]]
) -> None:
    log = log_of(fates, steps)
    found = ladder(log, "a", "b")
    check_text(found)
    check_svg(found)
    for name, side in zip("ab", Side, strict=True):
        own = [line for line in log if line["port"] == name and line["what"] == "pfc_changed"]
        last = next(said for said in reversed(notes(found, side)) if said.startswith("PFC ") and "defends" not in said)
        enabled = ",".join(map(str, own[-1]["enabled"]))
        assert last.startswith(f"PFC {enabled}, ")


garbage = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: st.lists(
    inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=5)  # fmt: skip


@given(st.data())
def test_a_broken_line_is_an_error_and_nothing_worse(data: st.DataObject) -> None:
    line = data.draw(lines(("a", "b")))
    name = data.draw(st.sampled_from(sorted(line)))
    line[name] = data.draw(garbage)
    try:
        found = ladder([nothing(0, "a"), nothing(0, "b"), line], "a", "b")
    except LadderError:
        return
    check_text(found)
    check_svg(found)


# The command


@pytest.fixture
def result(tmp_path: Path) -> Path:
    write(tmp_path)
    return tmp_path / "symmetric"


def complaint(capsys: pytest.CaptureFixture[str], result: Path, *arguments: object) -> str:
    assert main(["export", str(result), "--ladder", *map(str, arguments)]) == 2
    return capsys.readouterr().err.strip()


@pytest.mark.parametrize("number", [10**9, 2**63])
def test_a_number_in_place_of_a_flag_makes_no_text_of_that_length(number: int) -> None:
    log = [json.loads(json.dumps(line)) for line in [*symmetric(), *asymmetric()]]
    flags = 0
    for line in log:
        for tlv in line.get("tlvs", {}).values():
            for name, value in tlv.items() if isinstance(tlv, dict) else ():
                if isinstance(value, bool):
                    tlv[name], flags = number, flags + 1
    assert flags
    assert len(as_text(ladder(log, "host", "bridge"))) < 50_000


def test_the_command_writes_a_picture(result: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(result), "--ladder", "host", "bridge", "-o", str(result / "ladder.svg")]) == 0
    assert (result / "ladder.svg").read_text(encoding="utf-8") == as_svg(ladder(symmetric(), "host", "bridge"))
    assert capsys.readouterr().out == ""


def test_the_command_names_what_is_missing(result: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = result / "dcbx.jsonl"
    said = complaint(capsys, result, "host", "h7")
    assert said == f"xoff: {log}: no port h7 in the log; there are bridge, host"
    said = complaint(capsys, result / "no", "host", "bridge")
    assert said == f"xoff: there is no result folder {result / 'no'}; xoff run makes one, in results/"
    said = complaint(capsys, result.parent, "host", "bridge")
    assert said == f"xoff: {result.parent} has no dcbx.jsonl: nothing spoke DCBX in that run"
    said = complaint(capsys, result, "host", "bridge", "-o", result / "no" / "x.svg")
    assert said == f"xoff: {result / 'no' / 'x.svg'}: No such file or directory; --out names another place"


def test_a_log_that_was_cut_short_is_drawn_as_far_as_it_goes(result: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = result / "dcbx.jsonl"
    log.write_text(log.read_text() + '{"t_ns": 1')
    assert main(["export", str(result), "--ladder", "host", "bridge"]) == 0
    seen = capsys.readouterr()
    assert seen.out == as_text(ladder(symmetric(), "host", "bridge"))
    assert seen.err.strip() == f"xoff: {log}: its last line is cut short, and left out"
    log.write_text("nonsense\n")
    assert complaint(capsys, result, "host", "bridge") == f"xoff: {log}: line 1 is not JSON: 'nonsense'"
