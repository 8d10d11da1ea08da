"""Execution traces of Chakra: three forms of one trace, damaged files, and jobs that are played in waves."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.units import Duration
from testbed.workload import traces
from testbed.workload.chakra import Collective, Kind, TraceNode, read_trace
from testbed.workload.training_job import TrainingJob
from testbed.workload.transfers import WorkloadError

NODES = (
    TraceNode(0, "forward", Kind.COMP, (), 100),
    TraceNode(1, "reduce", Kind.COLLECTIVE, (0,), 0, Collective.ALL_TO_ALL, 4096, group="3"),
    TraceNode(300, "send", Kind.SEND, (0, 1), 0, octets=7, source=2, target=5, tag=-1),
)


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def message(node: TraceNode, packed: bool = True) -> bytes:
    """Encode a node as Chakra's protobuf, with attributes of several types beside those that count."""
    after = b"".join(map(varint, node.after))
    out = field(1, node.id) + field(2, node.name.encode()) + field(3, int(node.kind))
    out += field(5, after) if packed else b"".join(field(5, one) for one in node.after)
    out += field(7, node.micros) + field(8, field(1, b"inputs"))
    numbers: dict[str, tuple[int, int | bytes]] = {
        "comm_type": (9, int(node.collective)), "comm_size": (13, node.octets), "comm_src": (11, node.source),
        "comm_dst": (7, node.target), "comm_tag": (17, (node.tag << 1) ^ (node.tag >> 63)),
        "pg_name": (29, node.group.encode()), "is_cpu_op": (27, 1), "list": (10, field(1, 5)),
    }  # fmt: skip
    for name, (number, value) in numbers.items():
        out += field(10, field(1, name.encode()) + field(number, value))
    double = varint(3 << 3 | 1) + struct.pack("<d", 0.5)
    return out + field(10, field(1, b"double") + double)


def protobuf(nodes: Sequence[TraceNode], packed: bool = True) -> bytes:
    rows = [field(1, b"1.0.0"), *(message(node, packed) for node in nodes)]
    return b"".join(varint(len(row)) + row for row in rows)


def feeder_json(nodes: Sequence[TraceNode]) -> bytes:
    rows = [
        {"Id": one.id, "Name": one.name, "NodeType": int(one.kind), "runtime": one.micros, "data_deps": one.after,
         "comm_type": int(one.collective), "comm_size": one.octets, "comm_src": one.source, "comm_dst": one.target,
         "comm_tag": one.tag, "pg_name": one.group}
        for one in nodes
    ]  # fmt: skip
    return json.dumps({"workload_graph": rows}).encode()


def jsonizer_json(nodes: Sequence[TraceNode]) -> bytes:
    names = {Kind.COMP: "COMP_NODE", Kind.COLLECTIVE: "COMM_COLL_NODE", Kind.SEND: "COMM_SEND_NODE"}
    rows: list[dict[str, Any]] = [{"version": "1.0.0"}]
    for one in nodes:
        attributes = [
            {"name": "comm_type", "int64Val": str(int(one.collective))},
            {"name": "comm_size", "uint64Val": str(one.octets)},
            {"name": "comm_src", "int32Val": one.source}, {"name": "comm_dst", "int32Val": one.target},
            {"name": "comm_tag", "sint64Val": str(one.tag)}, {"name": "pg_name", "stringVal": one.group},
        ]  # fmt: skip
        rows.append(
            {"id": str(one.id), "name": one.name, "type": names[one.kind], "dataDeps": list(map(str, one.after)),
             "durationMicros": str(one.micros), "attr": attributes}
        )  # fmt: skip
    return "\n".join(json.dumps(row, indent=2) for row in rows).encode()


def other_json(nodes: Sequence[TraceNode]) -> list[bytes]:
    """Return the same nodes in a list, under another name, one in each line, and with numbers that are 0 left out."""
    rows = json.loads(feeder_json(nodes))["workload_graph"]
    sparse = jsonizer_json(nodes).replace(b'"id": "0",', b"")
    lines = "\n".join(map(json.dumps, rows))
    return [json.dumps(rows).encode(), json.dumps({"nodes": rows}).encode(), lines.encode(), sparse]


@pytest.mark.parametrize(
    "octets",
    [
        protobuf(NODES), protobuf(NODES, packed=False), gzip.compress(protobuf(NODES)), feeder_json(NODES),
        gzip.compress(feeder_json(NODES)), jsonizer_json(NODES), *other_json(NODES),
    ],
    ids=[
        "protobuf", "unpacked", "gzip", "feeder", "gzip of JSON", "jsonizer", "a list", "nodes", "one line for each",
        "protobuf's without zeros",
    ],
)  # fmt: skip
def test_one_trace_in_each_form(octets: bytes) -> None:
    assert read_trace(octets, "a.et") == NODES


