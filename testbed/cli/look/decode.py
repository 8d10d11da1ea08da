"""`xoff decode`: the frames of captures in words or as JSON, and a dissector for those who have Wireshark."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from testbed import frames
from testbed.cli.arguments import above_zero, one_of, whole_number
from testbed.errors import UsageError, plain
from testbed.frames import capture_file
from testbed.lab.results.result import Exit
from testbed.report.exports import hex_text
from testbed.report.exports.captures import open_captures
from testbed.report.exports.frame_text import as_json, kinds, line_of, of_captured
from testbed.units import Duration

_WIRESHARK = Path(".local/lib/wireshark/plugins")
"""The folder of a user's plugins, below the home folder."""


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", nargs="?", type=Path, metavar="FILE",
        help="a capture, pcap or pcapng, or a result folder: all of its captures",
    )  # fmt: skip
    parser.add_argument(
        "--hex", metavar="TEXT",
        help="frames in hexadecimal in place of a FILE, as in '01 80 c2 ...' or a dump of tcpdump -xx; "
        "- reads them from standard input; LLDP TLVs alone will do",
    )  # fmt: skip
    parser.add_argument("--only", metavar="WORD", help="only frames in whose words this is, as in PFC or LLDP")
    parser.add_argument(
        "--kind", action="append", default=[], type=one_of("kind", kinds()), metavar="KIND",
        help=f"only frames with such a layer; may be repeated: {', '.join(kinds())}",
    )  # fmt: skip
    parser.add_argument("--port", metavar="NAME", help="only frames of interfaces in whose name this is, as in s1-eth1")
    parser.add_argument("--since", type=above_zero(Duration, "100ms"), metavar="T", help="only frames from T on")
    parser.add_argument("--until", type=above_zero(Duration, "2s"), metavar="T", help="only frames before T")
    parser.add_argument("--count", type=whole_number(1, 20), metavar="N", help="at most N frames")
    parser.add_argument(
        "--dissector", action="store_true",
        help="print the path of a Lua dissector for Wireshark: headroom measurement, DCBX's headroom capability and "
        "draft format, slices, and the datagrams of UDP flows; tshark takes it as -X lua_script:PATH",
    )  # fmt: skip
    parser.add_argument(
        "--install", action="store_true",
        help=f"with --dissector: copy it to ~/{_WIRESHARK}, where Wireshark and tshark load it",
    )  # fmt: skip


def decode(options: argparse.Namespace) -> int:
    """Show the frames of captures in words: PFC, headroom measurement, LLDP with DCBX, SRv6, RoCEv2 with CNPs, path
    records. With --json each is one JSON object in a line."""
    if options.dissector:
        return _dissector(options)
    if options.install:
        raise UsageError("--install is for --dissector")
    if (options.file is None) == (options.hex is None):
        raise UsageError("give a FILE, or frames by --hex; see xoff decode --help")
    left = options.count
    with ExitStack() as stack:
        given = _frames(options.file, stack) if options.hex is None else _pasted(options.hex)
        for frame in given:
            if not _wanted(frame, options):
                continue
            frames = of_captured(frame)
            if options.kind and not any(layer.kind in options.kind for layer in frames):
                continue
            line = plain(line_of(frame, frames)).replace("\n", " ")
            if options.only is not None and options.only not in line:
                continue
            sys.stdout.write(f"{json.dumps(as_json(frame, frames)) if options.json else line}\n")
            if left is not None and (left := left - 1) == 0:
                break
    return Exit.OK


def _dissector(options: argparse.Namespace) -> int:
    if options.file is not None:
        raise UsageError("--dissector takes no FILE")
    source = Path(frames.__path__[0]) / "xoff.lua"
    if not options.install:
        print(source)
        return Exit.OK
    target = Path.home() / _WIRESHARK / source.name
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read_bytes())
    except OSError as error:
        raise UsageError(f"{target}: {error.strerror}") from None
    print(target)
    return Exit.OK


def _frames(path: Path, stack: ExitStack) -> Iterator[capture_file.Captured]:
    """Yield the frames of a file, or of all captures of a result in the order of time."""
    try:
        if path.is_dir():
            yield from capture_file.merged(open_captures(path, stack))
        else:
            yield from capture_file.frames(stack.enter_context(path.open("rb")))
    except capture_file.CaptureError as error:
        raise UsageError(f"{path}: {error}") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None


def _pasted(text: str) -> Iterator[capture_file.Captured]:
    """Yield the frames of a text in hexadecimal, which have neither time nor interface."""
    for octets in hex_text.read(sys.stdin.read() if text == "-" else text):
        yield capture_file.untimed(octets)


def _wanted(frame: capture_file.Captured, options: argparse.Namespace) -> bool:
    if options.port is not None and options.port not in frame.interface:
        return False
    if options.since is None and options.until is None:
        return True
    if frame.t_ns is None:
        return False
    after = options.since is None or frame.t_ns >= options.since.ns
    return after and (options.until is None or frame.t_ns < options.until.ns)
