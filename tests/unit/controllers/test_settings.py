"""Errors at the start of the controller: the list of routers, and addresses that are open to the network."""

from __future__ import annotations

from pathlib import Path

import pytest

from controllers.settings import Address, Routers, Settings, make_secrets
from testbed.errors import UsageError


def environment(folder: Path, **more: str) -> dict[str, str]:
    key, token = make_secrets(folder)
    return {"XOFF_SR_KEY_FILE": str(key), "XOFF_SR_TOKEN_FILE": str(token), **more}


@pytest.mark.parametrize("where", ["0.0.0.0:0", "192.0.2.1:1", "[::]:0", "[fd00::1]:1", "example.org:1"])
@pytest.mark.parametrize("door", ["AGENTS", "REST"])
def test_an_address_that_others_reach_needs_tls_or_permission(tmp_path: Path, door: str, where: str) -> None:
    with pytest.raises(UsageError, match="is open to the network") as caught:
        Settings.read(environment(tmp_path, **{f"XOFF_SR_{door}": where}))
    assert "--open-to-network" in str(caught.value)
    assert ("give REST a certificate" in str(caught.value)) == (door == "REST")
    Settings.read(environment(tmp_path, **{f"XOFF_SR_{door}": where, "XOFF_SR_OPEN_TO_NETWORK": "1"}))


@pytest.mark.parametrize("where", ["127.0.0.1:0", "127.9.9.9:1", "[::1]:0", "localhost:1", "unix:/run/x"])
def test_an_address_of_this_machine_needs_neither(where: str) -> None:
    Address.parse(where).check_open("REST", {})


def test_tls_needs_both_of_its_files_and_they_are_read_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="set both XOFF_SR_TLS_CERTIFICATE and XOFF_SR_TLS_KEY"):
        Settings.read(environment(tmp_path, XOFF_SR_TLS_KEY="x"))
    with pytest.raises(UsageError, match="cannot be used: No such file"):
        Settings.read(environment(tmp_path, XOFF_SR_TLS_KEY="x", XOFF_SR_TLS_CERTIFICATE="y"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[R1", "is not TOML"),
        ("R1 = 1", "R1 is 1; must be an object"),
        ("[R1]", "R1.locators is missing; add it"),
        ('[R1]\nlocators = ["fd00:a::1/48"]', "must be an IPv6 prefix without host bits"),
        ('[R1]\nlocators = ["10.0.0.0/8"]', "10.0.0.0"),
        ("[R1]\nlocators = []\nissu = 2", "R1.issu is 2; unknown member; known are locators, issue"),
        ('["R 1"]\nlocators = []', "the member name 'R 1' must match"),
        ('[R1]\nlocators = ["fd00:a::/32"]\n[R2]\nlocators = ["fd00:a:2::/48"]', "fd00:a::/32 of R1 and fd00:a:2::/48"),
    ],
)
def test_an_invalid_list_of_routers_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "routers.toml"
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        Routers.read(str(file))
    assert message in str(caught.value) and str(file) in str(caught.value) and "\n" not in str(caught.value)
