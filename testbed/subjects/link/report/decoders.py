"""What a cable carried beside frames, in words and in fields, of each mechanism of the link layer."""

from __future__ import annotations

from collections.abc import Iterator

from testbed.report.exports import frame_text
from testbed.report.exports.frame_text import Decoder, Layer
from testbed.subjects.link.llr import record
from testbed.subjects.link.llr.ordered_set import OrderedSet
from testbed.subjects.link.llr.record import Fate

_FATES = {Fate.CAME: "", Fate.LOST: ", lost", Fate.DAMAGED: ", damaged"}


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
        yield from frame_text.layers(found.frame)


DECODERS = (Decoder(record.ETHERTYPE, ("llr",), of_llr),)
