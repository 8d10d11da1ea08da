"""Metrics as Prometheus has them: it scrapes a running lab, and takes the history of a result."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from testbed.lab.engines.engine import PreparedEngine
from tests.report_folders import MS, small

pytest.importorskip("uvicorn", reason="the Python packages of the extra `serve` are missing")
pytestmark = [
    pytest.mark.packages("prometheus"),
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="Debian's package prometheus is missing"),
]
ROOT = Path(__file__).parents[3]


@contextmanager
def started(command: list[str], **settings: Any) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, **settings)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


@contextmanager
def prometheus(folder: Path, config: str) -> Iterator[Callable[..., list[dict[str, Any]]]]:
    """Run Prometheus with its data in a folder, and yield a function that evaluates an expression."""
    (folder / "prometheus.yml").write_text(config)
    port = free_port()
    command = [
        "prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}", "--storage.tsdb.retention.time=100y", "--log.level=warn",
    ]  # fmt: skip
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def query(expression: str, **when: str) -> list[dict[str, Any]]:
        asked = urllib.parse.urlencode({"query": expression, **when})
        with direct.open(f"http://127.0.0.1:{port}/api/v1/query?{asked}", timeout=10) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return found

    with started(command, stderr=subprocess.DEVNULL):
        until(lambda: _answers(query))
        yield query


def _answers(query: Callable[[str], object]) -> bool:
    try:
        query("1")
    except OSError:
        return False
    return True


def until(holds: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.1)


def test_prometheus_scrapes_a_running_lab(ready: PreparedEngine, tmp_path: Path) -> None:
    from websockets.sync.client import connect

    token = tmp_path / "token"
    serve = [sys.executable, "-m", "testbed", "serve", "incast,2", "--port", "0", "--token-file", str(token)]
    serve += ["--engine", ready.engine.name]
    with started(serve, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        address = urllib.parse.urlsplit(process.stdout.readline().strip())
        bearer = {"Authorization": f"Bearer {token.read_text().strip()}"}
        with connect(f"ws://{address.netloc}/socket", additional_headers=bearer, proxy=None) as viewer:
            flow = {"do": "traffic", "source": "h1,h2", "target": "r", "priority": 3}
            viewer.send(json.dumps(flow))
        config = f"""
scrape_configs:
  - job_name: xoff
    scrape_interval: 500ms
    scrape_timeout: 500ms
    authorization: {{credentials_file: {token}}}
    static_configs: [{{targets: ["{address.netloc}"]}}]
"""
        with prometheus(tmp_path, config) as query:
            until(lambda: any(float(one["value"][1]) > 10 for one in query('{sonic="SAI_PORT_STAT_PFC_3_TX_PKTS"}')))
            (sent,) = query('sum by (node) (xoff_pfc_sent_frames_total{priority="3",node="s1"})')
            (received,) = query('sum(xoff_pfc_received_frames_total{priority="3",node=~"h.*"})')
            assert float(sent["value"][1]) > 10 and float(received["value"][1]) > 10
            until(lambda: any(float(one["value"][1]) > 0 for one in query('{sonic="SAI_QUEUE_STAT_PACKETS"}')))
            until(lambda: any(float(one["value"][1]) > 0 for one in query("rate(xoff_pfc_paused_seconds_total[5s])")))
            (most,) = query("max(xoff_priority_group_shared_watermark_bytes)")
            assert 0 < float(most["value"][1]) < 10**6
            assert [one["value"][1] for one in query("up")] == ["1"]
            board = json.loads((ROOT / "docs/examples/grafana-xoff.json").read_text())
            for panel in board["panels"]:
                for target in panel["targets"]:
                    expression = target["expr"].replace("$__rate_interval", "5s").replace("$job", "xoff")
                    query(expression.replace("$node", ".*"))  # a wrong one is HTTP 400


def test_prometheus_takes_the_history_of_a_result(tmp_path: Path) -> None:
    from testbed.serve import history

    text = history.exposition(small(tmp_path / "one"), MS, 1_700_000_000 * 10**9)
    (tmp_path / "one.txt").write_text(text)
    made = subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", tmp_path / "one.txt", tmp_path / "data"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    with prometheus(tmp_path, "scrape_configs: []\n") as query:
        labels = 'sonic="SAI_PORT_STAT_PFC_3_TX_PKTS",port="s1-eth1",network="1"'
        values = [
            query(f"{{{labels}}}", time=f"{1_700_000_000 + at}")[0]["value"][1] for at in (0.05, 0.115, 0.205, 0.4)
        ]
    assert values == ["0", "1", "3", "4"]
