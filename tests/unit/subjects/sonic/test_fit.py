"""Whether a cable fits a port: the sentence, the configuration that makes it fit, and that it does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from testbed.cli import main
from testbed.errors import UsageError
from testbed.subjects.sonic.check import CELL, check
from testbed.subjects.sonic.fit import Fit, Verdict, chosen, fit
from testbed.subjects.sonic.headroom import divisions, fec_of, lossless_groups
from testbed.subjects.sonic.read import read
from testbed.subjects.sonic.tables import Tables
from testbed.subjects.sonic.write import write
from testbed.switch.headroom.extras import Extras, Fec
from testbed.units import Duration, Length

FILES = Path(__file__).parents[2] / "data" / "sonic"
CLASSIC = FILES / "leaf_100g_classic.json"


def content(name: str = "leaf_100g_classic") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FILES / f"{name}.json").read_text())
    return found


def tables(found: dict[str, Any]) -> Tables:
    return read(json.dumps(found).encode()).require("file")


def patched(found: dict[str, Any], patch: dict[str, Any]) -> Tables:
    """Return the tables after `config load` of a patch."""
    for table, rows in patch.items():
        for key, row in rows.items():
            found.setdefault(table, {}).setdefault(key, {}).update(row)
    return tables(found)


def asked(length: str, name: str = "leaf_100g_classic", extras: Extras | None = None) -> Fit:
    return fit(tables(content(name)), "Ethernet0", Length(length), CELL, extras)


def test_a_short_cable_fits_as_it_is() -> None:
    found = asked("5m")
    assert (found.verdict, found.patch, found.has, found.need.least) == (Verdict.FITS, {}, 53248, 28288)
    assert found.sentence == (
        "Yes: Ethernet0 (100Gb/s, 5m, MTU 9100) fits: groups 3, 4 have 53248 B of headroom and need 28288 B at least; "
        "the slowest that the standards allow would need 119392 B."
    )


def test_50_km_fit_this_switch_with_the_configuration_that_is_given() -> None:
    found = asked("50km")
    assert found.verdict is Verdict.FITS_IF_CHANGED
    assert found.sentence == (
        "No, but it can: Ethernet0 (100Gb/s, 50000m, MTU 9100) needs 6287216 B of headroom in groups 3, 4 and has "
        "53248 B, so 6233968 B are missing; with 6287216 B it fits, with full frames and stations that react at once "
        "and leaves 19240288 of 30608448 B to share."
    )
    after = patched(content(), found.patch)
    assert [one.slack for one in lossless_groups(after, "Ethernet0", CELL)] == [0, 0]
    assert [one.has for one in lossless_groups(after, "Ethernet4", CELL)] == [53248, 53248]
    again = fit(after, "Ethernet0", Length("50km"), CELL)
    assert again.verdict is Verdict.FITS and again.patch == {}
    (pool,) = [one for one in divisions(after) if one.name == "ingress_lossless_pool"]
    assert pool.shared == 19240288 and pool.promised <= pool.headroom


@pytest.mark.parametrize("name", sorted(file.stem for file in FILES.glob("*.json") if "broken" not in file.stem))
@pytest.mark.parametrize("length", ["5m", "2km", "40km"])
def test_whatever_is_suggested_fits(name: str, length: str) -> None:
    before = content(name)
    port = next(iter(tables(before).ports))
    found = fit(tables(before), port, Length(length), CELL)
    assert found.sentence.endswith(".") and "\n" not in found.sentence
    if found.verdict is Verdict.FITS_IF_CHANGED and found.has is not None:
        after = patched(before, found.patch)
        assert fit(after, port, Length(length), CELL).verdict is Verdict.FITS
        reading = read(write(after).encode())
        check(reading.tables, reading.problems)
        wrong = [one for one in reading.problems.warnings if one.rule == "headroom too small" and port in one.message]
        assert not wrong


def test_what_no_setting_makes_fit_is_said() -> None:
    found = asked("200km")
    assert found.verdict is Verdict.DOES_NOT_FIT and found.patch == {}
    assert found.sentence == (
        "No, and no setting makes it fit: Ethernet0 (100Gb/s, 200000m, MTU 9100) needs 25065872 B of headroom for each "
        "of 2 lossless groups, and the 32689152 B of ingress_lossless_pool have no room for 50131744 B beside what is "
        "reserved and promised to other ports; a shorter cable, one lossless group or more buffer helps."
    )


def test_a_port_without_pfc_and_a_file_without_headroom() -> None:
    lossy = content()
    lossy["PORT_QOS_MAP"] = {}
    found = fit(tables(lossy), "Ethernet0", Length("5m"), CELL)
    assert found.verdict is Verdict.NO_PFC and "PORT_QOS_MAP|Ethernet0" in found.sentence
    assert "no BUFFER_PROFILE has an xoff" in asked("2km", "risky_no_headroom").sentence


def test_a_switch_that_computes_headroom_gets_the_length_alone() -> None:
    found = asked("2km", "leaf_dynamic_model")
    assert found.has is None and found.patch == {"CABLE_LENGTH": {"AZURE": {"Ethernet0": "2000m"}}}


def test_headroom_of_a_group_that_its_size_has_in_it_grows_with_the_size() -> None:
    found = content("tor_10g_own_headroom")
    for row in found["BUFFER_PROFILE"].values():
        if "xoff" in row:
            row["size"] = "30000"
    (row,) = fit(tables(found), "Ethernet0", Length("2km"), CELL).patch["BUFFER_PROFILE"].values()
    assert int(row["size"]) - int(row["xoff"]) == 30000 - 20000


def test_fec_of_the_file_counts_and_options_replace_it() -> None:
    found = content()
    assert fec_of(tables(found), "Ethernet0") is Fec.NONE
    for word, fec in (("rs", Fec.RS), ("fc", Fec.FC), ("auto", Fec.RS), ("none", Fec.NONE)):
        found["PORT"]["Ethernet0"]["fec"] = word
        assert fec_of(tables(found), "Ethernet0") is fec
    found["PORT"]["Ethernet0"]["fec"] = "rs"
    with_fec = fit(tables(found), "Ethernet0", Length("2km"), CELL).need.least
    assert with_fec - asked("2km").need.least == 6 * 208, "two codewords of 640 B"
    optics = asked("2km", extras=Extras(optics=Duration("5us"))).need.least
    assert optics - asked("2km").need.least > 4 * 62500
    found["PORT"]["Ethernet0"]["fec"] = "kp4"
    assert "rs, fc, none, auto are known" in str(read(json.dumps(found).encode()).problems.errors[0])


def with_channel(**rows: dict[str, str]) -> dict[str, Any]:
    found = content()
    found["PORTCHANNEL"] = {"PortChannel1": {}}
    found["PORTCHANNEL_MEMBER"] = {"PortChannel1|Ethernet0": {}, "PortChannel1|Ethernet4": {}}
    for port, row in rows.items():
        found["PORT"][port] |= row
    return found


def test_a_port_channel_is_its_members() -> None:
    channel = tables(with_channel())
    assert chosen(channel, "PortChannel1") == ["Ethernet0", "Ethernet4"] and chosen(channel, "Ethernet8") == [
        "Ethernet8"
    ]
    assert read(write(channel).encode()).tables == channel
    with pytest.raises(UsageError, match="did you mean PortChannel1"):
        chosen(channel, "PortChannel2")


def test_members_that_differ_are_a_warning() -> None:
    def warned(found: dict[str, Any]) -> list[str]:
        reading = read(json.dumps(found).encode())
        check(reading.tables, reading.problems)
        return [one.message for one in reading.problems.warnings if one.rule == "channel differs"]

    assert warned(with_channel()) == []
    (text,) = warned(with_channel(Ethernet4={"mtu": "1500"}))
    assert text.startswith("its members Ethernet0, Ethernet4 differ in MTU:")


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("PortChannel1", "PortChannel1|Ethernet0 is expected"),
        ("PortChannel1|Ethernet1", "there is no such port"),
        ("PortChannel2|Ethernet0", "a member of PortChannel1 already"),
    ],
)
def test_a_wrong_member_is_an_error(key: str, says: str) -> None:
    found = with_channel()
    found["PORTCHANNEL_MEMBER"][key] = {}
    assert any(says in one.message for one in read(json.dumps(found).encode()).problems.errors)


def test_the_command_answers_by_its_exit_code_and_its_first_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["switch", "fit", str(CLASSIC), "--port", "Ethernet0"]) == 0
    assert capsys.readouterr().out.startswith("Yes: Ethernet0 (100Gb/s, 5m")
    assert main(["switch", "fit", str(CLASSIC), "--port", "Ethernet0", "--length", "50km"]) == 1
    sentence, line = capsys.readouterr().out.splitlines()
    assert sentence.startswith("No, but it can") and json.loads(line)["CABLE_LENGTH"]["AZURE"]["Ethernet0"] == "50000m"
    assert main(["switch", "fit", str(CLASSIC), "--port", "Ethernet0", "--length", "50km", "--json"]) == 1
    (one,) = json.loads(capsys.readouterr().out)
    assert (one["verdict"], one["has"], one["config"]) == ("fits if changed", 53248, json.loads(line))
    assert main(["switch", "fit", str(CLASSIC), "--port", "Ethernet2"]) == 2
    assert "did you mean" in capsys.readouterr().err
    assert main(["switch", "fit", str(CLASSIC), "--port", "Ethernet0", "--optics", "far"]) == 2
    assert "--optics" in capsys.readouterr().err


def test_the_headroom_command_has_the_terms_too(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["switch", "headroom", "--rate", "100Gb/s", "--fec", "rs", "--macsec", "--optics", "5us"]
    assert main([*words, "--length", "2km", "--json"]) == 0
    adaptive, worst, *_ = json.loads(capsys.readouterr().out)["models"]
    for model, fec in ((adaptive, 10240), (worst, 81920)):
        terms = {term["name"]: term["bits"] for term in model["terms"]}
        assert terms["FEC"] == fec and terms["optics"] == 2_000_000 and terms["SecTAG and ICV"] == 768
    assert main([*words, "--rtt", "20us"]) == 2
    assert "go with --length" in capsys.readouterr().err


@pytest.mark.parametrize("fec", ["rs", "fc", "auto", "none"])
@pytest.mark.parametrize("length", ["5m", "50km"])
def test_check_and_fit_give_one_sum(fec: str, length: str) -> None:
    found = content()
    found["PORT"]["Ethernet0"]["fec"] = fec
    there = {**tables(found).cables, "Ethernet0": length}
    found["CABLE_LENGTH"] = {"AZURE": there}
    read_in = tables(found)
    needs = {group.need for group in lossless_groups(read_in, "Ethernet0", CELL)}
    assert needs == {fit(read_in, "Ethernet0", Length(length), CELL).need}
