"""What a cable carried beside frames, in words and in fields, of each mechanism of the link layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from testbed.report.exports import frame_text
from testbed.report.exports.frame_text import Decoder, Layer
from testbed.subjects.link.esun import header
from testbed.subjects.link.llr import record
from testbed.subjects.link.llr.ordered_set import OrderedSet
from testbed.subjects.link.llr.record import Fate

_ECN = ("not-ECT", "ECT(1)", "ECT(0)", "CE")
_FATES = {Fate.CAME: "", Fate.LOST: ", lost", Fate.DAMAGED: ", damaged", Fate.POISONED: ", poisoned"}


def of_llr(octets: bytes) -> Iterator[Layer]:
    """Yield the layers of a record of Link Layer Retry: what was carried, and the frame in it."""
    found = record.parse(octets)
    fields = {"fate": found.fate.name.lower(), "replay": found.is_replay}
    if isinstance(found.content, OrderedSet):
        one = found.content
        data = f" data {one.data:#06x}" if one.data else ""
        fields |= {"set": one.kind.label, "sequence": one.sequence, "data": one.data}
        yield Layer("llr", f"{one.kind.label} {one.sequence}{data}{_FATES[found.fate]}", fields)
        return
    name = "frame without LLR" if found.content is None else f"LLR frame {found.content}"
    words = f"{name}{', replay' if found.is_replay else ''}{_FATES[found.fate]}"
    yield Layer("llr", words, fields | {"sequence": found.content})
    if found.frame[12:14] == octets[12:14]:
        yield Layer("refused", "a record in a record")
    elif found.frame:
        inside = frame_text.layers(found.frame)
        is_cut = len(found.frame) == record.KEPT  # then a codec may miss what is not there
        yield from (one for one in inside if not (is_cut and _is_refused(one)))


def _is_refused(layer: Layer) -> bool:
    return layer.kind == "refused" or "refused" in layer.fields


def of_esun(octets: bytes) -> Iterator[Layer]:
    """Yield the header of a frame of ESUN."""
    found = header.parse(octets)
    one = found.header
    flow = f" flow {one.flow_label:#06x}" if one.flow_bit else ""
    user = f" user {one.user:#x}" if one.user else ""
    revision = f" revision {one.revision}, which is not known" if one.revision != header.REVISION else ""
    words = f"CoS {one.cos} {_ECN[one.ecn]}{flow} TTL {one.ttl}{user}{revision}, {len(found.payload)} octets"
    yield Layer("esun", f"ESUN (provisional) {words}", asdict(one) | {"payload": len(found.payload)})


DECODERS = (Decoder(record.ETHERTYPE, ("llr",), of_llr), Decoder(header.ETHERTYPE, ("esun",), of_esun))
