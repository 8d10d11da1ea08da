"""Networks that cannot have parts: each is refused in a line, with the reason and the way out."""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import Any

import pytest

from testbed.net.build.topo import LosslessTopo
from testbed.net.fabric.cable import Cable
from testbed.net.partition.core import require_possible
from testbed.net.partition.cut import PartitionError
from testbed.subjects.srv6.agent.plan import ControlPlan, WanPlan
from testbed.subjects.srv6.lab.routers import Wan
from topologies.leaf_spine import LeafSpine

LONG = Cable("10Gb/s", "100m")


ELSEWHERE = Wan(WanPlan(IPv6Address("fd00::1"), (), control=ControlPlan("/run/agents", b"key", None, "r1-eth0")), ())  # type: ignore[arg-type]


class Controlled(LosslessTopo):
    """Two routers whose ways a controller sets that is no SrController."""

    def build(self) -> None:
        self.addLink(self.addRouter("r1", wan=ELSEWHERE), self.addRouter("r2"), cable=LONG)


@pytest.mark.parametrize(
    ("topo", "why"),
    [
        (Controlled, "Controlled cannot be divided: its controller is no SrController, so one part has it"),
        (lambda: LeafSpine(controller="unix:/run/openflow"), "LeafSpine cannot be divided: its controller is no Sr"),
    ],
)  # fmt: skip
def test_a_network_that_cannot_have_parts_is_refused(topo: Any, why: str) -> None:
    with pytest.raises(PartitionError) as caught:
        require_possible(topo())
    assert str(caught.value).startswith(why)
    assert str(caught.value).endswith("; run it without --partitions")


def test_a_network_of_lossless_switches_can_have_parts() -> None:
    require_possible(LeafSpine(deadlock_poll="10us"))


def test_the_leaves_and_routers_of_an_sr_controller_can_be_in_several_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.net.partition.core.doors", ["/run/agents", "/run/openflow"])
    require_possible(Controlled())
    require_possible(LeafSpine(controller="unix:/run/openflow"))
