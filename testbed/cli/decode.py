"""`xoff decode`: the frames of a capture in words, for those without Wireshark."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from testbed.errors import UsageError, plain
from testbed.lab.result import Exit
from testbed.report import capture_file
from testbed.report.frame_text import ethernet


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a capture, pcap or pcapng")
    parser.add_argument("--only", metavar="WORD", help="only frames in whose words this is, as in PFC or LLDP")


def decode(options: argparse.Namespace) -> int:
    """The frames of a capture in words: PFC, headroom measurement, LLDP with DCBX, SRv6 and RoCEv2."""
    try:
        with options.file.open("rb") as file:
            for frame in capture_file.frames(file):
                line = plain(_line(frame)).replace("\n", " ")
                if options.only is None or options.only in line:
                    sys.stdout.write(f"{line}\n")
    except capture_file.CaptureError as error:
        raise UsageError(f"{options.file}: {error}") from None
    except OSError as error:
        if error.filename is None:  # our own output
            raise
        raise UsageError(f"{options.file}: {error.strerror}") from None
    return Exit.OK


def _line(frame: capture_file.Captured) -> str:
    time = "-" if frame.t_ns is None else f"{frame.t_ns // 10**9}.{frame.t_ns % 10**9:09d}"
    if frame.link_type == capture_file.ETHERNET:
        said = "; ".join(ethernet(frame.octets))
    else:
        said = f"link type {frame.link_type}, {frame.length} octets"
    cut = f" (cut to {len(frame.octets)} of {frame.length} octets)" if len(frame.octets) < frame.length else ""
    comments = "".join(f" # {comment}" for comment in frame.comments)
    return f"{time} {frame.interface + ' ' if frame.interface else ''}{said}{cut}{comments}"