@pytest.mark.parametrize(
    ("octets", "message"),
    [
        (b"", "a.et is no execution trace of Chakra, protobuf or JSON: it is empty"),
        (b"hello, this is text", "is no execution trace"),
        (protobuf(NODES)[:-3], "a message of"),
        (gzip.compress(protobuf(NODES))[:-20], "is no execution trace|a message of"),
        (feeder_json(NODES)[:-5], "is no execution trace"),
        (b'{"workload_graph": []}', "a.et has no nodes"),
        (
            b'{"schema": 1, "graph": [{"Id": 0}]}',
            "as workload_graph, nodes, node, .* object has schema, graph",
        ),
        (b'{"id": 0, "type": 4} {"name": "x"}', "a.et: a node has neither a number nor a type; it has name"),
        (feeder_json([NODES[0], NODES[0]]), "a.et has 2 nodes with 1 different numbers"),
        (feeder_json(NODES[1:]), "a.et: node 1 reduce waits for node 0, which is not there"),
        (feeder_json([replace(NODES[0], after=(1,)), NODES[1]]), "a.et: node 0 forward waits for itself, by others"),
    ],
)
def test_what_is_no_trace_is_refused_by_its_name(octets: bytes, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        read_trace(octets, "a.et")


@given(st.integers(0, 400), st.integers(0, 255))
def test_damage_gives_nodes_or_one_error(place: int, octet: int) -> None:
    octets = bytearray(protobuf(NODES))
    octets[place % len(octets)] = octet
    try:
        assert read_trace(bytes(octets), "a.et")
    except WorkloadError as error:
        assert "a.et" in str(error)


HOSTS = [f"h{number}" for number in range(1, 9)]


def played(job: TrainingJob, each: str = "10us") -> list[tuple[str, list[str]]]:
    """Play a job on a network that takes so long for each transfer, and return names and starts of its waves."""
    found = []
    while (wave := job.wave()) is not None:
        starts = sorted({str(one.start) for one in wave.transfers})
        found.append((", ".join(dict.fromkeys(one.name for one in wave.operations)), starts))
        job.ended(wave, [one.start + Duration(each) for one in wave.transfers])
    return found


def own(name: str, ranks: int) -> list[tuple[TraceNode, ...]]:
    found = [read_trace(path.read_bytes(), path.name) for path in traces.files(name)]
    return found if len(found) > 1 else found * ranks


def test_collectives_of_layers_are_hidden_behind_computing() -> None:
    job = TrainingJob(own("data-parallel", 4), HOSTS)
    waves = played(job)
    assert len(waves) == 2, "all that needs no optimizer is one wave"
    assert waves[0][1] == ["0s", "100us", "200us", "300us"], "a reduce for each layer, as they are computed"
    # Two iterations of 200 + 4 x 100 + 50 us, of which the network adds its last 10 us each.
    assert job.completion == Duration("1320us") and set(job.computing.values()) == {Duration("1300us")}


def test_a_straggler_holds_up_those_that_wait_for_it() -> None:
    job = TrainingJob(own("mixture-of-experts", 4), HOSTS, stragglers={2: 2.0})
    waves = played(job)
    assert [name for name, _ in waves][:2] == ["dispatch 1", "combine 1"]
    assert waves[0][1] == ["0s", "100us"], "the straggler sends 100 us later than the others"
    assert job.computing[2] == job.computing[0] * 2 and job.completion > job.computing[2]


def test_messages_of_a_pipeline_follow_each_other() -> None:
    job = TrainingJob(own("pipeline", 4), HOSTS)
    waves = played(job)
    assert waves[0][0].startswith("activations 1") and waves[-1][0].startswith("gradients")
    # The last stage begins when three stages have computed the first micro-batch and sent it.
    assert job.completion >= Duration("150us") * 3 + Duration("900us") + Duration("300us") * 3


def test_sizes_and_times_shrink_together() -> None:
    job = TrainingJob(own("mixture-of-experts", 2), HOSTS, shrink=10)
    wave = job.wave()
    assert wave is not None and {one.size.bytes for one in wave.transfers} == {10_000}
    assert wave.begin == Duration("10us")


def rank(*nodes: TraceNode) -> tuple[TraceNode, ...]:
    return nodes


REDUCE = TraceNode(1, "reduce", Kind.COLLECTIVE, (), octets=100)


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        ([rank(REDUCE)], "there are 1 ranks; a job has two"),
        ([rank(REDUCE)] * 9, "the job has 9 ranks, and the topology 8 hosts"),
        ([rank(replace(REDUCE, octets=10**12))] * 2, "rank 0: node 1 reduce is of 1TB.*--shrink 14902 makes 67"),
        ([rank(REDUCE), rank(NODES[0])], "rank 0: node 1 reduce has no counterpart at rank 1"),
        (
            [rank(REDUCE), rank(replace(REDUCE, octets=7))],
            "rank 1: node 1 reduce is ALL_REDUCE of 7 octets, and at rank 0 it is ALL_REDUCE of 100",
        ),
        ([rank(replace(NODES[2], after=(), target=7))] * 2, "rank 0: node 300 send is for rank 7; there are 2"),
        ([rank(replace(REDUCE, collective=Collective.SCATTER))] * 2, "is SCATTER; collectives are ALL_REDUCE"),
        (
            [
                rank(replace(REDUCE, id=1, group="a"), replace(REDUCE, id=2, group="b", after=(1,))),
                rank(replace(REDUCE, id=1, group="b"), replace(REDUCE, id=2, group="a", after=(1,))),
            ],
            "rank 0: node 1 reduce never begins, since ranks wait for each other",
        ),
    ],
)
def test_jobs_that_no_one_can_run_are_refused(ranks: list[tuple[TraceNode, ...]], message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        played(TrainingJob(ranks, HOSTS))


def test_a_group_is_of_the_ranks_that_name_it() -> None:
    pair = replace(REDUCE, group="pair", id=2)
    job = TrainingJob([rank(REDUCE, pair), rank(REDUCE), rank(REDUCE, pair)], HOSTS)
    wave = job.wave()
    assert wave is not None and len(wave.operations) == 2
    assert {one.source for one, owner in zip(wave.transfers, wave.owners, strict=True) if owner == 1} == {"h1", "h3"}
