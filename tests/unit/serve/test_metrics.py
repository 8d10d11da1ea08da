"""Metrics of a running lab and of a result: exact counts, by the parser of prometheus_client; and who may read them."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parsed

pytest.importorskip("uvicorn", reason="the Python packages of the extra `serve` are missing")
from testbed.errors import UsageError, plain
from testbed.metrics.openmetrics import CONTENT_TYPE
from testbed.serve import history
from testbed.serve.access import Access, token_of
from testbed.serve.live_lab import LabMetrics
from tests.live_lab import described, scripted, window
from tests.report_folders import HOSTILE, MS, hostile, pause, small
from tests.unit.serve.test_app import asked, cookie, served

Found = dict[str, list[tuple[dict[str, str], float, float | None]]]


def read(text: str) -> Found:
    """Return the samples by their names."""
    found: Found = {}
    for family in parsed(text):
        for one in family.samples:
            at = None if one.timestamp is None else float(Decimal(str(one.timestamp)))
            found.setdefault(one.name, []).append((dict(one.labels), one.value, at))
    return found


def values(found: Found, name: str, **labels: str) -> list[float]:
    return [value for have, value, _ in found.get(name, []) if labels.items() <= have.items()]


def as_rows(events: list[dict[str, Any]]) -> list[list[Any]]:
    known = ("t", "event", "port", "priorities")
    return [[*(one[key] for key in known), {k: v for k, v in one.items() if k not in known}] for one in events]


COUNTERS = {
    "live": "counters",
    "t_ns": 300 * MS,
    "rows": [
        {
            "of": "s1-eth2",
            "sent_frames": [5, 0, 0, 70, 0, 0, 0, 0],
            "sent_bytes": [500, 0, 0, 105980, 0, 0, 0, 0],
            "blocked_frames": [0] * 8,
            "queued_bytes": [0, 0, 0, 1514, 0, 0, 0, 0],
            "most_queued_bytes": [0, 0, 0, 30280, 0, 0, 0, 0],
            "admitted_frames": [0, 0, 0, 9, 0, 0, 0, 0],
            "dropped_frames": [0, 0, 0, 0, 0, 0, 4, 0],
            "shared_bytes": [0, 0, 0, 1664, 0, 0, 0, 0],
            "headroom_bytes": [0] * 8,
            "most_shared_bytes": [0, 0, 0, 62400, 0, 0, 0, 0],
            "most_headroom_bytes": [0, 0, 0, 208, 0, 0, 0, 0],
            "queue_dropped_frames": [0] * 8,
            "trimmed_frames": [0, 0, 0, 6, 0, 0, 0, 0],
            "rests_sent_frames": [0, 0, 0, 5, 0, 0, 0, 0],
            "rests_dropped_frames": [0, 0, 0, 1, 0, 0, 0, 0],
        },
        {
            "of": "s1 pool 0",
            "node": "s1",
            "pool": "ingress_pool_0",
            "shared_bytes": 1664,
            "most_shared_bytes": 62608,
        },
    ],
}


def test_a_running_lab_has_the_counters_of_its_last_lines() -> None:
    metrics = LabMetrics(described())
    assert values(read(metrics.text()), "xoff_pfc_sent_frames_total", port="s1-eth1", priority="3") == [0]
    metrics.update([window(250 * MS, events=as_rows(pause(100 * MS, 130 * MS)), marks=[[0, "s1-eth2", 12]]), COUNTERS])
    found = read(metrics.text())
    assert values(found, "xoff_pfc_sent_frames_total", sonic="SAI_PORT_STAT_PFC_3_TX_PKTS", port="s1-eth1") == [2]
    assert values(found, "xoff_pfc_received_frames_total", sonic="SAI_PORT_STAT_PFC_3_RX_PKTS", port="h1-eth0") == [2]
    assert values(found, "xoff_pfc_paused_seconds_total", port="h1-eth0", priority="3") == [0.03]
    assert values(found, "xoff_pfc_congestions_total", port="s1-eth1", node="s1") == [1]
    assert values(found, "xoff_port_ecn_marked_frames_total", port="s1-eth2") == [12]
    assert values(found, "xoff_queue_frames_total", sonic="SAI_QUEUE_STAT_PACKETS", queue="0") == [5]
    assert values(found, "xoff_queue_bytes_total", port="s1-eth2", queue="3") == [105980]
    assert values(found, "xoff_queue_frames_total", port="s1-eth2", queue="1") == [], "a priority that nothing uses"
    assert values(found, "xoff_queue_trimmed_frames_total", sonic="SAI_QUEUE_STAT_TRIM_PACKETS", queue="3") == [6]
    assert values(found, "xoff_queue_trimmed_sent_frames_total", port="s1-eth2", queue="3") == [5]
    assert values(found, "xoff_queue_trimmed_dropped_frames_total", port="s1-eth2", queue="3") == [1]
    group = {"port": "s1-eth2", "group": "6", "sonic": "SAI_INGRESS_PRIORITY_GROUP_STAT_DROPPED_PACKETS"}
    assert values(found, "xoff_priority_group_dropped_frames_total", **group) == [4]
    assert values(found, "xoff_priority_group_headroom_watermark_bytes", group="3") == [208]
    assert values(found, "xoff_buffer_pool_watermark_bytes", node="s1", pool="ingress_pool_0") == [62608]
    assert values(found, "xoff_lab_time_seconds") == [0.3]
    assert values(found, "xoff_lab_scale") == [1000]
    assert values(found, "xoff_network_info", topology="Star") == [1]


def test_the_link_layer_of_a_port_has_its_counters() -> None:
    credit = {
        "sender_credits_consumed": 480, "sender_credits_freed": 456, "sender_credits_used": 24,
        "sender_credits_used_watermark": 48, "stalls": 3, "stalled_ns": 2_000_000, "receiver_credits_consumed": 0,
        "receiver_credits_freed": 0, "lost": 1,
    }  # fmt: skip
    messages = {f"num_{kind}_messages_{way}": 7 for kind in ("cf_update", "cc_update") for way in ("tx", "rx")}
    row = {"of": "s1-eth2", "llr": {"counters": {"TX_OK": 102, "TX_REPLAY": 2}, "flushes": 1, "lost": 2},
           "credits": {"vcs": {"3": credit}, "num_cf_updates_refused": 0, **messages}}  # fmt: skip
    metrics = LabMetrics(described())
    metrics.update([{"live": "counters", "t_ns": MS, "rows": [row]}])
    found = read(metrics.text())
    assert values(found, "xoff_llr_counter_total", sonic="SAI_PORT_STAT_LLR_TX_REPLAY", port="s1-eth2") == [2]
    assert values(found, "xoff_llr_counter_total", counter="TX_OK", node="s1") == [102]
    assert values(found, "xoff_llr_flushes_total", port="s1-eth2") == [1]
    assert values(found, "xoff_line_lost_frames_total", port="s1-eth2") == [2]
    assert values(found, "xoff_credits_consumed_total", port="s1-eth2", vc="3") == [480]
    assert values(found, "xoff_credits_used", vc="3") == [24]
    assert values(found, "xoff_credits_used_watermark", vc="3") == [48]
    assert values(found, "xoff_credits_stalled_seconds_total", vc="3") == [0.002]
    assert values(found, "xoff_credits_lost_total", vc="3") == [1]
    assert values(found, "xoff_credit_messages_total", message="cf_update", direction="rx") == [7]


def test_a_storm_and_frames_that_were_ignored_are_counted() -> None:
    metrics, port = LabMetrics(described()), {"port": "s1-eth1", "priorities": [3]}
    storm = [
        {"t": MS, "event": "xoff_received", **port, "quanta": 65535},
        {"t": 5 * MS, "event": "storm_detected", **port, "paused_ns": 4 * MS},
        {"t": 6 * MS, "event": "ignored", **port, "reason": "storm"},
        {"t": 7 * MS, "event": "ignored", "port": "s1-eth1", "priorities": [], "reason": "too_short"},
    ]
    metrics.update([window(8 * MS, events=as_rows(storm))])
    found = read(metrics.text())
    assert values(found, "xoff_pfc_received_frames_total", port="s1-eth1") == [2]
    assert values(found, "xoff_pfc_paused_seconds_total", port="s1-eth1") == [0.004], "the watchdog ended it"
    assert values(found, "xoff_pfc_watchdog_storms_total", sonic="PFC_WD_QUEUE_STATS_DEADLOCK_DETECTED",
                  port="s1-eth1") == [1]  # fmt: skip
    assert values(found, "xoff_pfc_watchdog_stormed", port="s1-eth1") == [1]
    metrics.update([window(9 * MS, events=as_rows([{"t": 9 * MS, "event": "storm_ended", **port, "lasted_ns": 1}]))])
    assert values(read(metrics.text()), "xoff_pfc_watchdog_stormed", port="s1-eth1") == [0]


def test_the_history_of_a_result_has_the_labs_time(tmp_path: Path) -> None:
    folder = small(tmp_path / "one")
    found = read(history.exposition(folder))
    mine = {"port": "s1-eth1", "priority": "3", "network": "1"}
    sent = [(value, at) for have, value, at in found["xoff_pfc_sent_frames_total"] if mine.items() <= have.items()]
    assert sent == [(0, 0.01), (1, 0.1), (2, 0.13), (3, 0.2), (4, 0.22), (4, 0.5)]
    paused = [
        (value, at)
        for have, value, at in found["xoff_pfc_paused_seconds_total"]
        if have["port"] == "h1-eth0" and have["network"] == "1"
    ]
    assert paused[0] == (0, 0.01) and paused[-1] == (0.05, 0.5) and (0.03, 0.131) in paused
    assert {have["case"] for have, _, _ in found["xoff_network_info"]} == {"with PFC", "without PFC"}
    assert {have["result"] for have, _, _ in found["xoff_pfc_sent_frames_total"]} == {"one"}
    assert values(found, "xoff_pfc_sent_frames_total", network="2", port="s1-eth1") == [0, 0]


def test_the_history_begins_at_a_time_and_has_as_many_points_as_are_asked_for(tmp_path: Path) -> None:
    folder = small(tmp_path / "one")
    found = read(history.exposition(folder, 50 * MS, 1000 * 10**9))
    sent = [
        (value, at)
        for have, value, at in found["xoff_pfc_sent_frames_total"]
        if have["port"] == "s1-eth1" and have["network"] == "1"
    ]
    assert sent == [(0, 1000.05), (1, 1000.1), (2, 1000.15), (3, 1000.2), (4, 1000.25), (4, 1000.5)]


def test_series_of_a_result_are_gauges_in_octets_and_bad_rows_are_left_out(tmp_path: Path) -> None:
    folder = small(tmp_path / "one")
    heads = "t_ns,lab_ns,port,priority,guaranteed,shared,headroom,xoff\n"
    rows = f"0.1,{100 * MS},s1-eth1,3,0,299,7,0\n0.1,{100 * MS},s1-eth1,3,0,x,7,0\n0.2,{10**12},s1-eth1,3,0,1,1,0\n"
    (folder / "series-buffer.csv").write_text(heads + rows + f"0.2,{101 * MS + 1},s1-eth1,3,0,300,0,1\n")
    (folder / "series-queue.csv").write_text(f"t_ns,lab_ns,port,priority,queued_bytes\n1,{20 * MS},s1-eth2,3,1514\n")
    (folder / "series-marks.csv").write_text(f"t_ns,lab_ns,port,marked\n1,{600 * MS},s1-eth2,5\n")
    found = read(history.exposition(folder))
    shared = [(value, at) for _, value, at in found["xoff_priority_group_shared_occupancy_bytes"]]
    assert shared == [(299 * 208, 0.1), (300 * 208, 0.102)]
    assert values(found, "xoff_queue_occupancy_bytes", queue="3", sonic="SAI_QUEUE_STAT_CURR_OCCUPANCY_BYTES") == [1514]
    assert values(found, "xoff_port_ecn_marked_frames_total", network="2") == [5]


def test_a_hostile_result_is_labels_that_a_parser_reads(tmp_path: Path) -> None:
    found = read(history.exposition(hostile(tmp_path / "one")))
    shown = plain(f"{HOSTILE}with PFC")
    assert shown != f"{HOSTILE}with PFC" and any(have["case"] == shown for have, _, _ in found["xoff_network_info"])


def test_too_many_points_and_wrong_words_name_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST_POINTS", 20)
    with pytest.raises(UsageError, match=re.escape("more than 20 points; ask for fewer, as in ?every=10ms")):
        history.exposition(small(tmp_path / "one"))
    assert history.asked({}) == (MS, 0)
    assert history.asked({"every": "10ms", "start": "1700000000"}) == (10 * MS, 1_700_000_000 * 10**9)
    for query in ({"every": "1us"}, {"every": "often"}, {"start": "-1"}, {"start": "now"}, {"begin": "1"}):
        with pytest.raises(UsageError, match=next(iter(query.values())) if "begin" not in query else "begin"):
            history.asked(query)


def test_the_lab_does_not_see_who_asks_for_metrics(tmp_path: Path) -> None:
    left = []
    for asks in (False, True):
        folder = tmp_path / str(asks)
        folder.mkdir()
        session, live = scripted(folder)
        for t_ns in (MS, 2 * MS, 3 * MS):
            session.write(window(t_ns), COUNTERS)
            for line in live.lab.lines(t_ns / 1e9):
                live.metrics.update([line])
                live.feed.update([line])
                if asks:
                    live.metrics.text()
        assert values(read(live.metrics.text()), "xoff_queue_frames_total", port="s1-eth2", queue="3") == [70]
        left.append((session.commands, session.continued, live.feed.snapshot()))
    assert left[0] == left[1]


def test_the_server_answers_programs_that_have_the_token(tmp_path: Path) -> None:
    folders = [small(tmp_path / "one"), small(tmp_path / "two")]
    _, live = scripted(tmp_path)

    async def test(access: Access) -> None:
        for path in ("/metrics", "/result/1/metrics"):
            assert (await asked(access, path))[0] == 401
            assert (await asked(access, path, Authorization="Bearer wrong"))[0] == 401
        bearer = {"Authorization": f"Bearer {access.token}"}
        status, headers, body = await asked(access, "/metrics", **bearer)
        assert status == 200 and headers["content-type"] == CONTENT_TYPE and body.endswith("# EOF\n")
        status, _, body = await asked(access, "/result/2/metrics?every=10ms", **bearer)
        assert status == 200 and values(read(body), "xoff_network_info", result="two") == [1, 1]
        assert (await asked(access, "/result/3/metrics", Cookie=cookie(access)))[0] == 404
        status, _, body = await asked(access, "/result/1/metrics?every=x", **bearer)
        assert status == 400 and "x" in body and body[-1] == "\n"

    served(test, folders, live)


def test_without_a_lab_the_one_result_has_the_metrics(tmp_path: Path) -> None:
    one, other = small(tmp_path / "one"), small(tmp_path / "two")

    async def single(access: Access) -> None:
        assert "xoff_pfc_sent_frames_total" in (await asked(access, "/metrics", Cookie=cookie(access)))[2]

    async def several(access: Access) -> None:
        status, _, body = await asked(access, "/metrics", Cookie=cookie(access))
        assert status == 404 and "/result/1/metrics" in body

    served(single, [one], None)
    served(several, [one, other], None)


def test_a_token_file_is_made_once_and_closed_to_others(tmp_path: Path) -> None:
    file = tmp_path / "token"
    token = token_of(file)
    assert token_of(file) == token and file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o640)
    with pytest.raises(UsageError, match="chmod 600"):
        token_of(file)
    file.chmod(0o600)
    file.write_text("short\n")
    with pytest.raises(UsageError, match="16 to 200"):
        token_of(file)
    with pytest.raises(UsageError, match="not a file"):
        token_of(tmp_path)
    with pytest.raises(UsageError, match="No such file"):
        token_of(tmp_path / "nowhere" / "token")


DASHBOARD = Path(__file__).parents[3] / "docs/examples/grafana-xoff.json"


def test_every_expression_of_the_dashboard_names_exported_metrics() -> None:
    from testbed.metrics.names import EXPORTED

    known = {one.sample for one in EXPORTED}
    board = json.loads(DASHBOARD.read_text())
    expressions = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    assert len(expressions) >= 10
    for expression in expressions:
        used = set(re.findall(r"\bxoff_\w+", expression))
        assert used and used <= known, expression
        assert expression.count("(") == expression.count(")")
    variables = [one["query"] for one in board["templating"]["list"] if one["type"] == "query"]
    assert all(set(re.findall(r"\bxoff_\w+", one)) <= known for one in variables)
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
