"""Figures of results: the same file in two processes, what differs as the legend, and messages with the way out."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

import xoff
from testbed.cli import main
from testbed.cli.house.help import TOPICS
from testbed.errors import UsageError
from testbed.plot.canvas import drawing
from testbed.plot.figure import KINDS, Plot
from testbed.plot.groups import Choice, groups_of
from testbed.plot.style import SIZES, style
from tests.report_folders import MS, flow, hostile, lines, small

ROOT = Path(__file__).parents[3]
pytest.importorskip("matplotlib", reason="matplotlib is missing")
SERIES = {
    "rates": ["t_ns,lab_ns,flow,rate_bps", "20000,20000000,h1 to h2 p3,4000000000", "30000,30000000,h1 to h2 p3,0"],
    "links": ["t_ns,lab_ns,port,load_bps", "20000,20000000,h1-eth0,5000000000", "30000,30000000,h1-eth0,0"],
    "queue": [
        "t_ns,lab_ns,port,priority,queued_bytes", "20000,20000000,s1-eth2,3,12000", "30000,30000000,s1-eth2,3,0",
    ],
}  # fmt: skip
SUMMARY = """senders,xoff,figure,runs,mean,half width of 95 %,least,most
2,80,longest delay [ns],3,1000,50,960,1040
2,160,longest delay [ns],3,2000,90,1900,2100
4,80,longest delay [ns],3,3000,150,2900,3100
4,160,longest delay [ns],3,4000,10,3990,4010
2,80,lost,3,0,0,0,0
"""


def with_flows(folder: Path, **changes: Any) -> Path:
    """Write a result with flows of many sizes in both networks, and with time series."""
    small(folder, **changes)
    begins = {0: 20 * MS, 1: 520 * MS}
    found = [
        flow(begins[case], number, size_bytes=100 * 2**number, completion_ns=3000 * (number + 1 + case))
        for case in begins
        for number in range(12)
    ]
    lines(folder / "flows.jsonl", found)
    for name, rows in SERIES.items():
        (folder / f"series-{name}.csv").write_text("\n".join(rows) + "\n")
    return folder


def sweep(folder: Path) -> Path:
    folder.mkdir()
    (folder / "summary.csv").write_text(SUMMARY)
    return folder


def folder_for(kind: str, at: Path) -> Path:
    return sweep(at / "sweep") if kind == "sweep" else with_flows(at / "one")


@pytest.mark.slow
def test_a_figure_is_the_same_file_in_another_process(tmp_path: Path) -> None:
    """The other process has other settings of matplotlib, another time zone and another seed of hashes.

    Each kind is written in one format, each format has kinds of all sorts.
    """
    folders = {}
    for kind in KINDS:
        (tmp_path / kind).mkdir()
        folders[kind] = str(folder_for(kind, tmp_path / kind))
    (tmp_path / "matplotlibrc").write_text("font.size: 20\nsavefig.dpi: 50\naxes.facecolor: red\n")
    formats = zip(KINDS, cycle(("pdf", "svg", "png")), strict=False)
    commands = [["plot", kind, folders[kind], "-o", f"{kind}.{end}"] for kind, end in formats]
    program = f"import sys; from testbed.cli import main; sys.exit(max(main(one) for one in {commands!r}))"
    here, there = tmp_path / "here", tmp_path / "there"
    for place in (here, there):
        place.mkdir()
    names = [command[-1] for command in commands]
    for *words, name in commands:
        assert main([*words, str(here / name)]) == 0
    surroundings = {"MATPLOTLIBRC": str(tmp_path), "TZ": "Asia/Tokyo", "PYTHONHASHSEED": "7", "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", program], cwd=there, env=os.environ | surroundings, check=True)
    for name in names:
        octets = (here / name).read_bytes()
        assert len(octets) > 3000 and octets == (there / name).read_bytes(), name


@pytest.mark.parametrize("ending", ["pdf", "svg", "png"])
def test_a_file_has_the_digest_of_its_result(ending: str, tmp_path: Path) -> None:
    found = xoff.plot("cdf", with_flows(tmp_path / "one"))
    path = found.save(tmp_path / f"x.{ending}")
    assert b"one: digest 1212121212121212, xoff 0.1.0" in path.read_bytes()
    assert found.sources == ["one: digest 1212121212121212, xoff 0.1.0"]


def test_the_digest_of_a_sweep_is_that_of_its_table(tmp_path: Path) -> None:
    found = xoff.plot("sweep", sweep(tmp_path / "study"))
    assert found.sources == [f"study: SHA-256 of summary.csv {hashlib.sha256(SUMMARY.encode()).hexdigest()[:16]}"]


def texts(found: Plot) -> list[str]:
    return [text.get_text() for text in found.figure.findobj(lambda one: hasattr(one, "get_text")) if text.get_text()]


def legend(found: Plot) -> list[str]:
    (box,) = found.figure.legends or [axes.get_legend() for axes in found.figure.axes if axes.get_legend()]
    return [text.get_text() for text in box.get_texts()]


def test_a_legend_is_what_differs(tmp_path: Path) -> None:
    one = with_flows(tmp_path / "one")
    assert legend(xoff.plot("cdf", one)) == ["with PFC", "without PFC"]
    two = with_flows(tmp_path / "two", parameters={"senders": 4})
    found = xoff.plot("cdf", one, two, case="with PFC")
    assert legend(found) == ["senders=2", "senders=4"]
    assert legend(xoff.plot("cdf", one, two)) == [
        "senders=2, with PFC", "senders=2, without PFC", "senders=4, with PFC", "senders=4, without PFC",
    ]  # fmt: skip
    same = with_flows(tmp_path / "again")
    assert legend(xoff.plot("cdf", one, same, case="with PFC")) == ["one", "again"]


def test_one_curve_has_no_legend(tmp_path: Path) -> None:
    found = xoff.plot("cdf", with_flows(tmp_path / "one"), case="with PFC")
    assert not found.figure.legends and not found.figure.axes[0].get_legend()


def test_runs_with_other_seeds_can_be_one_curve(tmp_path: Path) -> None:
    folders = [with_flows(tmp_path / str(seed), seed=seed) for seed in (1, 2, 3)]
    assert legend(xoff.plot("cdf", *folders, case="with PFC")) == ["seed 1", "seed 2", "seed 3"]
    (group,) = groups_of(folders, Choice(case="with PFC", pool_seeds=True))
    assert len(group.flows()) == 36
    found = xoff.plot("cdf", *folders, case="with PFC", pool_seeds=True)
    assert len(found.sources) == 3 and not found.figure.axes[0].get_legend()


def test_a_distribution_has_the_values_of_the_flows(tmp_path: Path) -> None:
    found = xoff.plot("cdf", with_flows(tmp_path / "one"), case="with PFC", log=False)
    (line,) = found.figure.axes[0].lines
    assert list(line.get_xdata()[1:4]) == [3000, 3000, 6000] and line.get_xdata()[-1] == 36_000
    assert list(line.get_ydata()[:4]) == [0, 0, 1 / 12, 2 / 12] and line.get_ydata()[-1] == 1
    assert found.figure.axes[0].get_xlabel() == "flow completion time (µs)"


def test_time_begins_with_the_first_flow_and_is_the_hardwares(tmp_path: Path) -> None:
    one = with_flows(tmp_path / "one")
    (line,) = xoff.plot("queue", one).figure.axes[0].lines
    # The first flow begins at 20 ms of the lab, and the queue is empty at 30 ms; the scale is 1000.
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([0, 10_000, 10_000], [12_000, 0, 0])
    (line,) = xoff.plot("queue", one, begin="2us", end="5us").figure.axes[0].lines
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([2000, 5000], [12_000, 12_000])
    (line,) = xoff.plot("queue", one, lab_time=True).figure.axes[0].lines
    assert list(line.get_xdata()) == [0, 10 * MS, 10 * MS]


def test_a_heat_map_is_in_percent_of_the_line(tmp_path: Path) -> None:
    axes = xoff.plot("heat", with_flows(tmp_path / "one")).figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["h1 → s1"]
    assert axes.images[0].get_array().max() == pytest.approx(50)  # 5 of 10 Gb/s


def fabric(folder: Path) -> Path:
    """Write a result of two leaves with a host each, on two spines; h1 and leaf1's first uplink had half a line."""
    small(folder)
    inner = [(leaf, spine) for leaf in ("leaf1", "leaf2") for spine in ("spine1", "spine2")]
    cables: list[dict[str, Any]] = [
        {"ends": [f"{one}-to-{other}", f"{other}-to-{one}"], "nodes": [one, other], "hardware_rate_bps": 10**10}
        for one, other in [("h1", "leaf1"), ("leaf2", "h2"), *inner]
    ]
    kinds = {name: "host" if name[0] == "h" else "switch" for cable in cables for name in cable["nodes"]}
    lines(
        folder / "networks.jsonl",
        [
            {"t_ns": 0, "network": "started", "case": "one", "topology": "LeafSpine", "nodes": kinds, "cables": cables,
             "ports": {}, "buffers": {}},
            {"t_ns": 100 * MS, "network": "ended"},
        ],
    )  # fmt: skip
    lines(folder / "flows.jsonl", [flow(20 * MS, 0, size_bytes=100, completion_ns=3000)])
    loads = ["t_ns,lab_ns,port,load_bps", *(
        f"{time},{time}000,{port},{load}"
        for time, load in ((20_000, 5 * 10**9), (30_000, 10**10), (40_000, 0))
        for port in ("h1-to-leaf1", "leaf1-to-spine1", "spine1-to-leaf2")
    )]  # fmt: skip
    (folder / "series-links.csv").write_text("\n".join(loads) + "\n")
    return folder


