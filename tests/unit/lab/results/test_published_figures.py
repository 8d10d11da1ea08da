"""Figures in the documentation are those of experiments/figures.json; and how texts are filled."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from testbed.errors import UsageError
from testbed.experiment import definition
from tools.published_figures import FILE, TEXTS, experiment_of, filled, read, texts

ROOT = Path(__file__).parents[4]
PAGE = "Before.\n\n<!-- figures: wan -->\n\nold\n\n<!-- end of figures -->\n\nAfter.\n"


PAGES = sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "docs/concepts").glob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_figures_of_a_page_are_those_that_experiments_gave(page: Path) -> None:
    text = page.read_text()
    assert filled(text, texts(ROOT), read(ROOT)) == text, "`xoff verify --update` fills them in"


def test_every_text_is_on_a_page_and_has_the_figures_of_an_experiment() -> None:
    pages = "".join(page.read_text() for page in PAGES)
    shipped = {one.name for one in definition.shipped()}
    figures = read(ROOT)
    for block in texts(ROOT):
        assert pages.count(f"<!-- figures: {block} -->") == 1, block
        assert experiment_of(block, figures) in shipped
    assert {experiment_of(block, figures) for block in texts(ROOT)} == figures.keys()
    assert (ROOT / FILE).read_text() == json.dumps(figures, indent=1) + "\n"
    assert set(re.findall(r"<!-- figures: (\w+) -->", pages)) == texts(ROOT).keys()


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("lost", "3"),
        ("lost: by flow[1]", "2"),
        ("pairs[0][1]", "8"),
        ("by tenant[red]", "462"),
        ("by tenant[blue]", "0"),
        ("goodput as Mb/s", "4.69 Mb/s"),
        ("delay as ms", "0.35 ms"),
        ("part as percent", "82 %"),
    ],
)
def test_a_place_is_filled_with_a_figure_an_element_of_it_or_a_quantity(place: str, text: str) -> None:
    figures = {
        "lost": 3,
        "lost: by flow": [1, 2],
        "pairs": [[7, 8]],
        "by tenant": {"red": 462, "blue": 0},
        "goodput": 4685909,
        "delay": 350846,
        "part": 0.8154,
    }
    page = filled(PAGE, {"wan": f"| {{{place}}} |\n"}, {"wan": figures})
    assert page == PAGE.replace("old", f"| {text} |")


def test_a_figure_that_does_not_exist_is_an_error_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match=re.escape(f"{TEXTS}: there is no figure losst; did you mean lost?")):
        filled(PAGE, {"wan": "{losst}"}, {"wan": {"lost": 3}})


@pytest.mark.parametrize("place", ["lost[0]", "by[2]", "by[green]", "tenants[0]", "tenants[green]"])
def test_an_element_that_does_not_exist_is_an_error(place: str) -> None:
    figures = {"lost": 3, "by": [1, 2], "tenants": {"red": 1}}
    with pytest.raises(UsageError, match=re.escape(f"which has no [{place.partition('[')[2]}")):
        filled(PAGE, {"wan": f"{{{place}}}"}, {"wan": figures})


def test_a_block_without_text_is_an_error() -> None:
    with pytest.raises(UsageError, match="there are no figures wan in"):
        filled(PAGE, {}, {})


def test_a_block_may_be_one_of_several_of_an_experiment() -> None:
    assert experiment_of("wan_read_lost", {"wan": {}, "wan_read": {}}) == "wan_read"
    assert experiment_of("wanread", {"wan": {}}) is None
