"""Damaged input for every decoder: of frames, users' files, what agents and their callers send, a run's stream.

    python bench/fuzz.py                            ten million inputs, shared by all decoders
    python bench/fuzz.py --total 1e8                more of them
    python bench/fuzz.py --only ipv6 --count 1e6    one decoder, a million

Whatever the octets are, a decoder reads them or raises an XoffError, within 50 ms of CPU, and keeps nothing of them.
What was read is written again and read as the same. The same seed gives the same inputs. A short run of each is in the
unit tests. LLDP and DCBX have mutations of their own, `fuzz_lldp`.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any

from testbed.errors import XoffError
from testbed.frames import Mac, headroom, icmpv6, ipv6, mac_control, srh
from testbed.frames.dcbx.values import AppEntry, DcbxVersion, Selector
from testbed.frames.link import credits
from testbed.linux.netlink import link_state
from testbed.linux.netlink.dcb import NicSettings, SavedSettings
from testbed.subjects.dcbx import config, show
from testbed.subjects.dcbx.daemon import control_socket, saved_settings
from testbed.subjects.link.esun import header as esun
from testbed.subjects.srv6.protocol import advertisement
from testbed.subjects.srv6.protocol.sid import CodePoints
from testbed.switch.headroom.measurement import Measurer
from testbed.switch.trimming import cut as trimming_cut
from tests import fuzz_files, fuzz_lldp
from tests.fuzz_records import record_seeds

TOTAL = 10**7
MOST_CPU_S = 0.050
MOST_GROWTH_KIB = 20_000
"""The most that a run may add to the memory of the process after its first tenth, however long it is."""
_TRIES = 5
"""A busy machine may charge one run with more than it took."""

A, B = IPv6Address("fd00:1::a"), IPv6Address("fd00:2::b")
MAC = Mac.parse("02:00:00:00:00:0a")
_KEY = b"key"
_NAMES = ("eth0", "p1.1")
_EDGES = (0, 1, 2, 4, 6, 7, 8, 15, 16, 31, 32, 43, 58, 60, 63, 64, 127, 128, 129, 135, 254, 255)


class FuzzError(Exception):
    """A decoder that does what it may not."""


@dataclass(frozen=True)
class Decoder:
    """`inputs` are endless; `read` decodes one, and raises XoffError or returns a word on what it was."""

    inputs: Callable[[random.Random], Iterator[bytes]]
    start: Callable[[], Callable[[bytes], str]]


# Inputs


def damaged(seeds: Sequence[bytes], dice: random.Random) -> Iterator[bytes]:
    """Octets made from those of seeds, some from nothing."""
    while True:
        if dice.random() < 0.02:
            yield dice.randbytes(dice.randrange(200))
            continue
        octets = bytearray(dice.choice(seeds))
        for _ in range(dice.choice((0, 1, 1, 2, 3, 8))):
            _damage(octets, seeds, dice)
        yield bytes(octets[:9000])


def _damage(octets: bytearray, seeds: Sequence[bytes], dice: random.Random) -> None:
    place, size = dice.randrange(len(octets) + 1), dice.choice((1, 1, 2, 4, 8, 16, 40))
    match dice.randrange(7):
        case 0 if place < len(octets):
            octets[place] ^= 1 << dice.randrange(8)
        case 1 | 2 if place < len(octets):
            octets[place] = dice.choice(_EDGES)
        case 3:
            octets[place:place] = dice.randbytes(size)
        case 4:
            del octets[place : place + size]
        case 5:
            octets[place:place] = octets[place : place + 8 * size] * dice.choice((1, 1, 2, 20))
        case _:
            other = dice.choice(seeds)
            start = dice.randrange(len(other) + 1)
            octets[place : place + size] = other[start : start + 8 * size]


def of(*seeds: bytes) -> Callable[[random.Random], Iterator[bytes]]:
    return lambda dice: damaged(seeds, dice)


def rewritten(texts: Sequence[str], words: Sequence[str]) -> Callable[[random.Random], Iterator[bytes]]:
    """Text with lines, words and characters exchanged; sometimes octets that are no text."""

    def inputs(dice: random.Random) -> Iterator[bytes]:
        seeds = [text.encode() for text in texts]
        while True:
            lines = dice.choice(texts).splitlines()
            for _ in range(dice.choice((1, 1, 2, 4))):
                place = dice.randrange(len(lines) + 1)
                match dice.randrange(5):
                    case 0:
                        lines.insert(place, dice.choice(dice.choice(texts).splitlines() or [""]))
                    case 1:
                        del lines[place : place + 1]
                    case 2 if place < len(lines):
                        name, _, _ = lines[place].partition("=")
                        lines[place] = f"{name}= {dice.choice(words)}"
                    case 3 if place < len(lines):
                        pieces = lines[place].split()
                        pieces[dice.randrange(len(pieces) + 1) :][:1] = [dice.choice(words)]
                        lines[place] = " ".join([*pieces, dice.choice(words)])
                    case _:
                        lines.insert(place, f"{dice.choice(words)} = {dice.choice(words)}")
            octets = bytearray("\n".join(lines).encode())
            if dice.random() < 0.2:
                _damage(octets, seeds, dice)
            yield bytes(octets)

    return inputs


def rewritten_lines(texts: Sequence[str]) -> Callable[[random.Random], Iterator[bytes]]:
    """Text of lines of JSON: lines left out, doubled and moved, values exchanged; sometimes damaged octets."""

    def inputs(dice: random.Random) -> Iterator[bytes]:
        seeds = [text.encode() for text in texts]
        while True:
            lines = dice.choice(texts).splitlines()
            for _ in range(dice.choice((1, 1, 2, 4))):
                place = dice.randrange(len(lines))
                match dice.randrange(4):
                    case 0:
                        lines.insert(dice.randrange(len(lines) + 1), lines[place])
                    case 1 if len(lines) > 1:
                        del lines[place]
                    case _:
                        lines[place] = _exchanged(lines[place], dice)
            octets = bytearray("\n".join(lines).encode())
            if dice.random() < 0.1:
                _damage(octets, seeds, dice)
            yield bytes(octets)

    return inputs


def _exchanged(line: str, dice: random.Random) -> str:
    """A line of JSON with one of its values replaced."""
    value: Any = json.loads(line)
    inner = value
    while True:
        place = dice.choice(list(inner)) if isinstance(inner, dict) else dice.randrange(len(inner))
        if not (isinstance(inner[place], dict | list) and inner[place] and dice.random() < 0.7):
            break
        inner = inner[place]
    inner[place] = dice.choice(
        (None, True, -1, 0, 1 << 63, 1 << 64, 1.5, "", "x" * 300, "\x1b[31m", [], {}, [[3]], "a", "b")
    )
    return json.dumps(value)


def _frames_of_lldp(dice: random.Random) -> Iterator[bytes]:
    mutator = fuzz_lldp.Mutator(fuzz_lldp.load_corpus(), dice.getrandbits(32))
    while True:
        yield mutator.frame()


# Decoders


def _same(read: object, again: object) -> None:
    if read != again:
        raise FuzzError(f"{read!r} was written and read as {again!r}")


def _lldp() -> Callable[[bytes], str]:
    target = fuzz_lldp.Target()

    def read(octets: bytes) -> str:
        before = target.outcomes["read"]
        target.try_frame(octets)
        return "read" if target.outcomes["read"] > before else "refused"

    return read


def _log_line(octets: bytes) -> str:
    for version in DcbxVersion:
        line = show.frame_record(octets, version, "received", 1)
        json.dumps(line)
    return "refused" if "refused" in line else "read"


def _mac_control(octets: bytes) -> str:
    frame = mac_control.parse(octets)
    _same(frame, mac_control.parse(frame.encode()))
    return type(frame).__name__


def _credits(octets: bytes) -> str:
    """Read octets as a CC_Update, as a carried ordered set, and as an ordered set."""
    try:
        if credits.extension_of(octets) == credits.COMPANY:
            used = credits.parse(octets)
            _same(used, credits.parse(used.encode()))
            return "CC_Update"
        source, update = credits.parse_carried(octets)
        _same((source, update), credits.parse_carried(credits.carried(source, update.encode())))
    except credits.CreditMessageError:
        update = credits.parse_set(octets[19:] or octets)
        _same(update, credits.parse_set(update.encode()))
    return "CF_Update"


def _esun(octets: bytes) -> str:
    found = esun.parse(octets)
    _same(found, esun.parse(found.encode()))
    return "tagged" if found.pcp is not None else "plain"


def _headroom(octets: bytes) -> str:
    """The frame as it is, and with the tag that it should have."""
    headroom.is_measurement(octets)
    try:
        frame = headroom.parse(octets, _KEY)
    except headroom.MeasurementFrameError as error:
        if error.reason is not headroom.MeasurementReason.WRONG_TAG:
            raise
        tagged = octets[: headroom.TAGGED]
        frame = headroom.parse(tagged + headroom._tag(tagged, _KEY), _KEY)
    _same(frame, headroom.parse(frame.encode(_KEY), _KEY))
    return type(frame).__name__


def _measurer() -> Callable[[bytes], str]:
    measurer, now = Measurer("eth0", MAC, b"seed", key=_KEY), 0
    measurer.announced(True, True, now)
    measurer.link(True, now)

    def read(octets: bytes) -> str:
        nonlocal now
        now += 1_000_000
        tagged = octets[: headroom.TAGGED]
        for frame in (octets, tagged + headroom._tag(tagged, _KEY)):
            measurer.receive(frame, now, now, now)
        if (deadline := measurer.deadline()) is not None and deadline <= now:
            measurer.poll(now)
        return str(measurer.status.phase)

    return read


def _rest(octets: bytes) -> str:
    """Trim a frame."""
    size = 64 + len(octets) % 200
    cut = trimming_cut.rest(octets, size, 48)
    if cut is None:
        return "refused"
    _same(len(cut), min(size, len(octets)))
    return "trimmed"


def _ipv6(octets: bytes) -> str:
    packet = ipv6.whole(octets)
    read = ipv6.Packet.parse(octets)
    _same(read, ipv6.Packet.parse(read.encode()))
    may = icmpv6.may_answer(packet)
    destination = read.destination
    for header in ipv6.headers(packet):
        if header.protocol in (ipv6.HOP_BY_HOP, ipv6.DESTINATION_OPTIONS):
            options = list(ipv6.parse_header(packet, header))
            ipv6.check_known(options, (ipv6.SLICE,))
            ipv6.find_slice(options)
            ipv6.encode_header(header.protocol, options)
        elif header.protocol == ipv6.ROUTING:
            routing = srh.Srh.parse(packet, header.start)
            list(srh.parse_tlvs(routing.tlvs))
            destination = routing.path[-1]
        elif header.protocol == ipv6.ICMPV6:
            icmpv6.parse(read.source, destination, packet[header.start :])
        if header.is_extension:
            ipv6.remove(bytearray(packet), header)
    if may:
        error = icmpv6.Error(icmpv6.ErrorType.PARAMETER_PROBLEM, 0, 4, packet)
        ipv6.whole(icmpv6.answer(A, error))
    return "whole"


def _srh(octets: bytes) -> str:
    header = srh.Srh.parse(octets)
    _same(header, srh.Srh.parse(header.encode()))
    tlvs = list(srh.parse_tlvs(header.tlvs))
    _same(tlvs, list(srh.parse_tlvs(srh.encode_tlvs(tlvs))))
    return f"{len(header.segments) > 0}"


def _icmpv6(octets: bytes) -> str:
    """Return the message with a correct checksum; else nearly nothing would get beyond that check."""
    message = octets[:2] + bytes(2) + octets[4:]
    if len(message) >= 4:
        message = icmpv6.with_checksum(A, B, message)
    found = icmpv6.parse(A, B, message)
    if isinstance(found, icmpv6.Echo):
        _same(found, icmpv6.parse(A, B, found.encode(A, B)))
        found.reply().encode(B, A)
    else:
        found.encode(A, B)
    return type(found).__name__


def _advertised(octets: bytes) -> str:
    """A segment identifier as a router reports it: two strings of octets, here with the length of the first before."""
    size = octets[0] if octets else 0
    advertisement.parse(octets[1 : 1 + size], octets[1 + size :], CodePoints())
    return "read"


def _settings(octets: bytes) -> str:
    try:
        text = octets.decode()
    except UnicodeDecodeError:
        return "no text"
    read = config.parse(text, "f")
    _same(read, config.parse(config.dump(read.settings, read.timers), "f"))
    return "read"


def _request(octets: bytes) -> str:
    return control_socket.read_request(octets) or "refused"


def _door() -> Callable[[bytes], str]:
    """The agent's socket with a caller that sends octets in two pieces, and may leave at once."""
    name, now = f"fuzz{os.getpid()}-{next(_numbers)}", 0
    claim = control_socket.Claim(name, control_socket.Access(os.getuid()))

    def read(octets: bytes) -> str:
        nonlocal now
        now += 1_000_000
        with control_socket.connect(name) as caller:
            caller.settimeout(0)
            for piece in (octets[: len(octets) // 2], octets[len(octets) // 2 :], b"\n"):
                with suppress(OSError):  # it has closed the connection, or takes no more
                    caller.send(piece)
                claim.serve(now, lambda request: {"interface": name, "request": request})
            if octets[:1] == b"x":
                return "left"
            with suppress(BlockingIOError, ConnectionResetError):
                return "error" if "error" in json.loads(caller.recv(1 << 16)) else "answered"
        return "no answer"

    return read


_numbers = itertools.count()


def _answer(octets: bytes) -> str:
    control_socket.read_answer(octets, _NAMES[0])
    return "read"


def _found(octets: bytes) -> str:
    read = saved_settings.decode(octets, 7)
    if read is not None:
        _same(read, saved_settings.decode(saved_settings.encode(read, 7), 7))
    return "read"


def _link(octets: bytes) -> str:
    """A message of the kernel; also these have lengths inside them."""
    return "none" if link_state._link(16, octets) is None else "read"


def _always(read: Callable[[bytes], str]) -> Callable[[], Callable[[bytes], str]]:
    return lambda: read


# Seeds


def _packets() -> list[bytes]:
    slice_header = ipv6.encode_header(ipv6.ROUTING, [ipv6.SliceOption(7).option()])
    tlvs = srh.encode_tlvs([srh.Tlv(5, bytes(6)), srh.Tlv(200, b"xyz")])
    route = srh.Srh.along([A, B, A], ipv6.ICMPV6, tlvs=tlvs)
    echo = icmpv6.Echo(icmpv6.EchoType.REQUEST, 1, 2, b"data").encode(A, A)
    inner = ipv6.Packet(A, B, 17, bytes(20)).encode()
    error = icmpv6.Error(icmpv6.ErrorType.TIME_EXCEEDED, 0, 0, inner).encode(A, B)
    pfc = mac_control.PfcFrame.xoff(MAC, [3, 5]).encode()
    encapsulated = srh.Srh.along([A, B], 143).encode() + pfc
    options = ipv6.encode_header(17, [ipv6.Option(0x3E, b"abc"), ipv6.Option(0xC2, bytes(4))])
    return [
        inner,
        ipv6.Packet(A, B, ipv6.HOP_BY_HOP, slice_header + route.encode() + echo).encode(),
        ipv6.Packet(A, B, ipv6.ROUTING, encapsulated).encode(),
        ipv6.Packet(A, B, ipv6.DESTINATION_OPTIONS, options + bytes(16)).encode(),
        ipv6.Packet(A, B, ipv6.ICMPV6, error).encode(),
    ]


def _credit_messages() -> list[bytes]:
    freed = credits.both([credits.Freed(3, 0x7FFF), credits.Freed(4, 1)]).encode()
    used = [credits.CcUpdate(MAC, first, tuple(range(first, first + 16))).encode() for first in (0, 16)]
    return [freed, credits.carried(MAC, freed), *used]


def _esun_frames() -> list[bytes]:
    return [esun.EsunFrame(MAC, MAC, esun.EsunHeader(3, 5, True, 0xBEEF), bytes(40), pcp).encode() for pcp in (None, 5)]


def _pages() -> list[str]:
    """The file of the docs, the same in pieces, and the draft's words."""
    page = (Path(__file__).parents[1] / "docs" / "dcbx.md").read_text()
    whole = page.partition("```toml\n")[2].partition("```")[0]
    plain = "\n".join(line.partition("  #")[0] for line in whole.splitlines() if line and not line.startswith("#"))
    draft = 'version = "draft"\n[ets]\nclasses = [0, 1, 0, 1, 0, 13, 14, "strict"]\nbandwidth = [30, 70]\n'
    draft += "[ets.recommend]\nshares = [10, 20, 30, 40]\n[[application]]\nother-port = 5000\npriority = 1"
    parts = [f"[{part}" for part in plain.split("\n[")[1:]]
    return [*parts, *parts, draft, "[pfc]\nenabled = [3]", plain]


_WORDS = (
    *("true", "false", "3", "-1", "0", "99999999999999999999", "1.5", "nan", "inf", "'x'", "'strict'", "[]", "[3]"),
    *("[[3]]", "{a=1}", "1979-05-27", "[1,1,1,1,1,1,1,1]", "[100]", "[-1, 101]", "'30s'", "'0.5s'", "'draft'", "0x600"),
    *("[pfc]", "[ets]", "[[application]]", "enabled", "willing", "classes", "bandwidth", "priority", "tcp", "é", '"""'),
    *(
        "[" * 2000,
        "9" * 5000,
        "a." * 500 + "b",
        "{a=" * 300,
        "'1e400s'",
        "'9999999999999999999s'",
        "'1" + "0" * 400 + "s'",
    ),
)
_CARD = SavedSettings(0x0A, NicSettings(bytes(59), bytes(136), frozenset({AppEntry(1, Selector.TCP, 80)})))
_ANSWER = {"interface": "eth0", "pid": 1, "now_ns": 5, "port": {"link": "up", "counters": {"frames_in": 3}}}
_LINK = (
    bytes.fromhex("00000100070000004310010000000000") + b"\x09\0\x03\0eth0\0\0\0\0" + b"\x0a\0\x01\0\2\0\0\0\0\x0a\0\0"
)


def decoders() -> dict[str, Decoder]:
    """Each under its name."""
    pauses = mac_control.PfcFrame.xoff(MAC, [3, 5]).encode(), mac_control.PauseFrame(MAC, 100).encode()
    request = headroom.MeasurementRequest(MAC, 1, 2, 3)
    measured = request.encode(_KEY), headroom.Response.to(request, MAC, 4, 5).encode(_KEY)
    echo = icmpv6.Echo(icmpv6.EchoType.REQUEST, 1, 2, b"data").encode(A, B)
    error = icmpv6.Error(icmpv6.ErrorType.PACKET_TOO_BIG, 0, 1280, _packets()[0]).encode(A, B)
    routes = [
        srh.Srh.along([A, B, A], 41, done, tlvs=srh.encode_tlvs([srh.Tlv(5, b"abc")])).encode() for done in (0, 2)
    ]
    texts = [f"{request}\n".encode() for request in control_socket.REQUESTS]
    return {
        "lldp": Decoder(_frames_of_lldp, _lldp),
        "log line": Decoder(_frames_of_lldp, _always(_log_line)),
        "mac control": Decoder(of(*pauses), _always(_mac_control)),
        "credits": Decoder(of(*_credit_messages()), _always(_credits)),
        "esun": Decoder(of(*_esun_frames()), _always(_esun)),
        "headroom": Decoder(of(*measured), _always(_headroom)),
        "measurer": Decoder(of(*measured), _measurer),
        "ipv6": Decoder(of(*_packets()), _always(_ipv6)),
        "rest": Decoder(of(*(bytes(12) + b"\x86\xdd" + one + bytes(300) for one in _packets())), _always(_rest)),
        "srh": Decoder(of(*routes), _always(_srh)),
        "icmpv6": Decoder(of(echo, error), _always(_icmpv6)),
        "settings": Decoder(rewritten(_pages(), _WORDS), _always(_settings)),
        "request": Decoder(of(*texts), _always(_request)),
        "control socket": Decoder(of(*texts, b"x" * 70), _door),
        "answer": Decoder(of(json.dumps(_ANSWER).encode(), b'{"error": "no"}'), _always(_answer)),
        "found": Decoder(of(saved_settings.encode(_CARD, 7)), _always(_found)),
        "link message": Decoder(of(_LINK), _always(_link)),
        **{name: Decoder(of(*seeds), _always(read)) for name, (seeds, read) in record_seeds().items()},
        "policy": Decoder(of(*fuzz_files.policies()), _always(fuzz_files.read_policy)),
        "fabric": Decoder(rewritten([fuzz_files.fabrics()], _WORDS), _always(fuzz_files.read_fabric)),
        "dcbx log": Decoder(rewritten_lines(fuzz_files.logs()), fuzz_files.read_log),
        "json": Decoder(of(*fuzz_files.texts()), _always(fuzz_files.read_json)),
        "config_db": Decoder(fuzz_files.configs, _always(fuzz_files.read_config)),
        "techsupport": Decoder(of(*fuzz_files.archives()), _always(fuzz_files.read_archive)),
        "run's stream": Decoder(fuzz_files.streams, fuzz_files.read_stream),
    }


# A run


@dataclass(frozen=True)
class Outcome:
    """The outcome of a whole run."""

    words: Counter[str]
    refused: int
    longest_s: float
    grown_kib: int
    took_s: float

    @property
    def inputs(self) -> int:
        return self.refused + sum(self.words.values())


def run(decoder: Decoder, count: int, seed: int = 1) -> Outcome:
    """FuzzError, with the input, for what no decoder may do."""
    inputs, read = decoder.inputs(random.Random(seed)), decoder.start()
    words: Counter[str] = Counter()
    refused, longest_s, begin_s = 0, 0.0, time.process_time()
    before_kib = 0
    for number in range(count):
        if number == count // 10:
            gc.collect()
            before_kib = _memory_kib()
        octets = next(inputs)
        start_s = time.thread_time()
        try:
            words[read(octets)] += 1
        except XoffError:
            refused += 1
        except Exception as error:
            raise FuzzError(f"{type(error).__name__}: {error}, after {octets.hex()}") from error
        spent_s = time.thread_time() - start_s
        if spent_s > MOST_CPU_S:
            spent_s = _confirmed(decoder, octets)
        longest_s = max(longest_s, spent_s)
    grown = _memory_kib() - before_kib
    if grown > MOST_GROWTH_KIB:
        raise FuzzError(f"memory grew by {grown} KiB in {count} inputs: something is kept of each of them")
    return Outcome(words, refused, longest_s, grown, time.process_time() - begin_s)


def _confirmed(decoder: Decoder, octets: bytes) -> float:
    """The least that this input takes; FuzzError if that is too much."""
    least_s = float("inf")
    for _ in range(_TRIES):
        read = decoder.start()
        gc.collect()
        start_s = time.thread_time()
        with suppress(XoffError):
            read(octets)
        least_s = min(least_s, time.thread_time() - start_s)
    if least_s > MOST_CPU_S:
        raise FuzzError(f"{least_s * 1000:.0f} ms for {octets[:2000].hex()}")
    return least_s


def _memory_kib() -> int:
    """The most that was in use so far; what a run frees again is in it, what it keeps too."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> int:
    """See bench/fuzz.py."""
    import argparse

    def number(text: str) -> int:
        value = int(float(text))
        if value < 1:
            raise ValueError
        return value

    known = decoders()
    parser = argparse.ArgumentParser(description="Throw damaged input at every decoder.")
    how_many = parser.add_mutually_exclusive_group()
    how_many.add_argument("--total", type=number, default=TOTAL, metavar="N", help="together (10 000 000)")
    how_many.add_argument("--count", type=number, metavar="N", help="for each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=known, action="append", metavar="NAME", help=", ".join(known))
    options = parser.parse_args()
    names = list(dict.fromkeys(options.only or known))
    done: dict[str, Outcome] = {}
    try:
        for place, name in enumerate(names):
            share = options.total // len(names) + (place < options.total % len(names))
            try:
                done[name] = run(known[name], options.count or max(1, share), options.seed)
            except FuzzError as error:
                print(f"✗ {name}: {error}", file=sys.stderr)
                return 1
            print(_line(name, done[name]), flush=True)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    finally:
        if len(done) > 1:
            print(_line("all decoders" if len(done) == len(known) else f"{len(done)} decoders", *done.values()))
    return 0


def _line(name: str, *outcomes: Outcome) -> str:
    inputs = sum(outcome.inputs for outcome in outcomes)
    refused = sum(outcome.refused for outcome in outcomes)
    took_s = sum(outcome.took_s for outcome in outcomes)
    longest_ms = max(outcome.longest_s for outcome in outcomes) * 1000
    grown_kib = max(outcome.grown_kib for outcome in outcomes)
    return (
        f"✓ {name:<21} {inputs:>10,} inputs, {100 * refused // inputs:>2} % refused, {inputs / took_s:>7,.0f} /s, "
        f"longest {longest_ms:.2f} ms, memory +{grown_kib} KiB"
    )
