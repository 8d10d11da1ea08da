"""Frames on cables: which frame is which, where it is at a time, and that each one that left arrives or is named."""

from __future__ import annotations

import json
import re
import struct
import tarfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.frames import Mac
from testbed.frames.mac_control import PauseFrame, PfcFrame
from testbed.lab.results.folder import read
from testbed.report.pages.page import report
from testbed.report.replay.hops import Arrival, Direction, Drop, Fate, Hop, directions, hops_of
from testbed.report.replay.identity import Identity, Kind, identify
from testbed.report.replay.window import Replays, chosen, packed, replays
from testbed.report.timeline.tracks import tracks
from tests.report_folders import DELAY_NS, HOSTILE, LINE_NS, MS, PFC_LINE_NS, captured, datagram, network, small
from tools.readme_pictures import RUN

ROOT = Path(__file__).parents[3]
MAC = Mac(bytes([2, 0, 0, 0, 0, 1]))
KINDS = {"h1": "host", "s1": "switch", "s2": "switch", "h2": "host"}
CHAIN = directions(
    {"ends": [f"{one}-{other}", f"{other}-{one}"], "nodes": [one, other], "lab_rate_bps": 10**9, "lab_delay_ns": 1000}
    for one, other in (("h1", "s1"), ("s1", "s2"), ("s2", "h2"))
)
"""h1, s1, s2 and h2; the directions towards h2 are 0, 2 and 4."""


def frame(number: int, kind: Kind = Kind.DATA, key: bytes | None = None) -> Identity:
    return Identity(kind, str(number).encode() if key is None else key, 3, "10.0.0.1", "10.0.0.2")


def found_in(folder: Path) -> Replays:
    result = read(folder)
    return replays(result, tracks(result))


def in_vlan(octets: bytes, priority: int) -> bytes:
    return octets[:12] + struct.pack("!HH", 0x8100, priority << 13 | 5) + octets[12:]


def in_tunnel(protocol: int, content: bytes, segments: int = 2) -> bytes:
    routing = bytes([protocol, 2 * segments, 4, segments - 1, segments - 1, 0, 0, 0]) + bytes(16 * segments)
    ends = bytes(15) + b"\x11" + bytes(15) + b"\x22"
    head = struct.pack("!IHBB", 6 << 28 | 0x60 << 20, len(routing + content), 43, 64)
    return bytes([2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8]) + b"\x86\xdd" + head + ends + routing + content


def test_a_datagram_keeps_its_key_where_addresses_tags_and_marks_change() -> None:
    sent = datagram(1, 3, 7)
    routed = bytes(12) + sent[12:15] + bytes([sent[15] | 3]) + sent[16:22] + bytes([63]) + sent[23:]
    first, later = identify(sent), identify(in_vlan(routed, 6))
    assert (first.kind, first.source, first.target, first.priority) == (Kind.DATA, "10.0.0.1", "10.0.0.3", 3)
    assert later.key == first.key and later.priority == 6, "the tag has the priority"
    assert identify(datagram(1, 3, 8)).key != first.key
    assert identify(in_tunnel(4, sent[14:])).key == first.key, "also in a tunnel of segment routing"
    assert identify(in_tunnel(143, sent)).key == first.key, "and as a whole frame"


def test_pfc_frames_are_known_by_what_they_ask_for_and_in_a_tunnel_by_where_they_come_from() -> None:
    xoff, xon = PfcFrame.xoff(MAC, [3, 4], 100).encode(), PfcFrame.xon(MAC, [3]).encode()
    stops, resumes = identify(xoff), identify(xon)
    assert (stops.kind, stops.priority, stops.key) == (Kind.XOFF, 3, b""), "no switch passes it on"
    assert stops.words == "XOFF for priority 3, 100 quanta; XOFF for priority 4, 100 quanta"
    assert (resumes.kind, resumes.words) == (Kind.XON, "XON for priority 3")
    assert identify(PauseFrame(MAC, 9).encode()).words == "PAUSE of the whole link, 9 quanta"
    tunnelled = identify(in_tunnel(143, xoff))
    assert (tunnelled.kind, tunnelled.priority) == (Kind.TUNNEL_XOFF, 3) and tunnelled.key
    assert identify(in_tunnel(143, xoff, segments=1)).key == tunnelled.key, "a segment routing header may go on the way"
    assert identify(in_tunnel(143, xon)).kind is Kind.TUNNEL_XON
    assert identify(in_tunnel(4, datagram(1, 3, 7)[14:])[:120]).is_cut, "too little to know it again"