def cells(axes: Any) -> list[list[float]]:
    return [[round(float(value)) for value in row] for row in axes.collections[0].get_array().filled(-1)]


def test_the_links_of_a_fabric_are_a_matrix_for_each_pair_of_tiers(tmp_path: Path) -> None:
    folder = fabric(tmp_path / "one")
    up, down, _ = xoff.plot("links", folder).figure.axes
    assert [label.get_text() for label in up.get_yticklabels()] == ["leaf1", "leaf2"]
    assert [label.get_text() for label in up.get_xticklabels()] == ["spine1", "spine2"]
    assert (cells(up), cells(down)) == ([[75, 0], [0, 0]], [[0, 0], [75, 0]])
    up, down, _ = xoff.plot("links", folder, end="10us").figure.axes
    assert (cells(up), cells(down)) == ([[50, 0], [0, 0]], [[0, 0], [50, 0]])
    up, down, _ = xoff.plot("links", folder, of="hosts").figure.axes
    assert (cells(up), cells(down)) == ([[75], [0]], [[0], [0]])
    assert len(xoff.plot("links", folder, of="all").figure.axes) == 5
    with pytest.raises(UsageError, match="there is no --of edges of a figure of links; there are fabric, hosts"):
        xoff.plot("links", folder, of="edges")


