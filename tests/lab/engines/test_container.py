"""The container of `Containerfile`: it is built by podman, and runs under the default profile as any ordinary user.

`XOFF_CONTAINER_IMAGE` names an image that is there already, as in CI, where it is built on the public base. Otherwise
it is built here, on a base that mmdebstrap makes, so no registry is needed; that one has no packages of `serve`.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from testbed.lab.engines import prebuilt
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.host import cache, prerequisites
from testbed.lab.studies.cluster import parts

from ..conftest import ROOT

IMAGE = "XOFF_CONTAINER_IMAGE"
BASE, BUILT = "localhost/xoff-test-base", "localhost/xoff-test"
USER = 54321
"""A user that no list of users has."""
LOCKED_DOWN = ("--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges", "--tmpfs", "/tmp")
VERIFIED = (
    "hello", "incast", "victim", "wan_read", "dcbx_mismatch", "ecn_step", "conservation", "deadlock", "thresholds",
    "watermarks",
)  # fmt: skip

_PROFILE = Path("/usr/share/containers/seccomp.json")
_OF_NAMESPACES = ("clone", "clone3", "unshare", "setns", "mount", "umount", "umount2", "pivot_root")
_NO_NAMESPACES = {"index": 0, "value": 0x7E02_0000, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}

pytestmark = [
    pytest.mark.long,
    pytest.mark.engines("um"),
    pytest.mark.skipif(
        prerequisites.find_program("podman") is None, reason="podman, which runs containers, is not here"
    ),
]


@pytest.fixture(scope="module")
def image(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of the image, which is removed afterwards if it was made here."""
    if named := os.environ.get(IMAGE):
        yield named
        return
    if prerequisites.find_program("mmdebstrap") is None:
        pytest.skip(f"mmdebstrap, which makes the base, is not here, and {IMAGE} names no image")
    ready: PreparedEngine = request.getfixturevalue("ready")
    with cache.owned("container") as work:
        _build(ready, work)
        yield BUILT
    podman("image", "rm", "--force", BUILT, BASE)


