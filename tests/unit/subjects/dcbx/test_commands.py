"""`xoff dcbx agent` and `xoff dcbx show` as far as they need no interface."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from testbed.cli import main
from testbed.errors import UsageError
from testbed.linux.process import privileges
from testbed.subjects.dcbx.commands import daemon as dcbx


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here to read its unit")
def test_the_unit_is_one_that_systemd_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dcbx", "agent", "--unit"]) == 0
    unit = tmp_path / "xoff-agent@eth0.service"
    unit.write_text(capsys.readouterr().out)
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if "xoff-agent" in line]) == (0, [])


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["dcbx", "agent"], "xoff dcbx agent needs an interface, as in xoff dcbx agent eth0"),
        (
            ["dcbx", "agent", "eth0", "--group", "no-such"],
            "--group: there is no group no-such; `groupadd --system no-such`",
        ),
    ],
)
def test_a_mistake_is_named(words: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert text in " ".join(capsys.readouterr().err.split())


def test_root_becomes_a_user_without_rights_unless_it_is_to_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    found = dcbx._user(None)
    assert found is not None
    assert found[0] != 0
    assert dcbx._user("root") is None
    with pytest.raises(UsageError, match="there is no user no-such; --user root stays root"):
        dcbx._user("no-such")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert dcbx._user(None) is None
    with pytest.raises(UsageError, match="only root can become another user"):
        dcbx._user("nobody")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_what_is_dropped_does_not_come_back() -> None:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            privileges.drop(65534, 65534, [privileges.Capability.NET_RAW])
            raw, admin = (
                privileges.has(one) for one in (privileges.Capability.NET_RAW, privileges.Capability.NET_ADMIN)
            )
            regained = True
            try:
                os.setuid(0)
            except OSError:
                regained = False
            os.write(writing, repr((os.getresuid(), os.getresgid(), os.getgroups(), raw, admin, regained)).encode())
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    found = os.read(reading, 1000).decode()
    could = privileges.has(privileges.Capability.NET_RAW)
    assert found == repr(((65534,) * 3, (65534,) * 3, [], could, False, False))
    os.close(reading)
    os.close(writing)


def test_a_terminal_that_takes_nothing_does_not_stop_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    monkeypatch.setattr(dcbx, "_STANDARD_ERROR", writing)
    for _ in range(1000):
        dcbx._say("x" * 100)
    assert os.read(reading, 107) == b"xoff: " + b"x" * 100 + b"\n"
    os.close(reading)
    dcbx._say("the reader has gone")
    os.close(writing)
