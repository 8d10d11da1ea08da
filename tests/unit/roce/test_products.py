"""NICs by product: what a name stands for, what goes before it, and that each value has a source."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from testbed.cli import main
from testbed.errors import UsageError
from testbed.net.traffic import Flow, FlowOptionError
from testbed.net.traffic.roce import Roce
from testbed.net.traffic.roce_flow import settings_at
from testbed.roce import rates
from testbed.roce.nic import Nic
from testbed.roce.products.table import NIC_MODELS, SOURCES, nic_model
from testbed.roce.settings import Settings
from testbed.units import Duration, Size
from tools.nic_page import PAGE, page

ROOT = Path(__file__).parents[3]


def options(flow: Flow) -> Roce:
    assert isinstance(flow.transport, Roce)
    return flow.transport


@pytest.mark.parametrize("name", NIC_MODELS)
def test_each_setting_of_a_product_exists_has_a_source_and_is_that_of_the_flow(name: str) -> None:
    model = nic_model(name)
    flow = Flow("h1", "h2", transport=Roce(nic=name, operation="read"))
    roce = options(flow)
    places = {
        **{one.name: getattr(roce.nic_at(source=True), one.name) for one in fields(Nic)},
        **{one.name: getattr(roce.settings, one.name) for one in fields(Settings)},
        "cnp_priority": roce.cnp_priority,
        "cnp_dscp": roce.cnp_dscp,
        "rate_control": flow.rate_control,
    }
    assert model.known
    for known in model.known:
        assert known.source in SOURCES
        assert places[known.setting] == known.value
    if model.of_flow("rate_control"):
        assert flow.rate_control in rates.names()


@pytest.mark.parametrize("name", NIC_MODELS)
def test_what_is_not_public_keeps_its_default(name: str) -> None:
    known = {one.setting for one in nic_model(name).known}
    roce = Roce(nic=name, operation="read")
    for found, default in ((roce.nic_at(source=False), Nic()), (roce.settings, Settings())):
        assert {
            one.name for one in fields(found) if getattr(found, one.name) != getattr(default, one.name)
        } <= known  # fmt: skip


def test_a_setting_of_the_flow_goes_before_the_products_unless_it_is_the_default() -> None:
    roce = Roce(nic="connectx-5", settings=Settings(mtu=4096), cnp_dscp=50)
    assert (roce.settings.mtu, roce.settings.cnp_interval, roce.cnp_dscp) == (4096, Duration("4us"), 50)
    own = Settings(cnp_interval=Duration("7us"))
    assert Roce(nic="connectx-5", settings=own).settings == own
    assert replace(roce, message=Size("1MB")) == Roce(
        nic="connectx-5", settings=Settings(mtu=4096), cnp_dscp=50, message=Size("1MB")
    )  # fmt: skip
    assert Flow("h1", "h2", transport=Roce(nic="e810"), rate_control="swift").rate_control == "swift"
    assert Flow("h1", "h2", transport=Roce(nic="e810"), rate="1Gb/s").rate_control is None
    assert Flow("h1", "h2", transport="roce").rate_control is None


def test_both_ends_can_have_different_products() -> None:
    flow = Flow("h1", "h2", transport=Roce(nic="connectx-5", target_nic="connectx-4"))
    assert settings_at(flow, source=True).cnp_interval == Duration("4us")
    assert settings_at(flow, source=False).cnp_interval == Duration("0s")
    mixed = Roce(nic=Nic(cnp_delay=Duration("3us")), target_nic="trident3-setup", settings=Settings(mtu=512))
    assert (mixed.nic_at(source=True).cnp_delay, mixed.nic_at(source=False).cnp_delay) == (
        Duration("3us"), Duration("55us"),
    )  # fmt: skip
    assert mixed.target_settings == mixed.settings == Settings(mtu=512)
    assert Roce(target_nic="thor-2").cnp_priority == 7, "the target sends them"
    assert Roce(nic="thor-2", target_nic=Nic()).cnp_priority == 6


def test_reads_are_no_setting_without_effect_for_a_write() -> None:
    flow = Flow("h1", "h2", transport=Roce(nic="connectx-7"))
    assert options(flow).nic_at(source=True) == Nic()
    assert options(Flow("h1", "h2", transport=Roce(nic="connectx-7", operation="read"))).nic_at(source=True).reads == 16


@pytest.mark.parametrize(("given", "said"), [
    ({"nic": "conectx-5"}, "there is no NIC 'conectx-5'; did you mean connectx-5?"),
    ({"target_nic": "nothing at all"}, "there is no NIC 'nothing at all'; there are connectx-4"),
])  # fmt: skip
def test_a_name_that_no_product_has_is_refused_with_those_that_there_are(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said.replace("?", r"\?")):
        Roce(**given)


def test_a_nic_that_is_neither_a_name_nor_a_nic_is_refused() -> None:
    with pytest.raises(FlowOptionError, match=r"nic is 5; Nic\(...\) or a name that `xoff nics` shows"):
        Flow("h1", "h2", transport=Roce(nic=5))  # type: ignore[arg-type]


def test_the_page_is_made_of_the_table() -> None:
    assert PAGE.read_text() == page(), "python -m tools.nic_page"


def test_the_command_shows_a_product_with_its_sources(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nics", "thor-2"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "cnp_priority=7, cnp_dscp=48 [juniper]" in said
    assert SOURCES["juniper"] in said
    assert "these are in firmware" in said
    assert main(["nics", "--json"]) == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)] == list(NIC_MODELS)
