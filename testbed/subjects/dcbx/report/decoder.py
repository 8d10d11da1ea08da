"""LLDP frames with DCBX in words and in fields."""

from __future__ import annotations

from collections.abc import Iterator

from testbed.frames import lldp
from testbed.frames.dcbx.values import DcbxVersion
from testbed.report.exports.frame_text import Decoder, Layer
from testbed.subjects.dcbx import log_text, show


def decode(octets: bytes) -> Iterator[Layer]:
    """Yield the layers of an LLDP frame: LLDP's own TLVs, those of DCBX, and flaws."""
    version = DcbxVersion.PUBLISHED
    line = show.frame_record(octets, version, "received", 0)
    if line.get("mismatch"):  # a capture may have either format
        line = show.frame_record(octets, version.other, "received", 0)
    if "refused" in line:
        yield Layer("lldp", f"LLDP, refused: {line['why']}", {"refused": line["why"]})
        return
    fields = {name: line[name] for name in ("chassis_id", "port_id", "ttl")}
    yield Layer("lldp", f"LLDP {line['chassis_id']} port {line['port_id']} TTL {line['ttl']}", fields)
    text = f"DCBX {line['version']}: {'; '.join(log_text.frame(line, None))}"
    yield Layer("dcbx", text, {"version": line["version"], "tlvs": line["tlvs"]})
    for flaw in line.get("flaws", ()):
        yield Layer("flaw", f"flaw: {flaw}")


DECODERS = (Decoder(lldp.ETHERTYPE, ("lldp",), decode),)
