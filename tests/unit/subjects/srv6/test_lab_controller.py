"""What it takes for the controller of a lab to count as settled; answers of REST are given here."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from testbed.net.build.topo import TopoError
from testbed.net.fabric.core import FabricCore
from testbed.net.fabric.parts import Whole
from testbed.subjects.srv6.lab.controller import ControllerAccess, SrController
from topologies.srv6_wan import Srv6Wan


@dataclass
class Node:
    """A node of the network, as far as it is looked at."""

    name: str
    steered: bool
    params: dict[str, Any] = field(default_factory=dict)


def settled(
    monkeypatch: pytest.MonkeyPatch, known: list[str], status: str = "active", state: str = "installed"
) -> bool:
    """Ask a controller that has a policy and these leaves; in the network s1 and s2 follow it, and s3 another one."""
    controller = SrController()
    answers: dict[str, Any] = {
        "/policies": {"policies": [{"id": "p", "status": status}]},
        "/policies/p/reverse": {"tunnels": [{"state": state}]},
        "/topology": {"leaves": [{"name": name} for name in known]},
    }
    nodes = [Node(name, True, {"controller": controller.openflow}) for name in ("s1", "s2")]
    nodes += [Node("s3", True, {"controller": "tcp:192.0.2.1:6653"}), Node("h1", False)]
    fabric = SimpleNamespace(parts=Whole(), ports=SimpleNamespace(known_nodes={node.name: node for node in nodes}))
    monkeypatch.setattr(controller, "ask", lambda method, path: answers[path])
    monkeypatch.setattr(FabricCore, "running", lambda: fabric)
    return controller.settled()


def test_it_is_settled_when_policies_tunnels_and_its_own_leaves_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settled(monkeypatch, ["s1", "s2"])
    assert settled(monkeypatch, ["s1", "s2", "s4"])


def test_it_is_not_settled_while_one_of_them_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not settled(monkeypatch, ["s1", "s3"]), "s2 has no rules yet"
    assert not settled(monkeypatch, ["s1", "s2"], status="pending")
    assert not settled(monkeypatch, ["s1", "s2"], state="requested")


def test_outside_a_network_no_leaves_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    controller = SrController()
    monkeypatch.setattr(controller, "ask", lambda method, path: {"policies": []})
    monkeypatch.setattr(FabricCore, "running", lambda: None)
    assert controller.settled()


def test_a_wan_with_a_controller_is_the_controllers() -> None:
    session = ControllerAccess("/run/agents", lambda router, locators: b"key", "unix:/run/openflow")
    beside: Any = SimpleNamespace(session=session)
    wan = Srv6Wan(2, controller=beside)
    assert (wan.back, wan.nodeInfo("s1")["controller"]) == ("controlled", "unix:/run/openflow")
    (vpns, _) = wan.intents()
    assert [vpn["behaviour"] for vpn in vpns] == ["End.DT4"]
    options: dict[str, Any]
    for options in ({"back": "controlled"}, {"back": "learned", "controller": beside}):
        with pytest.raises(TopoError, match="give a controller without back, or neither"):
            Srv6Wan(2, **options)
