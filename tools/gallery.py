"""The gallery of the documentation: a card for each experiment, conformance case and lesson, with its picture.

`docs/gallery.toml` has the question of each card, and which values of the result its picture shows.
`docs/gallery/data.json` has these values and the digest of the result that they are from, `docs/gallery/NAME.svg` is
the picture. `xoff docs --figures` makes what is missing or older than `experiments/digests.json`, and
`xoff verify --update` makes the pictures of what it runs. Nothing in a picture depends on the machine.

`docs/gallery/sample.tar.xz` has the result folders of four experiments, of which the site's sample reports are made.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.errors import UsageError, XoffError, nearest
from testbed.experiment import definition
from testbed.experiment.definition import Experiment
from testbed.lab.results import folder as result_folder
from testbed.lab.results.folder import Folder, Network
from testbed.lab.results.result import Result
from testbed.lab.studies import references
from testbed.report.pages.page import report
from testbed.report.pages.topology import places
from testbed.report.timeline.tracks import PAUSED, natural, tracks
from testbed.subjects.lessons.lesson import lessons
from tools import charts
from tools.charts import Chart

SOURCES = Path(__file__).parents[1]
"""The checkout that this file is in."""
CARDS = Path("docs/gallery.toml")
FOLDER = Path("docs/gallery")
DATA = FOLDER / "data.json"
LESSON = "lesson-"
"""What the names of lessons begin with, since an experiment may have the name of a lesson."""
ENGINE = "um"
SAMPLES = ("incast", "victim", "deadlock", "cross_dc")
"""The experiments of the sample reports."""
ARCHIVE = FOLDER / "sample.tar.xz"
_MOST_NODES = 16
_PATH = re.compile(r"(?P<name>.+?)(?:#(?P<which>\d))?(?:\|(?P<path>.+))?")


class GalleryError(XoffError):
    """Raised if a picture cannot be made of a result."""


@dataclass(frozen=True)
class Card:
    """A card as it is written in the list."""

    name: str
    group: str
    question: str
    picture: Mapping[str, Any]

    @property
    def recipe(self) -> str:
        """The digest of what the picture shows."""
        return hashlib.sha256(json.dumps(self.picture, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Group:
    """Cards under one heading."""

    name: str
    title: str
    text: str


def groups(root: Path) -> list[Group]:
    listed = tomllib.loads((root / CARDS).read_text())["group"]
    return [Group(name, one["title"], one["text"]) for name, one in listed.items()]


def cards(root: Path) -> dict[str, Card]:
    """Return the cards in the order of the list."""
    listed = tomllib.loads((root / CARDS).read_text())["card"]
    return {name: Card(name, one["group"], one["question"], one["picture"]) for name, one in listed.items()}


def data(root: Path) -> dict[str, Any]:
    """Return what is kept of results, by card."""
    path = root / DATA
    found: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    return found


def sources() -> dict[str, Experiment]:
    """Return the experiment of each card that there has to be."""
    shipped = {experiment.name: experiment for experiment in definition.shipped()}
    solved = {f"{LESSON}{one.name}": definition.load_file(one.folder / "solution.py") for one in lessons()}
    return shipped | solved


def stale(root: Path) -> dict[str, str]:
    """Return the cards whose picture is missing or old, with the reason."""
    kept, reference = data(root), references.read(root)[ENGINE]
    found = {}
    for name, card in cards(root).items():
        if name not in kept or not (root / FOLDER / f"{name}.svg").is_file():
            found[name] = "there is none"
        elif kept[name]["recipe"] != card.recipe:
            found[name] = f"{CARDS} has changed"
        elif name.startswith(LESSON):
            if kept[name]["solution"] != _solution(name):
                found[name] = "the lesson's solution has changed"
            elif kept[name].get("kernel") != reference.kernel:
                found[name] = "the lab's kernel has changed"
        elif kept[name]["digest"] != reference.digests.get(name):
            found[name] = "the experiment gives another result"
    return found


def update(root: Path, results: Sequence[Result]) -> None:
    """Make the pictures of results of shipped experiments, whose folders are there."""
    if (root / CARDS).is_file():
        made = {result.experiment: result for result in results if result.passed and result.provenance.engine == ENGINE}
        write(root, made)
        from tools import site_reports

        site_reports.keep(root, made)


def write(root: Path, made: Mapping[str, Result]) -> None:
    """Put the values of results, by card, into the file, and draw all pictures from it."""
    kept, listed = data(root), cards(root)
    for name, result in made.items():
        if name in listed:
            kept[name] = _kept(listed[name], result)
    kept = {name: kept[name] for name in sorted(kept) if name in listed}
    if any(name in SAMPLES for name in made):
        _keep_samples(root, made)
    (root / FOLDER).mkdir(exist_ok=True)
    text = _as_text(kept)
    (root / DATA).write_text(text, encoding="utf-8")
    drawn = {f"{name}.svg": picture(name, one) for name, one in json.loads(text).items()}
    for path in (root / FOLDER).glob("*.svg"):
        if path.name not in drawn:
            path.unlink()
    for file, text in drawn.items():
        (root / FOLDER / file).write_text(text, encoding="utf-8")


def samples(root: Path) -> dict[str, dict[str, bytes]]:
    """Return the files of the result folders that the sample reports are made of, by experiment."""
    found: dict[str, dict[str, bytes]] = {}
    if (root / ARCHIVE).is_file():
        with tarfile.open(root / ARCHIVE) as archive:
            for member in archive:
                experiment, _, file = member.name.partition("/")
                if experiment in SAMPLES and "/" not in file and (content := archive.extractfile(member)) is not None:
                    found.setdefault(experiment, {})[file] = content.read()
    return found


def sample_reports(root: Path) -> dict[str, str]:
    """Return the sample reports as HTML, by experiment."""
    found = {}
    for name, files in samples(root).items():
        with tempfile.TemporaryDirectory(prefix="xoff-") as place:
            folder = Path(place) / name
            folder.mkdir()
            for file, content in files.items():
                (folder / file).write_bytes(content)
            found[name] = report([folder])
    return found


def _keep_samples(root: Path, made: Mapping[str, Result]) -> None:
    kept = samples(root)
    for name in SAMPLES:
        if name in made and (folder := made[name].folder) is not None:
            kept[name] = {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}
    (root / FOLDER).mkdir(exist_ok=True)
    with tarfile.open(root / ARCHIVE, "w:xz", preset=9, format=tarfile.USTAR_FORMAT) as archive:
        for name in SAMPLES:
            for file, content in kept.get(name, {}).items():
                member = tarfile.TarInfo(f"{name}/{file}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))


def picture(name: str, kept: Mapping[str, Any]) -> str:
    """Return the picture of a card, of what is kept of its result."""
    return charts.draw(Chart.from_json(kept["chart"]), name, kept.get("network"))


def in_words(kept: Mapping[str, Any]) -> str:
    """Return what the picture of a card shows, for those who do not see it."""
    return charts.in_words(Chart.from_json(kept["chart"]))


def require(root: Path, named: Iterable[str]) -> None:
    """Raise an error if there is no such card."""
    known = cards(root)
    for name in named:
        if name not in known:
            raise UsageError(f"there is no card {name[:40]}; {nearest(name, known)}")


def make(root: Path, wanted: Iterable[str], run: Callable[[str, Experiment, str], Result]) -> None:
    """Run the experiments of these cards and make their pictures, one after the other, and keep their reports."""
    from tools import site_reports

    for name, result in results(wanted, run):
        write(root, {name: result})
        site_reports.keep(root, {name: result})


def results(wanted: Iterable[str], run: Callable[[str, Experiment, str], Result]) -> Iterator[tuple[str, Result]]:
    """Run the experiments of these cards and yield each result, whose folder is there until the next."""
    found = sources()
    for name in wanted:
        with tempfile.TemporaryDirectory(prefix="xoff-") as out:
            result = run(name, found[name], out)
            if not result.passed:
                raise GalleryError(f"{name} has not passed ({result.reason or 'a claim does not hold'}): no picture")
            yield name, result


def _kept(card: Card, result: Result) -> dict[str, Any]:
    """Return what is kept of a result: digests, the chart, and the network that it is of."""
    assert result.folder is not None
    folder = result_folder.read(result.folder)
    chart = chart_of(card, folder)
    kept: dict[str, Any] = {"digest": result.digest, "recipe": card.recipe}
    if card.name.startswith(LESSON):  # the repository has no digests of lessons
        kept |= {"solution": _solution(card.name), "kernel": result.provenance.kernel_digest}
    network = _network(card, folder)
    if network is not None and len(network.nodes) <= _MOST_NODES:
        kept["network"] = _plan(network)
    return kept | {"chart": chart.as_json()}


def _solution(name: str) -> str:
    path = next(one.folder for one in lessons() if name == f"{LESSON}{one.name}") / "solution.py"
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _as_text(kept: Mapping[str, Any]) -> str:
    """Return JSON with a line for each card, so that a change shows which."""
    lines = [
        f" {json.dumps(name)}: {json.dumps(one, sort_keys=True, ensure_ascii=False)}" for name, one in kept.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


# What a picture shows


def chart_of(card: Card, folder: Folder) -> Chart:
    """Return the chart of a card for a result."""
    told = card.picture
    try:
        rows = tuple(_lanes(card, folder) if told["kind"] == "lanes" else _values(card, folder))
    except (KeyError, IndexError, TypeError) as error:
        raise GalleryError(f"{CARDS}: {card.name}: {type(error).__name__}: {error}") from None
    axis = str(told.get("axis", ""))
    if told["kind"] == "lanes":
        start, end = _window(card, folder)
        axis = charts.written((end - start) / folder.units.k, "ns")
    chart = Chart(told["kind"], told["title"], rows, str(told.get("unit", "")), axis)
    if wrong := charts.problems(chart):
        raise GalleryError(f"{CARDS}: {card.name}: {'; '.join(wrong)}")
    return chart


def _values(card: Card, folder: Folder) -> Iterable[tuple[str, str, tuple[Any, ...]]]:
    """Return the rows of bars or curves. Each is (label, place of the value, tone)."""
    for label, place, tone in card.picture["rows"]:
        found = value(folder, place)
        if card.picture["kind"] == "curves":
            yield label, tone, tuple(map(_short, found))
        else:
            yield label, tone, (_short(found),)


def value(folder: Folder, place: str) -> Any:
    """Return a figure or claim of a result. In `name#2|key|0` the second of that name is meant, and a part of it."""
    match = _PATH.fullmatch(place)
    assert match is not None
    named = [one.value for one in folder.figures if one.name == match["name"]]
    named += [one.measured for one in folder.claims if one.name == match["name"]]
    if not named:
        raise KeyError(f"the result has no figure or claim {match['name']!r}")
    found: Any = named[int(match["which"] or 1) - 1]
    for part in filter(None, (match["path"] or "").split("|")):
        if part in ("sum", "len", "max", "min", "mean"):
            several = list(found.values()) if isinstance(found, dict) else list(found)
            found = sum(several) / len(several) if part == "mean" else _FOLDS[part](several)
        else:
            found = found[part] if isinstance(found, dict) else found[int(part)]
    if isinstance(found, str):
        found = float(found.rstrip("%"))
    return int(found) if isinstance(found, bool) else found


_FOLDS: dict[str, Callable[[list[Any]], Any]] = {"sum": sum, "len": len, "max": max, "min": min}


def _short(number: float) -> float:
    """Return a number with as many digits as a picture may need."""
    return number if isinstance(number, int) else float(f"{number:.6g}")


def _network(card: Card, folder: Folder) -> Network | None:
    """Return the network that a picture is of: the one named or numbered, else the first."""
    which = card.picture.get("network", 1)
    if isinstance(which, int):
        return folder.networks[which - 1] if len(folder.networks) >= which else None
    return next((one for one in folder.networks if one.case == which), None)


def _spans(card: Card, folder: Folder) -> dict[str, list[tuple[int, int]]]:
    network = _network(card, folder)
    if network is None:
        raise KeyError(f"the result has no network {card.picture.get('network', 1)!r}")
    panel, priority = card.picture.get("panel", PAUSED), card.picture.get("priority")
    found: dict[str, list[tuple[int, int]]] = {}
    for track in tracks(folder).in_panel(panel):
        if priority is not None and track.label != f"priority {priority}":
            continue
        spans = zip(track.t_ns, track.values, strict=True)
        inside = [(start, end) for start, end in spans if network.start_ns <= start <= network.end_ns]
        if inside:
            found.setdefault(track.port, []).extend(inside)
    return {port: sorted(found[port]) for port in sorted(found, key=natural)}


def _window(card: Card, folder: Folder) -> tuple[int, int]:
    """Return the time that lanes show: from the first pause on, to the last one or for as long as the card says."""
    spans = [span for several in _spans(card, folder).values() for span in several]
    start, end = min(start for start, _ in spans), max(end for _, end in spans)
    if (lasts_us := card.picture.get("lasts_us")) is not None:
        end = start + round(lasts_us * 1000 * folder.units.k)
    return start, end


def _lanes(card: Card, folder: Folder) -> Iterable[tuple[str, str, tuple[Any, ...]]]:
    found = _spans(card, folder)
    if not found:
        raise KeyError("no port was paused")
    start, end = _window(card, folder)
    ports = card.picture.get("ports", list(found))
    for port in ports:
        inside = [(max(a, start), min(b, end)) for a, b in found.get(port, []) if a < end and b > start]
        values = [round((t - start) * 1000 / (end - start), 1) for span in _joined(inside, end - start) for t in span]
        yield port, card.picture.get("tone", "red"), tuple(values)


def _joined(spans: Sequence[tuple[int, int]], whole: int) -> list[tuple[int, int]]:
    """Return spans without the gaps between them that would not be seen."""
    joined: list[tuple[int, int]] = []
    for start, end in spans:
        if joined and start - joined[-1][1] < whole / 1000:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined


def _plan(network: Network) -> dict[str, Any]:
    """Return a network as it is drawn: the place and kind of each node, and the cables."""
    found = places(network)
    left, top = (min(getattr(at, axis) for at in found.values()) for axis in ("x", "y"))
    nodes = {name: [round(at.x - left, 2), round(at.y - top, 2), network.nodes[name]] for name, at in found.items()}
    return {"nodes": nodes, "cables": [cable["nodes"] for cable in network.cables]}
