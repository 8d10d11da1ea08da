"""Cables with Link Layer Retry and errors: what the cable chooses, what the kernel is told, and what is refused."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from testbed.errors import UsageError
from testbed.linux import line_qdisc
from testbed.net.fabric.cable import Cable, CableError, Forwarding, line_settings
from testbed.net.partition.cut import PartitionError, cut
from testbed.switch.link.errors import BitErrors, FecErrors
from testbed.switch.link.jam import Jam, LineFate, LineUnit
from testbed.switch.link.retry import Llr, needed
from testbed.units import Duration, Rate, Scale


def _retry(*words: str, **options: Any) -> Llr:
    found = Cable(*words, **options).retry
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("rate", "length", "frames", "octets", "timer"),
    [
        ("200Gb/s", "5m", 61, 31_184, "5us"),
        ("200Gb/s", "40m", 71, 35_952, "5.5us"),
        ("400Gb/s", "5m", 115, 58_768, "5us"),
        ("400Gb/s", "40m", 133, 67_760, "5.5us"),
    ],
)
def test_a_cable_of_sonics_sample_has_its_profile(rate: str, length: str, frames: int, octets: int, timer: str) -> None:
    retry = _retry(rate, length, llr=True)
    assert (retry.frames, retry.octets, retry.replay_timer) == (frames, octets, Duration(timer))


def test_any_other_cable_has_what_its_rate_needs() -> None:
    retry = _retry("100Gb/s", "500m", llr=True)
    assert (retry.frames, retry.octets) == needed(Rate("100Gb/s"), Duration("2500ns"), 1500)
    given = _retry("200Gb/s", "5m", llr=Llr(frames=4, octets=9000, replay_timer="7us"))
    assert (given.frames, given.octets, given.replay_timer) == (4, 9000, Duration("7us"))


def test_the_kernel_gets_the_labs_times_and_the_laws_of_errors() -> None:
    cable = Cable(
        "200Gb/s", "5m", errors=FecErrors("1e-6", 4), llr=Llr(replay_count=3, init_action="block"), loss="1/4"
    )
    jams = (Jam("frame", "damaged", 50), Jam(LineUnit.ACK, LineFate.LOST, 1, 3))
    made = line_settings(cable.in_lab(Scale(1000)), Forwarding.STORE_AND_FORWARD, 7, jams)
    assert (made["bps"], made["delay_ns"], made["replay_timer_ns"]) == (200 * 10**6, 25_000, 5_000_000)
    assert (made["slot_octets"], made["loss"], made["wait"], made["seed"]) == (2560, 1 << 62, 2, 7)
    assert (made["has_llr"], made["replay_count"], made["init_action"], made["flush_action"]) == (3, 3, 1, 2)
    sent = line_qdisc.message(5, 1 << 16, made)
    assert b"xoff_line" in sent.body
    plain = line_settings(Cable("1Gb/s", errors=BitErrors("1e-9")), None, 7, ())
    assert (plain["slot_octets"], "has_llr" in plain) == (64, False)


def test_a_cable_keeps_retry_and_errors_when_its_delay_or_loss_changes() -> None:
    cable = Cable("200Gb/s", "5m", errors=BitErrors("1e-9"), llr=True).in_lab(Scale(1000))
    for changed in (cable.with_delay(Duration("1ms")), cable.with_loss("1/10")):
        assert (changed.errors, changed.llr) == (cable.errors, cable.llr)
    again = cable.in_hardware(Scale(1000))
    assert again.retry is not None and again.retry.replay_timer == Duration("5us")
    assert cable.with_loss("1/10").loss == Fraction(1, 10)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"llr": 7}, "write True, or Llr"),
        ({"errors": "1e-9"}, "BitErrors"),
        ({"length": "50km", "llr": True}, "cables within a building"),
    ],
)
def test_a_cable_that_cannot_be_is_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        Cable("100Gb/s", **options)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Llr(frames=0), lambda: Llr(replay_count=256), lambda: Llr(spacing=100),
        lambda: Llr(replay_timer="70us"),
        lambda: Llr(init_action="drop"), lambda: BitErrors("2"), lambda: FecErrors("1e-6", 3),
        lambda: Jam("frames", "lost", 1), lambda: Jam("ack", "poisoned", 1), lambda: Jam("ack", "lost", 0),
    ],
)  # fmt: skip
def test_settings_out_of_range_are_refused_with_their_name(make: Any) -> None:
    with pytest.raises(UsageError):
        make()


def test_a_cable_with_retry_is_never_between_two_kernels() -> None:
    from testbed.net.build.topo import LosslessTopo

    class Two(LosslessTopo):
        def build(self) -> None:
            self.addLink(self.addSwitch("s1"), self.addSwitch("s2"), cable=Cable("10Gb/s", "1km", llr=True))

    with pytest.raises(PartitionError, match="llr or errors"):
        cut(Two(), 2)
    assert issubclass(CableError, UsageError)
