"""Clusters: addresses, versions, the files that workers get, and results that come back. Runs are in tests/lab."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from testbed.errors import UsageError
from testbed.lab.studies.cluster import client, connection, on_worker, parts
from testbed.lab.studies.cluster.connection import ClusterError
from testbed.lab.studies.cluster.on_worker import MachineError

pytestmark = pytest.mark.usefixtures("xoff_cache")
DATA = bytes(range(256)) * 100
PART = {"sha256": hashlib.sha256(DATA).hexdigest(), "size": len(DATA)}


# Reaching a scheduler


@pytest.mark.parametrize(
    "address",
    ["", "localhost", "localhost:8786", "tcp://localhost", "http://localhost:8786", "tcp://:8786", "tcp://a:0",
     "tcp://a:65536", "tcp://a b:1", "tcp://a:1/x"],
)  # fmt: skip
def test_what_is_no_address_is_refused_at_once(address: str) -> None:
    with pytest.raises(UsageError, match="an address is tcp://HOST:PORT"):
        connection.client_of(address)


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def address_of(server: socket.socket) -> str:
    return f"tcp://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("kind", ["silent", "closed", "other"])
def test_what_is_no_scheduler_ends_in_one_message(
    kind: str, listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(connection, "_ANSWERS_WITHIN_S", 0.5)
    address = address_of(listening)
    if kind == "closed":
        listening.close()
    if kind == "other":
        threading.Thread(target=lambda: listening.accept()[0].sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")).start()
    with pytest.raises(ClusterError, match=rf"no Dask scheduler answers at {address} within 0\.5 s") as caught:
        connection.client_of(address)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_another_version_of_dask_is_named_with_the_way_out(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    program = (
        "import distributed.versions as v; v._version_cached = lambda name: '2020.1.0'\n"
        "from distributed.cli.dask_scheduler import main; main()"
    )
    options = ["--port", "0", "--host", "127.0.0.1", "--no-dashboard"]
    process = subprocess.Popen([sys.executable, "-c", program, *options], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        address = next(line.split()[-1] for line in process.stderr if "Scheduler at:" in line)
        wrong = pytest.raises(ClusterError, match=r"the scheduler has distributed 2020\.1\.0")
        with wrong as caught, client.connected(address):
            pass
        assert f"pip install distributed=={distributed.__version__} there" in str(caught.value)
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()


def test_a_scheduler_that_has_gone_is_named_when_it_has_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    dask, now_s = SimpleNamespace(status="running"), [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    cluster = client.Cluster(dask, "tcp://there:8786", lambda _: None, None)

    def after(seconds: float, status: str) -> str | None:
        now_s[0] += seconds
        dask.status = status
        return cluster.gone()

    assert [after(5, "running"), after(5, "connecting"), after(19, "connecting")] == [None] * 3
    assert [after(5, "running"), after(5, "connecting"), after(19, "closed")] == [None] * 3
    assert after(2, "closed") == "the scheduler at tcp://there:8786 has gone or was restarted"


# Files for workers


def offer(data: bytes = DATA, part: dict[str, Any] = PART) -> None:
    half = len(data) // 2
    on_worker.take(part, "me", 0, data[:half])
    on_worker.take(part, "me", half, data[half:])


def test_a_file_is_there_when_its_last_piece_has_come_and_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_worker, "PIECE", 1000)
    assert not on_worker.has(PART)
    on_worker.take(PART, "me", 0, DATA[:100])
    assert not on_worker.has(PART)
    with pytest.raises(MachineError, match="has 100 octets, and the next piece begins at 50"):
        on_worker.take(PART, "me", 50, DATA[50:])
    on_worker.take(PART, "me", 100, DATA[100:])
    assert on_worker.has(PART)
    assert b"".join(on_worker.piece(PART, n) for n in range(0, len(DATA), 1000)) == DATA


def test_a_file_that_does_not_have_its_digest_is_not_kept(xoff_cache: Path) -> None:
    with pytest.raises(MachineError, match="was damaged on its way"):
        offer(bytes(len(DATA)))
    assert not on_worker.has(PART)
    assert not [path for path in (xoff_cache / "cluster" / "offered").iterdir()]


def test_a_worker_fetches_a_file_once(monkeypatch: pytest.MonkeyPatch, xoff_cache: Path) -> None:
    asked: list[int] = []

    def from_scheduler(part: object, offset: int) -> bytes:
        asked.append(offset)
        return DATA[offset : offset + 10_000]

    monkeypatch.setattr(on_worker, "_from_scheduler", from_scheduler)
    assert on_worker._file(PART).read_bytes() == DATA
    assert asked == [0, 10_000, 20_000]
    assert on_worker._file(PART).parent == xoff_cache / "cluster" / "parts"
    assert len(asked) == 3


def test_what_the_scheduler_has_on_the_same_disk_is_not_fetched() -> None:
    offer()
    assert on_worker._file(PART).read_bytes() == DATA


def test_a_shared_file_has_to_be_there_and_the_one_that_was_named(tmp_path: Path) -> None:
    file = tmp_path / "lab.tar"
    with pytest.raises(MachineError, match="is not on this machine; name a file that all workers see"):
        on_worker._shared(file, PART)
    file.write_bytes(DATA[::-1])
    with pytest.raises(MachineError, match="is not the lab that the sweep was started with"):
        on_worker._shared(file, PART)
    file.write_bytes(DATA)
    assert on_worker._shared(file, PART) == file


def test_what_a_worker_has_not_used_for_weeks_goes(xoff_cache: Path) -> None:
    offer()
    folder = xoff_cache / "cluster"
    old = [folder / "parts" / "old", folder / "code-old", folder / "lab-old"]
    for path in old:
        path.mkdir() if "-" in path.name else path.touch()
        os.utime(path, (1, 1))
    on_worker._forget_unused()
    assert not any(path.exists() for path in old)
    assert on_worker.has(PART)


def test_a_worker_without_a_cache_uses_a_temporary_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("XOFF_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / "file" / "none"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert on_worker._folder() == tmp_path / f"xoff-{os.geteuid()}" / "cluster"


def test_the_lab_in_a_shared_folder_is_written_once_and_compared(tmp_path: Path) -> None:
    packed, shared = tmp_path / "lab.tar", tmp_path / "shared.tar"
    packed.write_bytes(DATA)
    lab = parts.Part.of(packed)
    assert parts.share(lab, shared).path == shared
    assert parts.share(lab, shared).named() == PART
    shared.write_bytes(DATA + b"x")
    with pytest.raises(UsageError, match="is not this version's lab; remove it"):
        parts.share(lab, shared)
    with pytest.raises(UsageError, match="cannot be written: No such file or directory"):
        parts.share(lab, tmp_path / "none" / "lab.tar")
    with pytest.raises(UsageError, match="is not a file"):
        parts.share(lab, tmp_path)