@given(st.binary(max_size=200))
def test_any_octets_have_an_identity(octets: bytes) -> None:
    identify(octets)
    identify(bytes(12) + b"\x86\xdd" + octets)
    identify(bytes(12) + b"\x08\x00" + octets)
    identify(in_tunnel(143, octets))


def test_a_frame_is_on_a_cable_from_its_first_bit_to_its_last_and_moves_evenly() -> None:
    (hop,) = hops_of([Arrival(11_000, 0, 1514, frame(1))], CHAIN, KINDS).hops
    assert (hop.leaves_ns, hop.arrives_ns, hop.done_ns) == (10_000, 11_000, 23_304), "1538 octets take 12304 ns"
    assert hop.part(9_999) is None and hop.part(10_000) == 0 and hop.part(16_652) == 0.5 and hop.part(23_304) is None
    (short,) = hops_of([Arrival(11_000, 0, 42, frame(1))], CHAIN, KINDS).hops
    assert short.done_ns == 11_000 + 84 * 8, "the shortest frame takes 84 octets of the line"
    (unknown,) = hops_of([Arrival(5, 0, 42, frame(1))], [Direction("a", "b", "h1", "s1", 0, 0)], KINDS).hops
    assert unknown.part(5) == 0, "without a rate it is there for a nanosecond"


@pytest.mark.parametrize(
    ("forwarding", "t_ns"), [("", 11_000), ("cut-through", 11_576), ("store-and-forward", 23_304), ("<b>", 11_000)]
)
def test_a_node_that_waits_for_more_of_a_frame_has_it_later_and_the_frame_moves_as_before(
    forwarding: str, t_ns: int
) -> None:
    cable = {"ends": ["h1-s1", "s1-h1"], "nodes": ["h1", "s1"], "lab_rate_bps": 10**9, "lab_delay_ns": 1000}
    ways = directions([cable], {"s1-h1": {"forwarding": forwarding}})
    (hop,) = hops_of([Arrival(t_ns, 0, 1514, frame(1))], ways, KINDS).hops
    assert (hop.leaves_ns, hop.arrives_ns, hop.done_ns) == (10_000, t_ns, max(23_304, t_ns + 1))


def test_a_frame_waits_from_its_last_bit_until_it_leaves_the_next_port() -> None:
    arrivals = [
        Arrival(1_000, 0, 1514, frame(1)),
        Arrival(50_000, 2, 1514, frame(1)),
        Arrival(51_000, 4, 1514, frame(1)),
    ]
    first, second, third = hops_of(arrivals, CHAIN, KINDS).hops
    assert (first.fate, second.fate, third.fate) == (Fate.GOES_ON, Fate.GOES_ON, Fate.ARRIVED)
    assert (first.ready_ns, second.ready_ns) == (None, first.done_ns)
    assert third.ready_ns is None, "it left with its first bit, and waited nowhere"


def test_frames_that_are_alike_are_told_apart_by_their_order() -> None:
    alike = frame(0, key=b"same")
    arrivals = [Arrival(t_ns, way, 100, alike) for t_ns, way in ((1_000, 0), (9_000, 0), (20_000, 2), (30_000, 2))]
    hops = hops_of(arrivals, CHAIN, KINDS).hops
    assert [hop.ready_ns for hop in hops] == [None, None, hops[0].done_ns, hops[1].done_ns]


def test_a_frame_that_goes_no_further_is_dropped_lost_or_waits() -> None:
    arrivals = [Arrival(1_000 * number, 0, 500, frame(number)) for number in range(1, 6)]
    arrivals += [Arrival(1_000 * number + 50_000, 2, 500, frame(number)) for number in (1, 4)]
    arrivals += [Arrival(1_000 * number + 90_000, 4, 500, frame(number)) for number in (1, 4)]
    made = hops_of(arrivals, CHAIN, KINDS, [Drop(2_000, "s1-h1", 500, "threshold"), Drop(9, "s1-h1", 500, "early")])
    fates = {hop.identity.key: (hop.fate, hop.reason) for hop in made.hops if hop.direction == 0}
    assert fates == {
        b"1": (Fate.GOES_ON, ""), b"2": (Fate.DROPPED, "threshold"), b"3": (Fate.LOST, ""), b"4": (Fate.GOES_ON, ""),
        b"5": (Fate.WAITS, ""),
    }  # fmt: skip
    assert [hop.identity.key for hop in made.lost()] == [b"3"]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30_000), st.integers(0, 30_000)), max_size=30))
