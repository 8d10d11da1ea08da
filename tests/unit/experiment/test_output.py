"""The stream of a job: every record arrives as it was sent, or the damage is noticed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.experiment import output as wire
from testbed.experiment.output import Decoder, Record, RecordKind, Sample, StreamError

HEADER = 13
records = st.lists(st.builds(Record, st.sampled_from(RecordKind), st.binary(max_size=300)), max_size=8)
int64s = st.integers(-(2**63), 2**63 - 1)
contents: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def encoded(sent: Iterable[Record]) -> bytes:
    return b"".join(record.encode() for record in sent)


def decoded(*pieces: bytes) -> tuple[list[Record], int]:
    """The records in a stream that comes in pieces, and the octets left over."""
    decoder = Decoder()
    found = [record for piece in pieces for record in decoder.feed(piece)]
    return found, decoder.pending


def damage(*pieces: bytes) -> str:
    """Return the message about a damaged stream."""
    with pytest.raises(StreamError) as caught:
        decoded(*pieces)
    assert caught.value.exit_code == 3
    return str(caught.value)


# Streams


@given(records, st.lists(st.integers(0, 2500)))
def test_frames_arrive_as_sent_however_the_stream_is_split(sent: list[Record], cuts: list[int]) -> None:
    stream = encoded(sent)
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    assert decoded(*(stream[a:b] for a, b in pairwise(places))) == (sent, 0)


def test_frames_arrive_as_sent_octet_by_octet() -> None:
    sent = [Record(kind, kind.name.encode()) for kind in RecordKind]
    assert decoded(*(bytes([octet]) for octet in encoded(sent))) == (sent, 0)


def test_an_empty_piece_brings_nothing_and_breaks_nothing() -> None:
    one = Record(RecordKind.OUT, b"one").encode()
    assert decoded(b"", one[:5], b"", one[5:], b"") == ([Record(RecordKind.OUT, b"one")], 0)


def test_a_frame_is_there_with_its_last_octet_and_not_before() -> None:
    decoder = Decoder()
    stream = Record(RecordKind.OUT, b"hello").encode()
    assert list(decoder.feed(stream[:-1])) == []
    assert decoder.pending == HEADER + 4
    assert list(decoder.feed(stream[-1:])) == [Record(RecordKind.OUT, b"hello")]
    assert decoder.pending == 0


@given(records, st.data())
def test_a_truncated_stream_gives_its_whole_frames_and_leaves_the_rest_pending(
    sent: list[Record], data: st.DataObject
) -> None:
    stream = encoded(sent)
    end = data.draw(st.integers(0, len(stream)))
    found, pending = decoded(stream[:end])
    assert found == sent[: len(found)]
    assert pending == end - len(encoded(found))
    assert found == sent or pending < len(sent[len(found)].encode())


def test_no_octet_of_a_stream_can_change_unnoticed() -> None:
    sent = [Record(RecordKind.OUT, b"one"), Record(RecordKind.FILE, b""), Record(RecordKind.NOTE, b"two")]
    stream = encoded(sent)
    silent = []
    for position in range(len(stream)):
        for change in range(1, 256):
            damaged = bytearray(stream)
            damaged[position] ^= change
            try:
                found, pending = decoded(bytes(damaged))
            except StreamError:
                continue
            if found != sent[: len(found)] or not pending:
                silent.append((position, change))
    assert silent == []


def test_what_came_before_the_damage_is_delivered() -> None:
    whole = Record(RecordKind.OUT, b"whole")
    found = []
    with pytest.raises(StreamError):
        for record in Decoder().feed(whole.encode() + b"no record at all"):
            found.append(record)
    assert found == [whole]


def test_what_is_no_frame_is_shown() -> None:
    expected = "the lab's stream is damaged: b'Kernel panic ' is not a record"
    assert damage(b"Kernel panic - not syncing") == expected


def test_a_payload_that_does_not_match_its_sum_is_refused() -> None:
    stream = Record(RecordKind.OUT, b"hello").encode()[:-1] + b"0"
    assert damage(stream) == "the lab's stream is damaged: a record of 5 octets has a wrong sum"


def test_a_frame_of_unknown_kind_is_refused() -> None:
    stream = Record(cast(RecordKind, 99), b"").encode()
    assert damage(stream) == "the lab's stream is damaged: a record of unknown kind 99"


def test_a_length_beyond_the_limit_is_refused_before_anything_is_waited_for() -> None:
    header = bytearray(Record(RecordKind.OUT, b"").encode())
    header[5:9] = (wire.LARGEST + 1).to_bytes(4, "little")
    assert damage(bytes(header)).endswith("is not a record")


def test_the_largest_frame_passes_and_one_octet_more_is_not_sent() -> None:
    largest = Record(RecordKind.OUT, bytes(wire.LARGEST))
    assert decoded(largest.encode()) == ([largest], 0)
    with pytest.raises(StreamError) as caught:
        Record(RecordKind.OUT, bytes(wire.LARGEST + 1)).encode()
    assert str(caught.value) == "a record of 1048577 octets is over the limit of 1048576"


# Payloads


@given(contents)
def test_json_content_comes_back_equal(content: Any) -> None:
    assert Record.of(RecordKind.END, content).content() == content


def test_equal_content_is_equal_octets_whatever_its_order() -> None:
    assert Record.of(RecordKind.END, {"a": 1, "b": 2}) == Record.of(RecordKind.END, {"b": 2, "a": 1})


@pytest.mark.parametrize("payload", [b"", b"{", b'{"a": 1} {}', b"\xff"])
def test_a_payload_that_is_not_json_is_damage(payload: bytes) -> None:
    with pytest.raises(StreamError):
        Record(RecordKind.END, payload).content()


@given(int64s, int64s, int64s, int64s)
def test_a_sample_comes_back_equal(time_ns: int, late_ns: int, idle_ns: int, tick_ns: int) -> None:
    sample = Sample(time_ns, late_ns, idle_ns, tick_ns)
    assert Sample.decode(sample.encode()) == sample
    assert len(sample.encode()) == Sample.size()


@pytest.mark.parametrize("size", [0, 23, 25, 48])
def test_a_sample_of_another_size_is_damage(size: int) -> None:
    with pytest.raises(StreamError):
        Sample.decode(bytes(size))


@given(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1),
    st.lists(st.binary()),
)
def test_a_file_comes_back_with_its_name_and_octets(name: str, pieces: list[bytes]) -> None:
    received = [wire.file_piece(record) for record in wire.file_records(name, iter(pieces))]
    assert {found for found, _ in received} == {name}
    assert b"".join(piece for _, piece in received) == b"".join(pieces)


def test_a_file_name_that_is_not_utf_8_comes_back_too() -> None:
    name = os.fsdecode(b"caf\xe9")
    assert [wire.file_piece(record) for record in wire.file_records(name, iter([]))] == [(name, b"")]


def test_an_empty_file_is_one_frame() -> None:
    assert list(wire.file_records("empty", iter([]))) == [Record(RecordKind.FILE, b"empty\0")]
