"""Python packages for experiments: what a lock file must say, what is installed, and where it goes."""

from __future__ import annotations

import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from testbed.errors import UsageError, XoffError
from testbed.lab.engines import table
from testbed.lab.engines.host import Host, PreparedHost
from testbed.lab.image import packages, shipped_locks
from testbed.lab.job import job

ONE, OTHER = "a" * 64, "b" * 64


def silent(_: str) -> None: ...


def refusal(*names: str) -> str:
    with pytest.raises(UsageError) as caught:
        packages.ensure(names, silent)
    return str(caught.value)


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """A pip that installs nothing but a module, with a test, a program and notes beside it."""
    monkeypatch.setenv("XOFF_CACHE", str(tmp_path / "cache"))
    calls: list[list[str]] = []

    def run(arguments: list[str], what: str) -> None:
        calls.append(arguments)
        calls[-1].append(Path(arguments[arguments.index("-r") + 1]).read_text())
        site = Path(arguments[arguments.index("--target") + 1])
        for name in ("one/__init__.py", "one/tests/test_one.py", "bin/one", "one-1.dist-info/RECORD", "one/a.pyc"):
            (site / name).parent.mkdir(parents=True, exist_ok=True)
            (site / name).write_text(name)

    monkeypatch.setattr(packages, "_run", run)
    return calls


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    file = tmp_path / "mine.lock"
    file.write_text(f"# made by hand\nOne_Thing==1.0 \\\n    --hash=sha256:{ONE} --hash=sha256:{OTHER}  # two wheels\n")
    return file


def test_no_names_are_no_packages() -> None:
    assert packages.ensure([], silent) is None


def test_packages_are_installed_once_by_hash_and_for_the_labs_python(pip: list[list[str]], lock: Path) -> None:
    first, again = packages.ensure([str(lock)], silent), packages.ensure([str(lock), str(lock)], silent)
    assert first == again and first is not None
    assert len(pip) == 1
    assert {"--require-hashes", "--no-deps", "--only-binary", "3.11"} <= set(pip[0])
    assert pip[0][-1] == f"one-thing==1.0 --hash=sha256:{ONE} --hash=sha256:{OTHER}\n"
    assert first.versions == {"one-thing": "1.0"}
    assert first.files() == {"one/__init__.py": b"one/__init__.py"}


def test_other_versions_or_hashes_are_other_packages(pip: list[list[str]], lock: Path) -> None:
    first = packages.ensure([str(lock)], silent)
    lock.write_text(f"one-thing==1.0 --hash=sha256:{ONE}\n")
    second = packages.ensure([str(lock)], silent)
    assert first and second and first.digest != second.digest and first.path != second.path


def test_packages_are_beside_xoffs_own_code_in_the_lab(pip: list[list[str]], lock: Path) -> None:
    found = packages.ensure([str(lock)], silent)
    with tarfile.open(fileobj=BytesIO(job.held(("topologies",), found))) as archive:
        names = archive.getnames()
    assert f"code/{job.PACKAGES}/one/__init__.py" in names
    assert "code/topologies/star.py" in names


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("numpy\n", "numpy"),
        ("numpy==2.3.5\n", "numpy==2.3.5"),
        ("numpy>=2 --hash=sha256:" + ONE, "numpy>=2 --hash=sha256:aaaaa"),
        ("numpy==2.3.5 --hash=md5:" + ONE, "numpy==2.3.5 --hash=md5:aaaaa"),
        ("-r other.txt\n", "-r other.txt"),
        ("--index-url https://example.org\n", "--index-url https://example.org"),
    ],
)
def test_a_line_that_is_not_locked_is_refused(text: str, line: str, lock: Path) -> None:
    lock.write_text(text)
    assert f"{line[:20]}" in (said := refusal(str(lock)))
    assert "is not locked; each line is NAME==VERSION --hash=sha256:..." in said


def test_two_locks_that_disagree_are_refused(lock: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text(f"one.thing==2.0 --hash=sha256:{ONE}\n")
    assert refusal(str(lock), str(other)).endswith("one-thing 2.0 is requested, and another lock has 1.0")


def test_an_unknown_name_has_the_way_to_a_lock() -> None:
    said = refusal("pandas")
    assert "numpy, scipy" in said and "xoff image lock pandas > pandas.lock" in said
    assert refusal("none/there.lock").endswith("it cannot be read: No such file or directory")


@pytest.mark.parametrize("name", shipped_locks.of_python())
def test_shipped_locks_are_locks(name: str) -> None:
    assert name in packages._merged([(name, packages._lock(name))])


@pytest.mark.slow
def test_a_failure_of_pip_is_one_error_with_its_last_lines() -> None:
    with pytest.raises(XoffError, match="installing nothing failed:\n  "):
        packages._run(["install", "--no-index", "--no-input", "no-such-package-of-anybody"], "installing nothing")


def test_an_engine_gets_the_packages_of_an_experiment_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made: list[list[str]] = []

    def prepare(self: Host, report: Any, names: list[str]) -> PreparedHost:
        made.append(names)
        return PreparedHost(engine=self, names=tuple(names))

    monkeypatch.setattr(Host, "prepare", prepare)
    plain = PreparedHost(engine=Host())
    assert plain.having([], silent) is plain
    with_numpy = plain.having(["numpy"], silent, tmp_path)
    assert with_numpy.having(["numpy"], silent) is with_numpy
    with_numpy.having(["own.lock"], silent, tmp_path)
    assert made == [["numpy"], ["numpy", str(tmp_path / "own.lock")]]


def test_the_host_engine_takes_no_packages_for_the_labs_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(UsageError, match="--with numpy: packages are locked for the lab's Python; on the host engine"):
        table.prepare("host", silent, ["numpy"])


def test_an_engine_that_does_not_exist_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"there is no engine hosts; did you mean host\?"):
        table.prepare("hosts")
