"""The doctor says how this host confines a lab of `um`, and what is weaker without a part of it."""

from __future__ import annotations

import errno
import platform
from pathlib import Path

import pytest

from testbed.cli import main
from testbed.lab.host.checks import Check
from testbed.lab.um import confinement
from testbed.linux.process import kernel


def found() -> dict[str, Check]:
    return {check.what: check for check in confinement.checks()}


@pytest.mark.parametrize(("version", "files", "signals"), [(0, False, False), (5, True, False), (6, True, True)])
def test_landlock_restricts_files_before_it_restricts_signals(
    version: int, files: bool, signals: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confinement, "landlock", lambda: version)
    checks = found()
    assert (checks["Landlock of files"].ok, checks["Landlock of signals"].ok) == (files, signals)
    assert checks["Landlock of files"].found == (f"version {version}" if version else "none")


@pytest.mark.parametrize(
    ("release", "actions", "ok"),
    [
        ("6.12.1-amd64", "kill_process trap errno user_notif allow", True),
        ("5.5.0", "trap user_notif", True),
        ("5.4.200", "trap user_notif", False),
        ("6.12.1", "trap errno allow", False),
        ("6.12.1", "", False),
    ],
)
def test_without_filters_of_system_calls_there_is_no_lab(
    release: str, actions: str, ok: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "actions").write_text(actions)
    monkeypatch.setattr(confinement, "_ACTIONS", str(tmp_path / "actions"))
    monkeypatch.setattr(platform, "release", lambda: release)
    check = found()["filters of system calls"]
    assert (check.ok, check.optional) == (ok, False)


@pytest.mark.parametrize("refusing", ["unshare", "mount"])
def test_namespaces_that_the_host_refuses_are_named_with_its_reason(
    refusing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, f"{refusing}: Operation not permitted")

    monkeypatch.setattr(kernel, "unshare", lambda _: None)
    monkeypatch.setattr(kernel, "mount", lambda *_: None)
    monkeypatch.setattr(Path, "write_text", lambda *_: 0)
    assert confinement.namespaces() == ""
    monkeypatch.setattr(kernel, refusing, refuse)
    check = found()["namespaces"]
    assert (check.ok, check.optional) == (False, True)
    assert check.found == f"{refusing}: Operation not permitted"
    assert "kernel.unprivileged_userns_clone=1" in check.remedy


def test_a_weaker_confinement_is_shown_and_is_no_failure(
    xoff_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from testbed.lab.engines.um import Um

    monkeypatch.setattr(confinement, "landlock", lambda: 0)
    monkeypatch.setattr(Um, "is_built", lambda _: True)
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert "weaker  um  Landlock of signals  none" in said
    assert "-> Linux 6.12 has it; without, only the filter of system calls" in said
