"""What the tests in a script say is what its run says."""

from __future__ import annotations

import runpy
from contextlib import suppress
from pathlib import Path

import pytest

from testbed.experiment import script
from testbed.experiment.script_tests import ScriptTestsError, must_pass

UNITTEST = """\
import unittest

class Sums(unittest.TestCase):
    def test_sum(self):
        self.assertEqual(1 + 1, {sum})

unittest.main(argv=["mine"], exit={exit})
"""
SUITE = UNITTEST.replace(
    'unittest.main(argv=["mine"], exit={exit})',
    "unittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromTestCase(Sums))",
)
PYTEST = "import pytest\n\nif __name__ == '__main__':\n    pytest.main([__file__])\n"


def performed(text: str, path: Path) -> None:
    source = path / "mine.py"
    source.write_text(text)
    with must_pass(script.imported_along(source)):
        runpy.run_path(str(source), run_name="__main__")


@pytest.mark.parametrize("text", [UNITTEST.format(sum=3, exit=False), SUITE.format(sum=3)], ids=["main", "runner"])
def test_unittests_that_fail_end_a_script_that_does_not_look(text: str, tmp_path: Path) -> None:
    with pytest.raises(ScriptTestsError, match="unittest: 1 failures, 0 errors, 0 unexpected successes"):
        performed(text, tmp_path)


def test_examples_of_docstrings_that_fail_do_so_too(tmp_path: Path) -> None:
    examples = tmp_path / "sums.txt"
    examples.write_text(">>> 1 + 1\n3\n")
    with pytest.raises(ScriptTestsError, match=r"doctest: 1 of 1 examples of sums.txt failed"):
        performed(f"import doctest\ndoctest.testfile({str(examples)!r}, False)\n", tmp_path)


@pytest.mark.parametrize("code", [pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.USAGE_ERROR, 7])
def test_pytest_that_fails_does_so_too(code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(pytest, "main", lambda words: asked.append(words) or code)
    words = {1: "tests failed", 4: "usage error", 7: "of a plugin"}[int(code)]
    with pytest.raises(ScriptTestsError, match=rf"^pytest ended with exit code {int(code)} \({words}\)$"):
        performed(PYTEST, tmp_path)
    assert asked == [[str(tmp_path / "mine.py")]]


@pytest.mark.parametrize("exit", [True, False])
def test_tests_that_pass_leave_the_script_as_it_is(exit: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pytest, "main", lambda _: pytest.ExitCode.OK)
    with suppress(SystemExit):
        performed(UNITTEST.format(sum=2, exit=exit), tmp_path)
    performed(PYTEST, tmp_path)


def test_a_script_that_ends_by_itself_says_why(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        performed(UNITTEST.format(sum=3, exit=True), tmp_path)