def test_a_sweep_has_intervals_and_curves_for_the_other_parameters(tmp_path: Path) -> None:
    folder = sweep(tmp_path / "study")
    found = xoff.plot("sweep", folder)
    (axes,) = found.figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("xoff", "longest delay (µs)")
    assert legend(found) == ["senders=2", "senders=4"]
    spans = [path.vertices.tolist() for path in axes.collections[0].get_paths()]
    assert spans == [[[80, 950], [80, 1050]], [[160, 1910], [160, 2090]]]
    assert found.notes == ["bars are 95 % intervals of the mean over 3 seeds"]
    assert legend(xoff.plot("sweep", folder, over="senders", of="longest*")) == ["xoff=80", "xoff=160"]
    assert xoff.plot("sweep", folder, of="lost").figure.axes[0].get_ylabel() == "lost"


@pytest.mark.parametrize("size", [*SIZES, "120x60", "120mmx60mm"])
def test_a_figure_has_the_size_that_was_asked_for(size: str, tmp_path: Path) -> None:
    found = xoff.plot("cdf", with_flows(tmp_path / "one"), size=size)
    wanted = SIZES[size].width if size in SIZES else 120 / 25.4
    assert found.figure.get_size_inches()[0] == pytest.approx(wanted)


def test_fonts_that_come_with_matplotlib_are_embedded_as_named(tmp_path: Path) -> None:
    for name, octets in (("sans", b"DejaVuSans"), ("serif", b"DejaVuSerif"), ("stix", b"STIXGeneral")):
        path = xoff.plot("cdf", with_flows(tmp_path / name), font=name).save(tmp_path / f"{name}.pdf")
        assert octets in path.read_bytes()


def test_the_settings_of_the_machine_come_back() -> None:
    import matplotlib

    matplotlib.rcParams["font.size"] = 13
    with drawing(style()):
        assert matplotlib.rcParams["font.size"] == 8
    assert matplotlib.rcParams["font.size"] == 13


