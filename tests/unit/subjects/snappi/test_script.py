"""Scripts of snappi: which files are some, and which files they take with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.experiment import definition
from testbed.experiment.script import files
from testbed.subjects.snappi import script as snappi_script

SCRIPT = "import snappi\n\napi = snappi.api(location='https://nowhere')\nraise SystemExit('it is not run here')\n"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "otg-flows.py"
    path.write_text(SCRIPT)
    return path


def test_a_script_becomes_an_experiment_and_is_not_executed_here(script: Path) -> None:
    experiment = definition.load_file(script)
    assert (experiment.name, experiment.packages, experiment.source) == ("otg-flows", ("snappi",), script)
    assert {one.name for one in experiment.parameters} == {"topology", "line"}
    assert definition.load_file(script, "otg-flows").name == "otg-flows"


@pytest.mark.parametrize(
    "text",
    [
        "import json\n",
        "from testbed.lab import experiment\nimport snappi\n",
        "import snappi_other\n",
        "import snappi(\n",
    ],
)
def test_other_files_are_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.py"
    path.write_text(text)
    assert not snappi_script.is_script(path)


def test_an_import_in_a_function_counts(tmp_path: Path) -> None:
    path = tmp_path / "late.py"
    path.write_text("def main():\n    from snappi import api\n")
    assert snappi_script.is_script(path)


def test_a_test_whose_fixtures_import_it_is_one(tmp_path: Path) -> None:
    path = tmp_path / "test_it.py"
    path.write_text("def test_it(api):\n    api.config()\n")
    assert not snappi_script.is_script(path)
    (tmp_path / "conftest.py").write_text("import snappi\n")
    assert snappi_script.is_script(path)


def test_modules_and_data_beside_it_go_along(script: Path) -> None:
    folder = script.parent
    script.write_text(SCRIPT + "from helpers import common\nimport settings\nimport os\n")
    (folder / "helpers").mkdir()
    for name in ("helpers/__init__.py", "helpers/common.py", "unused.py", "deep.py", "conftest.py"):
        (folder / name).write_text("")
    (folder / "settings.py").write_text("import deep\nimport settings\nFILE = 'ports.json'\n")
    (folder / "ports.json").write_text("{}")
    (folder / "other.json").write_text("{}")
    assert files(script) == (
        "conftest.py", "deep.py", "helpers/__init__.py", "helpers/common.py", "ports.json", "settings.py",
    )  # fmt: skip


def test_a_file_without_the_word_is_not_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "test_mine.py"
    path.write_text("from testbed.lab import experiment\n")
    monkeypatch.setattr("testbed.experiment.script.ast.parse", lambda _: pytest.fail("it is parsed"))
    assert not snappi_script.is_script(path)
