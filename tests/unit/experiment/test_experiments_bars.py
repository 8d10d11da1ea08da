"""The picture of headroom and bridge buffer is a whole SVG file with a bar for everything that there is."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from experiments.headroom._bars import Bar, as_svg, size

SVG = "{http://www.w3.org/2000/svg}"
GROUPS = [
    ("small", [Bar("10G", 100, 900, 0, "", "all"), Bar("100G <&>", 100, 900, 1000, "5 frames lost", "all")]),
    ("large", [Bar("10G", 900, 100, 0, "", "less"), Bar("100G", 1000, 0, 0, "", "less")]),
]


def test_each_part_that_there_is_has_a_bar_as_high_as_it_is_large() -> None:
    drawing = ElementTree.fromstring(as_svg("Title", GROUPS))
    high: dict[str, list[float]] = {"headroom": [], "bridge": [], "lost": []}
    for bar in drawing.iter(f"{SVG}rect"):
        if bar.get("class") in high and bar.get("width") != "12":
            high[bar.attrib["class"]].append(float(bar.attrib["height"]))
    assert high["headroom"] == [9.5, 9.5, 85.5, 95.0]
    assert high["bridge"] == [85.5, 85.5, 9.5]
    assert high["lost"] == [95.0]


def test_texts_are_there_and_a_loss_is_said_only_where_there_is_one() -> None:
    texts = [text.text for text in ElementTree.fromstring(as_svg("Title", GROUPS)).iter(f"{SVG}text")]
    assert texts.count("5 frames lost") == 1
    assert {"Title", "small", "large", "100G <&>"} <= set(texts)


@pytest.mark.parametrize(("octets", "text"), [(0, "0 B"), (999, "999 B"), (16_432, "16.4 kB"), (6_767_280, "6.77 MB")])
def test_sizes_for_people(octets: int, text: str) -> None:
    assert size(octets) == text
