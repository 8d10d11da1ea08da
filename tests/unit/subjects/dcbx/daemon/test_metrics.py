"""Metrics of stand-alone agents: what is exported of an answer, and the server of it."""

from __future__ import annotations

import errno
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parsed

from testbed.errors import UsageError
from testbed.linux.netlink import dcb
from testbed.linux.netlink.link_state import Sent
from testbed.linux.netlink.messages import NetlinkError
from testbed.subjects.dcbx.daemon import control_socket, metrics

ANSWER: dict[str, Any] = {
    "interface": "eth0",
    "port": {
        "link": "up",
        "neighbours": [{}],
        "features": {"pfc": {"oper": [3, 4]}, "ets": {"oper": None}},
        "counters": {"frames_in": 7, "frames_out": 9, "refused.own": 2, "oper_changes.pfc": 1, "tagged": 1},
    },
}


def samples(text: str) -> dict[str, float]:
    found = {}
    for family in parsed(text):
        for one in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in one.labels.items() if key != "sonic")
            found[f"{one.name} {labels}"] = one.value
    return found


def test_an_answer_and_the_counters_of_a_card_are_metrics() -> None:
    frames = tuple(range(8)), tuple(range(10, 18))
    found = samples(metrics.exposition({"eth0": ANSWER}, {"eth0": frames}, {"eth0": Sent(5, 500)}))
    assert found["xoff_port_up port=eth0"] == 1
    assert found["xoff_lldp_sent_frames_total port=eth0"] == 9
    assert found["xoff_lldp_received_frames_total port=eth0"] == 7
    assert found["xoff_lldp_refused_frames_total port=eth0,reason=own"] == 2
    assert found["xoff_dcbx_changes_total port=eth0,feature=pfc"] == 1
    assert [found[f"xoff_dcbx_pfc_enabled port=eth0,priority={n}"] for n in range(8)] == [0, 0, 0, 1, 1, 0, 0, 0]
    assert found["xoff_pfc_sent_frames_total port=eth0,priority=3"] == 3
    assert found["xoff_pfc_received_frames_total port=eth0,priority=7"] == 17
    assert found["xoff_port_sent_bytes_total port=eth0"] == 500
    text = metrics.exposition({"eth0": ANSWER}, {"eth0": frames}, {})
    assert 'priority="3",sonic="SAI_PORT_STAT_PFC_3_TX_PKTS"} 3' in text and "xoff_port_sent" not in text


def test_a_card_without_counters_has_none() -> None:
    text = metrics.exposition({"eth0": ANSWER | {"port": ANSWER["port"] | {"features": {}}}}, {"eth0": None}, {})
    assert "xoff_pfc" not in text and "xoff_dcbx_pfc" not in text and text.endswith("# EOF\n")


def test_the_kernel_is_asked_for_the_frames_of_each_priority() -> None:
    pfc = bytes([8, 8, 1, 0]) + bytes(4) + struct.pack("=16Q", *range(100, 116))
    inner = struct.pack("=HH", 4 + len(pfc), 2) + pfc
    ieee = struct.pack("=HH", 4 + len(inner), 13 | 0x8000) + inner
    assert dcb.pfc_frames("eth0", lambda *_: bytes(4) + ieee) == (tuple(range(100, 108)), tuple(range(108, 116)))
    assert dcb.pfc_frames("eth0", lambda *_: bytes(4)) is None

    def refuses(code: int) -> dcb.Ask:
        def ask(kind: int, body: bytes, what: str) -> bytes:
            raise NetlinkError(what, code)

        return ask

    assert dcb.pfc_frames("veth0", refuses(errno.EOPNOTSUPP)) is None
    with pytest.raises(NetlinkError):
        dcb.pfc_frames("eth0", refuses(errno.EPERM))


@contextmanager
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    monkeypatch.setattr(metrics, "text", lambda interface: f"# {interface}\n# EOF\n")
    with metrics.server("127.0.0.1:0", "eth0") as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield "127.0.0.1", server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def asked(address: tuple[str, int], path: str) -> bytes:
    with socket.create_connection(address, timeout=10) as end:
        end.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        return b"".join(iter(lambda: end.recv(4096), b""))


def test_the_server_answers_one_path_and_says_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    with served(monkeypatch) as address:
        answer = asked(address, "/metrics")
        assert answer.startswith(b"HTTP/1.0 200") and answer.endswith(b"\r\n\r\n# eth0\n# EOF\n")
        assert b"application/openmetrics-text; version=1.0.0" in answer
        assert asked(address, "/").startswith(b"HTTP/1.0 404")

        def none(interface: str | None) -> str:
            raise control_socket.ControlError("no agent serves eth0")

        monkeypatch.setattr(metrics, "text", none)
        answer = asked(address, "/metrics")
        assert answer.startswith(b"HTTP/1.0 503") and answer.endswith(b"no agent serves eth0\n")


@pytest.mark.slow
def test_clients_that_send_nothing_are_let_go_and_hold_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_WITHIN_S", 0.3)
    with served(monkeypatch) as address:
        idle = [socket.create_connection(address, timeout=10) for _ in range(12)]
        idle[0].sendall(b"GET /met")
        assert all(end.recv(10) == b"" for end in idle)
        deadline = time.monotonic() + 10
        while not (answer := asked(address, "/metrics")).startswith(b"HTTP/1.0 200"):
            assert time.monotonic() < deadline, answer
        for end in idle:
            end.close()


@pytest.mark.parametrize("address", ["9471", "localhost:9471", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000", ":9471"])
def test_an_address_that_is_none_is_refused_with_one_that_is(address: str) -> None:
    with pytest.raises(UsageError, match=r"127\.0\.0\.1:9471 is this machine alone"):
        metrics.server(address)
