"""Options of topologies: Mininet's words for a cable are taken, and unknown ones refused with the nearest name."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from testbed.errors import UsageError, nearest
from testbed.net.build import options
from testbed.net.fabric.cable import Cable
from testbed.units import Duration, Length, Rate

DEFAULT = Cable("10Gb/s", "500m", loss="1/1000")


def refusal(call: Any, *arguments: Any) -> str:
    with pytest.raises(UsageError) as caught:
        call(*arguments)
    return str(caught.value)


@pytest.mark.parametrize(
    ("given", "cable"),
    [
        ({"bw": 1, "delay": "5ms", "loss": 10}, Cable("1Mb/s", delay="5ms", loss="1/10")),
        ({"bw": 0.5}, Cable("500kb/s", "500m", loss="1/1000")),
        ({"mtu": 9000}, Cable("10Gb/s", "500m", loss="1/1000", mtu=9000)),
        ({"rate": "25Gb/s"}, Cable("25Gb/s", "500m", loss="1/1000")),
        ({"delay": Duration("1us")}, Cable("10Gb/s", delay="1us", loss="1/1000")),
        ({"length": "5m", "loss": 0}, Cable("10Gb/s", "5m")),
        ({"loss": 0.1}, Cable("10Gb/s", "500m", loss="1/1000")),
        ({"loss": "1/50"}, Cable("10Gb/s", "500m", loss="1/50")),
        ({"loss": Fraction(1, 2)}, Cable("10Gb/s", "500m", loss="1/2")),
        ({"cable": Cable("1Gb/s")}, Cable("1Gb/s")),
        ({"bw": None, "cable": None}, DEFAULT),
    ],
)
def test_mininets_words_describe_a_cable_and_leave_the_rest_as_it_is(given: dict[str, Any], cable: Cable) -> None:
    assert options.cable_of("addLink(h1, s1)", given, DEFAULT) == cable


def test_a_default_with_a_delay_keeps_it() -> None:
    changed = options.cable_of("addLink(h1, s1)", {"bw": 100}, Cable("1Gb/s", delay="3us"))
    assert (changed.rate, changed.delay, changed.length) == (Rate("100Mb/s"), Duration("3us"), None)
    assert options.cable_of("x", {"length": "1m"}, Cable(delay="3us")).length == Length("1m")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"bw": 1, "rate": "1Mb/s"}, "addLink(h1, s1): bw and rate are both given; give one of them"),
        ({"delay": "1us", "length": "5m"}, "addLink(h1, s1): delay and length are both given; give one of them"),
        ({"cable": Cable(), "bw": 1}, "addLink(h1, s1): bw and cable are both given; put bw into the cable"),
        ({"cable": "10Gb/s"}, "addLink(h1, s1): the cable is '10Gb/s'; write Cable('10Gb/s', '5m')"),
        ({"bw": "1Gb/s"}, "addLink(h1, s1): bw is '1Gb/s'; it is a number of Mb/s above zero"),
        ({"bw": 0}, "addLink(h1, s1): bw is 0; it is a number of Mb/s above zero"),
        ({"loss": 101}, "addLink(h1, s1): loss is 101; a number is percent, 0 to 100"),
        ({"delay": 5}, "addLink(h1, s1): a duration is read from text with a unit"),
        ({"rate": "fast"}, "addLink(h1, s1): 'fast' is not a rate"),
    ],
)
def test_a_description_that_cannot_be_is_refused_with_the_place(given: dict[str, Any], message: str) -> None:
    assert refusal(options.cable_of, "addLink(h1, s1)", given, DEFAULT).startswith(message)


@pytest.mark.parametrize(
    ("name", "known", "message"),
    [
        ("cabel", options.LINK, "addX: there is no option cabel; did you mean cable?"),
        ("setings2", options.LINK, "addX: there is no option setings2; did you mean settings2?"),
        ("bufer", options.SWITCH, "addX: there is no option bufer; did you mean buffer?"),
        ("prot", options.HOST, "addX: there is no option prot; did you mean port?"),
        ("jitter", options.LINK, "addX: jitter is not an option of lossless networks: a cable has one delay for all"),
        ("use_htb", options.LINK, "addX: use_htb is not an option of lossless networks: queues are those of the ports"),
        ("zzz", options.HOST, "addX: there is no option zzz; there are cls, defaultRoute, inNamespace, ip"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest_one(name: str, known: tuple[str, ...], message: str) -> None:
    assert refusal(options.refuse_unknown, "addX", [known[0], name], known).startswith(message)


def test_known_options_pass() -> None:
    options.refuse_unknown("addLink", options.LINK, (*options.LINK, *options.LINK_OF_MININET))


def test_the_way_out_of_a_wrong_name_is_short() -> None:
    assert nearest("h9", ["h1", "h2"]) == "there are h1, h2"
    assert nearest("leaf01", ["leaf1", "spine1"]) == "did you mean leaf1?"
    assert nearest("zebra", ["h1"]) == "there is h1"
    assert nearest("zebra", [f"h{n:02d}" for n in range(50)]).endswith("h19 and 30 more")
    assert nearest("zebra", []) == "there are none"