def test_each_frame_that_reached_a_node_goes_on_once_or_has_an_end(rows: list[tuple[int, int, int]]) -> None:
    arrivals = []
    for number, (key, early, late) in enumerate(rows):
        who = frame(number, key=bytes([key]))
        arrivals += [Arrival(1_000 + early, 0, 100, who), Arrival(3_000 + early + late, 2, 100, who)][: 1 + number % 2]
    made = hops_of(arrivals, CHAIN, KINDS)
    first, second = ([hop for hop in made.hops if hop.direction == way] for way in (0, 2))
    assert len(made.hops) == len(arrivals)
    assert sum(hop.fate is Fate.GOES_ON for hop in first) == len(second), "what left s1 had reached it"
    assert all(hop.fate in (Fate.GOES_ON, Fate.LOST, Fate.WAITS) for hop in first)


def test_a_window_is_around_what_matters_or_where_frames_are_densest() -> None:
    times = [0, 100, 200, 201, 202, 300, 400, 500]
    assert chosen(times, None, 3) == (2, 4)
    assert chosen(times, 300, 4) == (4, 7), "a quarter of it before"
    assert chosen(times, 10**9, 4) == (4, 7) and chosen(times, -5, 4) == (0, 3)
    assert chosen(times, 200, 99) == (0, 7)


def test_the_frames_of_a_result_are_conserved_and_what_is_lost_is_named(tmp_path: Path) -> None:
    (replay,) = found_in(captured(tmp_path / "one")).found
    counts = Counter((replay.directions[hop.direction].source, hop.fate) for hop in replay.hops)
    assert counts == {
        ("h1-eth0", Fate.GOES_ON): 10, ("h2-eth0", Fate.GOES_ON): 8, ("h2-eth0", Fate.DROPPED): 1,
        ("h2-eth0", Fate.LOST): 1, ("s1-eth3", Fate.ARRIVED): 18, ("s1-eth1", Fate.ARRIVED): 2,
    }  # fmt: skip
    assert replay.flows == [("h1", "h3", 3), ("h2", "h3", 3)], "addresses have the names of hosts"
    (xoff,) = [hop for hop in replay.hops if hop.identity.kind is Kind.XOFF]
    assert (xoff.leaves_ns, xoff.done_ns) == (112 * MS, 112 * MS + DELAY_NS + PFC_LINE_NS)
    assert replay.moment() == (xoff.leaves_ns + xoff.done_ns) // 2
    waits = [hop.leaves_ns - hop.ready_ns for hop in replay.hops if hop.ready_ns is not None]
    assert max(waits) == 5 * LINE_NS and len(waits) == 15


def test_no_line_has_two_frames_at_once(tmp_path: Path) -> None:
    (replay,) = found_in(captured(tmp_path / "one")).found
    free: dict[int, int] = {}
    for hop in replay.hops:
        assert hop.leaves_ns >= free.get(hop.direction, 0)
        free[hop.direction] = hop.leaves_ns + hop.done_ns - hop.arrives_ns


def test_more_frames_than_are_shown_are_counted(tmp_path: Path) -> None:
    folder = read(captured(tmp_path / "one"))
    (replay,) = replays(folder, tracks(folder), most=12).found
    assert (replay.captured, replay.inside, replay.left_out) == (40, 12, 28)
    assert all(hop.done_ns >= replay.start_ns for hop in replay.hops)
    descriptions, stream = packed([replay])
    assert descriptions[0]["rows"] == len(replay.hops) and len(stream) < 400


