"""The calculators of the site: what is packed for the browser, and where its Python comes from."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from testbed.errors import UsageError
from tools.calculators import bundle, page, runtime
from tools.calculators.calculator import files, joined
from tools.calculators.table import CALCULATORS, answered

ROOT = Path(__file__).parents[2]
PURE = {
    "__future__", "abc", "base64", "collections", "contextlib", "dataclasses", "difflib", "enum", "fractions",
    "functools", "hashlib", "heapq", "hmac", "html", "importlib", "ipaddress", "json", "math", "os", "re", "shlex",
    "struct", "sys", "tomllib", "types", "typing", "zlib",
}  # fmt: skip
"""The modules of Python's library that the code in the browser may import: none that has sockets or calls C."""


def test_the_code_for_the_browser_imports_nothing_that_a_browser_lacks() -> None:
    modules = bundle.closure()
    assert bundle.further(modules) <= PURE
    assert not {"socket", "ctypes", "fcntl", "subprocess", "rich", "mininet"} & PURE
    assert not [name for name in modules if name.startswith(("testbed.linux", "testbed.lab", "testbed.cli"))]


@pytest.mark.slow
def test_the_archive_answers_alone_and_is_the_same_each_time(tmp_path: Path) -> None:
    octets = bundle.archive()
    assert octets == bundle.archive() and len(octets) < 400_000
    zipfile.ZipFile(io.BytesIO(octets)).extractall(tmp_path)
    program = (
        "import json, sys\nfrom tools.calculators.table import answered, CALCULATORS\n"
        "given = json.loads(sys.argv[1])\nprint(json.dumps({name: answered(name, given[name]) for name in given}))\n"
        "import testbed; print(testbed.__file__)\n"
        "print(sorted({'socket', '_ctypes', 'fcntl', 'subprocess'} & sys.modules.keys()))"
    )
    first = {name: page.first_values(one) for name, one in CALCULATORS.items()}
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-S", "-c", program, json.dumps(first)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    answers, place, reached = done.stdout.splitlines()
    assert place.startswith(str(tmp_path))
    assert reached == "[]"
    assert json.loads(answers) == {name: answered(name, given) for name, given in first.items()}


@pytest.mark.parametrize("name", CALCULATORS)
def test_first_values_have_an_answer_and_the_page_has_the_form(name: str) -> None:
    assert "error" not in answered(name, page.first_values(CALCULATORS[name]))
    text = (ROOT / f"{page.PAGE}.md").read_text()
    assert f"<!-- calculator {name} -->" in text
    assert f'data-calculator="{name}"' in page.filled(text)


def test_files_of_a_field_keep_their_names_and_texts() -> None:
    content = {"leaf 1.json": "{}", "spine.json": '{"a": "\n"}'}
    assert files(joined(content)) == content


def test_another_archive_of_python_is_refused(tmp_path: Path) -> None:
    wrong = tmp_path / "pyodide.tgz"
    wrong.write_bytes(b"something else")
    with pytest.raises(UsageError, match=r"pyodide.tgz is not pyodide@[0-9.]+: its digest is sha512-"):
        runtime.take(wrong, print)
    with pytest.raises(UsageError, match=r"nowhere.tgz cannot be read: No such file or directory"):
        runtime.take(tmp_path / "nowhere.tgz", print)


def test_without_npm_the_way_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XOFF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(runtime.RuntimeMissing, match=r"npm is missing.*apt install npm, or give the archive"):
        runtime.take(None, print)
    assert runtime.kept() is None and runtime.copy(tmp_path / "out") == 0


def test_an_archive_is_unpacked_whole_and_copied_with_its_licence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XOFF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(runtime, "verify", lambda octets, name: None)
    with tarfile.open(tmp_path / "made.tgz", "w:gz") as archive:
        for name in (*runtime.FILES, "README.md"):
            member = tarfile.TarInfo(f"package/{name}")
            member.size = 3
            archive.addfile(member, io.BytesIO(b"abc"))
    runtime.take(tmp_path / "made.tgz", print)
    assert runtime.copy(tmp_path / "out") == 3 * len(runtime.FILES)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted([*runtime.FILES, "LICENCE.txt"])
    assert runtime.take(None, print) == runtime.kept()
