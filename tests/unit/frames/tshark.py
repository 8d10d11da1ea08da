"""Wireshark's decoder `tshark`, for frames and captures."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

TSHARK = shutil.which("tshark")


def decode(folder: Path, frames: list[bytes], options: Sequence[str] = ()) -> list[dict[str, list[str]]]:
    """Return what tshark shows of each frame: the values of each field in order. `options` are further ones of
    tshark.
    """
    capture = folder / "frames.pcap"
    records = b"".join(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame for frame in frames)
    capture.write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1) + records)
    packets = decode_capture(capture, options)
    assert len(packets) == len(frames)
    return packets


def decode_capture(capture: Path, options: Sequence[str] = ()) -> list[dict[str, list[str]]]:
    """Return what tshark shows of each frame of a file."""
    assert TSHARK is not None
    command = [TSHARK, *options, "-n", "-r", str(capture), "-T", "pdml"]
    done = subprocess.run(command, capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    packets = []
    for packet in ElementTree.fromstring(done.stdout).iter("packet"):
        fields: dict[str, list[str]] = defaultdict(list)
        for element in packet.iter():
            if name := element.get("name"):
                fields[name].append(element.get("show", ""))
        packets.append(fields)
    return packets