def test_small_print_is_there_if_asked_for(tmp_path: Path) -> None:
    folder = with_flows(tmp_path / "one")
    assert not any("digest" in text for text in texts(xoff.plot("cdf", folder)))
    assert any("digest 1212121212121212" in text for text in texts(xoff.plot("cdf", folder, show_digest=True)))


def test_names_with_markup_and_formulas_are_text(tmp_path: Path) -> None:
    for kind in ("pauses", "drops", "claims"):
        assert main(["plot", kind, str(hostile(tmp_path / kind)), "-o", str(tmp_path / "x.svg")]) in (0, 2)
        if (tmp_path / "x.svg").exists():
            assert "<script" not in (tmp_path / "x.svg").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("pause {run}", "there is no figure pause; did you mean pauses?"),
        ("{run} cdf", "the figure comes first: xoff plot cdf {run}"),
        ("cdf {run} -o x.doc", "one of .pdf, .png, .svg"),
        ("cdf {run} --of speed", "a distribution is of completion, slowdown, delay, goodput, size, and not of speed"),
        ("cdf {run} --case nothing", "no network is called 'nothing'; there are with PFC, without PFC"),
        ("cdf {run} --size a4", "there is no size a4; there are column, page, slide, or WIDTHxHEIGHT in mm"),
        ("cdf {run} --font Comic", "sans, serif, mono, stix come with matplotlib"),
        ("cdf {run} --points 900", "4 to 60 are possible"),
        ("cdf {run} --from 5us --to 4us", "the figure would end at 4us, which is not after its begin at 5us"),
        ("cdf {sweep}", "is a sweep; `xoff plot sweep` draws it"),
        ("sweep {run}", "is no sweep; `xoff sweep` makes one"),
        ("cdf {run} --over senders", "--over chooses the parameter of a sweep's figure, and cdf has none"),
        ("sweep {sweep} --over seed", "has no parameter seed in its grid"),
        ("sweep {sweep} --of longest-delays", "no figure is called 'longest-delays'; did you mean longest delay?"),
        ("queue {run} --of ports", "has no --of; --only chooses ports"),
        ("rate {bare}", "no series of rates; xoff run NAME --series 10us records it"),
        ("cdf {bare}", "no flow has a flow completion time"),
        ("slowdown {bare}", "a flow has a slowdown if it is UDP or RoCE"),
        ("heat {bare}", "no series of links"),
    ],
)
def test_a_mistake_is_one_line_with_the_way_out(
    words: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    places = {"run": with_flows(tmp_path / "run"), "sweep": sweep(tmp_path / "sweep"), "bare": small(tmp_path / "bare")}
    assert main(["plot", *(word.format(**places) for word in words.split())]) == 2
    said = capsys.readouterr().err
    assert message.format(**places) in said and said.count("xoff:") == 1


def test_what_a_figure_leaves_out_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = with_flows(tmp_path / "one")
    assert main(["plot", "buffer", str(folder)]) == 0
    assert "without a time series the buffer is known at crossings of thresholds only" in capsys.readouterr().err
    assert (folder / "buffer.pdf").is_file(), "by default it goes into the result folder"
    (folder / "flows.jsonl").write_text("{}\n" + json.dumps(flow(20 * MS, 0)) + "\n")
    assert main(["plot", "cdf", str(folder)]) == 0
    assert "line 1 of flows.jsonl is no flow" in capsys.readouterr().err


def test_a_result_that_is_not_in_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no folder, so there is nothing to draw"):
        xoff.plot("cdf", 7)
    with pytest.raises(UsageError, match="is of at least one result"):
        xoff.plot("cdf")


def test_the_topic_of_help_has_every_figure() -> None:
    for name, kind in KINDS.items():
        assert f"  {name:<10} {kind.summary}" in TOPICS["plots"].text


def of_a_grid(at: Path, loads: tuple[str, ...] = ("30%", "60%", "90%")) -> list[Path]:
    controls = ("dcqcn", "swift", "timely", "hpcc")
    return [
        with_flows(at / f"{load}-{control}", parameters={"load": load, "control": control})
        for load in loads
        for control in controls
    ]


@pytest.mark.parametrize("kind", ["cdf", "slowdown"])
def test_twelve_curves_are_refused_and_have_panels_of_a_parameter(kind: str, tmp_path: Path) -> None:
    folders = of_a_grid(tmp_path)
    with pytest.raises(UsageError, match=r"12 curves cannot be told apart: .* --panels load makes 3 panels of them"):
        xoff.plot(kind, *folders, case="with PFC")
    found = xoff.plot(kind, *folders, case="with PFC", panels="load", size="page")
    assert legend(found) == [f"control={name}" for name in ("dcqcn", "swift", "timely", "hpcc")]
    titles = [axes.get_title().partition(",")[0] for axes in found.figure.axes]
    assert list(dict.fromkeys(titles)) == ["load=30%", "load=60%", "load=90%"]
    for axes in found.figure.axes:
        looks = [(line.get_color(), line.get_label()) for line in axes.lines]
        assert len(looks) == 4 and looks == [
            (line.get_color(), line.get_label()) for line in found.figure.axes[0].lines
        ], "a control has the same colour in each panel"


def test_panels_are_in_the_order_of_numbers_and_of_what_differs(tmp_path: Path) -> None:
    folders = of_a_grid(tmp_path, ("90%", "5%", "30%"))
    found = xoff.plot("cdf", *folders, case="with PFC", panels="load")
    assert [axes.get_title() for axes in found.figure.axes] == ["load=5%", "load=30%", "load=90%"]
    with pytest.raises(UsageError, match="--panels loads: the results do not differ in it; they do in load, control"):
        xoff.plot("cdf", *folders, case="with PFC", panels="loads")
    with pytest.raises(UsageError, match="--panels is for cdf, slowdown and sweep; queue has a panel for each network"):
        xoff.plot("queue", *folders, panels="load")
    with pytest.raises(UsageError, match="which takes 152 mm; --size page has them"):
        xoff.plot("slowdown", *folders, case="with PFC", panels="load")


@pytest.mark.parametrize("size", ["column", "page", "slide", "60x140"])
@pytest.mark.parametrize("kind", ["cdf", "slowdown"])
def test_a_legend_is_within_the_edges(kind: str, size: str, tmp_path: Path) -> None:
    folders = [
        with_flows(
            tmp_path / str(number), parameters={"topo": f"leaf-spine,{number},4,4,ways=MMMM", "at": f"{number} WAN"}
        )
        for number in range(7)
    ]
    found = xoff.plot(kind, *folders, case="with PFC", size=size)
    found.figure.draw_without_rendering()
    (box,) = found.figure.legends
    place, page = box.get_window_extent(), found.figure.bbox
    assert place.x0 >= 0 and place.x1 <= page.x1 and place.y1 <= page.y1 and len(legend(found)) == 7
    if size != "60x140":  # a figure of no fixed height is higher for its legend
        assert min(axes.get_window_extent().height for axes in found.figure.axes) > 0.3 * found.figure.dpi


def test_results_have_the_names_that_are_given(tmp_path: Path) -> None:
    folders = of_a_grid(tmp_path)[:3]
    found = xoff.plot("cdf", *folders, case="with PFC", labels=["ours", "Swift", "TIMELY"])
    assert legend(found) == ["ours", "Swift", "TIMELY"]
    found = xoff.plot("cdf", *folders[:2], labels=["ours", "theirs"])
    assert legend(found) == [f"{one}, {case}" for one in ("ours", "theirs") for case in ("with PFC", "without PFC")]
    with pytest.raises(UsageError, match="there are 2 labels and 3 results; each result has one"):
        xoff.plot("cdf", *folders, labels=["ours", "theirs"])


def test_a_sweep_of_many_curves_has_panels_of_a_parameter(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    folder.mkdir()
    rows = [
        f"{load}%,{control},{ways},slowdown,1,{load},0,{load},{load}"
        for load in (30, 60)
        for control in ("dcqcn", "swift", "timely", "hpcc")
        for ways in ("hash", "spray")
    ]
    head = "load,control,ways,figure,runs,mean,half width of 95 %,least,most"
    (folder / "summary.csv").write_text("\n".join([head, *rows]) + "\n")
    with pytest.raises(UsageError, match=r"8 curves cannot be told apart: .* --panels ways makes 2 panels of them"):
        xoff.plot("sweep", folder, over="load")
    found = xoff.plot("sweep", folder, over="load", panels="ways")
    assert [axes.get_title() for axes in found.figure.axes] == ["ways=hash", "ways=spray"]
    assert legend(found) == [f"control={name}" for name in ("dcqcn", "swift", "timely", "hpcc")]
    with pytest.raises(UsageError, match="--panels load: beside load, study has the parameters control, ways"):
        xoff.plot("sweep", folder, over="load", panels="load")