def test_two_reports_of_a_result_are_the_same_to_the_octet_and_a_page_says_what_is_left_out(tmp_path: Path) -> None:
    folder = captured(tmp_path / "one")
    page = report([folder])
    assert page == report([folder])
    assert "All 40 captured frames, 100.005us to 120.9268us. 1 dropped by buffers. 1 in no later capture" in page
    assert 'data-step="pauses next"' in page and 'id="frames-0-1"' in page
    plain = report([small(tmp_path / "two")])
    assert "Frames on cables were not captured; xoff run NAME --capture captures them." in plain
    assert 'data-step="all' not in plain


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda octets: b"no capture", "captures/1/h1-eth0-to-s1-eth1.pcapng: it begins with 6e6f2063"),
        (lambda octets: octets[:-40], "captures/1/h1-eth0-to-s1-eth1.pcapng: it ends where"),
        (
            lambda octets: _at_time(octets, 1 << 62),
            "a frame has the time 4611686018427387904 ns, and no run has",
        ),
    ],
)
def test_a_bad_capture_is_one_message_and_the_rest_of_the_report_is_there(
    tmp_path: Path, change: Callable[[bytes], bytes], problem: str
) -> None:
    folder = captured(tmp_path / "one")
    file = folder / "captures" / "1" / "h1-eth0-to-s1-eth1.pcapng"
    file.write_bytes(change(file.read_bytes()))
    assert problem in found_in(folder).problem
    page = report([folder])
    assert page.count("The frames on cables are not shown") == 1 and 'data-step="all' not in page and "10Mb/s" in page


def _at_time(octets: bytes, t_ns: int) -> bytes:
    """Return a capture whose first frame is at another time."""
    known = struct.pack("<II", 0, 100_005_000)
    return octets.replace(known, struct.pack("<II", t_ns >> 32, t_ns & 0xFFFF_FFFF), 1)


def test_captures_of_no_network_links_and_unknown_interfaces_are_refused_or_left_out(tmp_path: Path) -> None:
    folder = captured(tmp_path / "one")
    (folder / "captures" / "7").mkdir()
    assert found_in(folder).problem == "captures/7 is of no network in networks.jsonl"
    (folder / "captures" / "7").rmdir()
    link = folder / "captures" / "1" / "z.pcapng"
    link.symlink_to("/etc/passwd")
    assert "link" in found_in(folder).problem
    link.unlink()
    marked = captured(tmp_path / "two", name=lambda name: f"{name} {HOSTILE}")
    assert found_in(marked).found == [] and found_in(marked).problem == ""
    assert HOSTILE not in report([marked])


def test_a_large_network_has_a_note_and_no_frames(tmp_path: Path) -> None:
    folder = captured(tmp_path / "one")
    lines = [network(10 * MS, "large", hosts=30), {"t_ns": 500 * MS, "network": "ended"}]
    (folder / "networks.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    assert found_in(folder).notes == ["large: 31 nodes are too many to show frames between; at most 24 are."]


def test_hops_have_no_rate_or_delay_that_a_file_made_up() -> None:
    cable = {"ends": ["a", "b"], "nodes": ["h1", "s1"], "lab_rate_bps": -1, "lab_delay_ns": "x"}
    assert [(one.rate_bps, one.delay_ns) for one in directions([cable])] == [(0, 0)] * 2
    assert isinstance(hops_of([], directions([cable]), KINDS).hops, list)
    assert Hop(0, 60, frame(1), 0, 0, 1).part(0) == 0


def test_moments_that_the_page_about_pauses_links_to_show_what_it_says(tmp_path: Path) -> None:
    with tarfile.open(ROOT / RUN) as archive:
        archive.extractall(tmp_path, filter="data")
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    replay, *_ = found_in(folder).found
    linked = re.findall(r"replayed.html#t=(\d+)us", (ROOT / "docs/concepts/pause.md").read_text(encoding="utf-8"))
    before, during = (int(time) * MS for time in linked)  # the lab is a thousand times slower
    pauses = [hop for hop in replay.hops if hop.identity.kind in (Kind.XOFF, Kind.XON)]
    assert before < pauses[0].leaves_ns < pauses[1].done_ns < during < pauses[2].leaves_ns
    assert [hop.identity.kind for hop in pauses[:3]] == [Kind.XOFF, Kind.XOFF, Kind.XON]

    def waiting(t_ns: int) -> int:
        return sum(hop.ready_ns is not None and hop.ready_ns <= t_ns < hop.leaves_ns for hop in replay.hops)

    assert waiting(70 * MS) < waiting(during) < waiting(before)