def _build(ready: PreparedEngine, work: Path) -> None:
    base, context = work / "base.tar", work / "context"
    done = subprocess.run(
        ["mmdebstrap", "--variant=minbase", "--quiet", "bookworm", str(base)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"no base could be made: {done.stderr.strip().splitlines()[-1:]}")
    podman("import", "--quiet", str(base), BASE)
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        if (ROOT / name).exists():
            (context / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, context / name)
    (context / "build" / "lab").mkdir(parents=True)
    shutil.copy2(parts.lab(ready, print, lambda done, total: None).path, context / "build" / "lab" / prebuilt.name())
    podman(
        "build", "--quiet", "--network", "host", "--build-arg", f"BASE={BASE}", "--build-arg", "PACKAGES=",
        "--tag", BUILT, str(context),
    )  # fmt: skip


def podman(*words: str) -> str:
    done = subprocess.run(["podman", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run(image: str, *words: str, options: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """Run a command of Xoff in a container with the runtime's default profile."""
    command = ["podman", "run", "--rm", *options, image, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of a user that the image does not know."""
    place = tmp_path / "work"
    place.mkdir()
    os.chown(place, USER, USER)
    return place


def _as_user(folder: Path) -> list[str]:
    return ["--user", f"{USER}:{USER}", "--volume", f"{folder}:/work"]


@pytest.fixture
def expected() -> dict[str, str]:
    named: dict[str, str] = json.loads((ROOT / "experiments" / "digests.json").read_text())["um"]["digests"]
    return named


def test_the_demo_leaves_its_report_in_the_folder_of_the_caller(
    image: str, folder: Path, expected: dict[str, str]
) -> None:
    done = run(image, "demo", options=_as_user(folder))
    assert done.returncode == 0, done.stderr
    assert f"digest {expected['cross_dc'][:16]}" in done.stdout
    report = folder / done.stdout.splitlines()[-1].removeprefix("report: ")
    assert report.is_file()
    assert {path.stat().st_uid for path in (folder / "results").rglob("*")} == {USER}
    assert "xoff: results is gone" not in done.stderr
    for word in ("kernel", "compiling", "making"):
        assert word not in done.stderr, "nothing is left to set up"


def test_without_a_folder_it_says_that_results_are_gone(image: str) -> None:
    done = run(image, "run", "hello")
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith('results is gone with this container; `-v "$PWD:/work"` behind `run` would keep it\n')


@pytest.mark.parametrize("mounted", [True, False], ids=["with a folder", "without"])
def test_incast_has_the_same_digest_with_nothing_to_write_to_and_no_rights(
    image: str, folder: Path, expected: dict[str, str], mounted: bool
) -> None:
    options = [*LOCKED_DOWN, "--env", "HOME=/nonexistent", *(_as_user(folder) if mounted else [])]
    done = run(image, "run", "incast", "--json", options=options)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["digest"] == expected["incast"]


def test_ten_experiments_have_the_digests_of_the_repository(image: str) -> None:
    done = run(image, "verify", *VERIFIED, "-j", "2", options=["--network", "none"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "10 of 10 experiments gave the digest of the repository" in done.stdout


def test_the_doctor_says_what_a_lab_lacks_of_its_confinement_under_the_profile_of_docker(
    image: str, tmp_path: Path, expected: dict[str, str]
) -> None:
    """Docker's profile is podman's without namespaces of one's own."""
    profile = json.loads(_PROFILE.read_text()) | {"defaultErrnoRet": errno.EPERM, "defaultErrno": "EPERM"}
    for rule in profile["syscalls"]:
        rule["names"] = [name for name in rule["names"] if name not in _OF_NAMESPACES]
    profile["syscalls"] += [
        {"names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": [_NO_NAMESPACES]},
        {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": errno.ENOSYS},
    ]
    strict = tmp_path / "profile.json"
    strict.write_text(json.dumps(profile))
    options = ["--security-opt", f"seccomp={strict}"]
    done = run(image, "doctor", options=options)
    assert done.returncode == 0, done.stdout
    assert re.search(r"^weaker +um +namespaces  unshare: Operation not permitted$", done.stdout, re.MULTILINE)
    assert done.stdout.splitlines()[-1].startswith("all there; a lab is less confined without namespaces")
    done = run(image, "run", "victim", "--json", options=options)
    assert json.loads(done.stdout)[0]["digest"] == expected["victim"]


def test_the_doctor_is_content_under_the_profile_of_podman(image: str) -> None:
    done = run(image, "doctor")
    assert done.returncode == 0, done.stdout
    assert re.search(r"^ok +um +calls of the kernel  allowed$", done.stdout, re.MULTILINE)
    assert done.stdout.splitlines()[-1].startswith("all there")


def test_a_folder_that_cannot_be_written_to_gets_one_line(image: str, folder: Path) -> None:
    folder.chmod(0o555)
    os.chown(folder, 0, 0)
    done = run(image, "run", "hello", options=_as_user(folder))
    assert done.returncode == 2
    assert done.stderr == (
        f"xoff: results cannot go to results: Permission denied; in this container Xoff is user {USER}, and "
        "docs/start/container.md says how it becomes you\n"
    )


def test_ctrl_c_ends_it_at_once_without_an_init(image: str, folder: Path) -> None:
    command = ["podman", "run", "--rm", *_as_user(folder), image, "run", "dcqcn_validation"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        _wait_for(lambda: bool(list(folder.glob("results/*"))))
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        assert any("interrupted" in line for line in process.stdout)
        assert time.monotonic() - begin < 20  # podman itself may take longer to see it
        assert process.wait(60) == 130
    assert image not in podman("ps", "--format", "{{.Image}}")


def test_two_containers_at_once_in_one_folder_do_not_disturb_each_other(
    image: str, folder: Path, expected: dict[str, str]
) -> None:
    command = ["podman", "run", "--rm", *_as_user(folder), image, "run", "hello"]
    both = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [process.wait(300) for process in both] == [0, 0]
    results = [json.loads(path.read_text()) for path in folder.glob("results/*/result.json")]
    assert [result["digest"] for result in results] == [expected["hello"]] * 2


def test_a_browser_outside_reaches_the_live_view_by_a_published_port(image: str) -> None:
    if "starlette" not in podman("run", "--rm", "--entrypoint", "sh", image, "-c", "ls /opt/lab/python-*/lib/*/*"):
        pytest.skip("this image is built without the packages of serve")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    command = ["podman", "run", "--rm", "--publish", f"127.0.0.1:{port}:{port}", image,
               "serve", "incast,2", "--listen", "0.0.0.0", "--port", port]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            with opener.open(address, timeout=30) as answer:
                assert b"<title>" in answer.read()
        finally:
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said


def _wait_for(condition: object) -> None:
    assert callable(condition)
    for _ in range(1200):
        if condition():
            return
        time.sleep(0.05)
    pytest.fail("it did not begin within a minute")
