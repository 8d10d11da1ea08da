"""The tests in a user's script: what pytest, unittest and doctest said of them, whatever the script makes of that.

`pytest.main()` returns whether tests failed, `unittest.main(exit=False)` and `doctest.testmod()` do so too, and many
scripts do not look at it. A run of such a script must not pass. Tests in a program that the script starts are not seen:
it has an exit status of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from contextlib import ExitStack, contextmanager
from typing import Any

from testbed.errors import XoffError
from testbed.experiment.replaced import replaced


class ScriptTestsError(XoffError):
    """Raised at the end of a script whose tests failed."""


@contextmanager
def must_pass(imported: Set[str]) -> Iterator[None]:
    """Raise ScriptTestsError at the end of the block if tests in it failed; `imported` names the modules it imports."""
    failed: list[str] = []
    with ExitStack() as stack:
        for name, followed in _RUNNERS.items():
            if name in imported:
                stack.enter_context(followed(failed.append))
        yield
    if failed:
        raise ScriptTestsError("; ".join(failed))


@contextmanager
def _pytest(report: Callable[[str], None]) -> Iterator[None]:
    try:
        import _pytest.config
        import pytest
    except ImportError:  # the script gets to know it, where it imports pytest
        yield
        return
    original = pytest.main

    def main(*arguments: Any, **named: Any) -> int | pytest.ExitCode:
        code = original(*arguments, **named)
        if code:
            kinds = {one.value: one.name.lower().replace("_", " ") for one in pytest.ExitCode}
            report(f"pytest ended with exit code {int(code)} ({kinds.get(int(code), 'of a plugin')})")
        return code

    with replaced(pytest, main=main), replaced(_pytest.config, main=main):
        yield


@contextmanager
def _unittest(report: Callable[[str], None]) -> Iterator[None]:
    from unittest import TestResult

    original = TestResult.stopTestRun  # every runner calls it at the end

    def stopped(result: TestResult) -> None:
        original(result)
        if not result.wasSuccessful():
            counted = f"{len(result.failures)} failures, {len(result.errors)} errors"
            report(f"unittest: {counted}, {len(result.unexpectedSuccesses)} unexpected successes")

    with replaced(TestResult, stopTestRun=stopped):
        yield


@contextmanager
def _doctest(report: Callable[[str], None]) -> Iterator[None]:
    from doctest import DocTest, DocTestRunner, TestResults

    original = DocTestRunner.run

    def run(runner: DocTestRunner, test: DocTest, *arguments: Any, **named: Any) -> TestResults:
        results = original(runner, test, *arguments, **named)
        if results.failed:
            report(f"doctest: {results.failed} of {results.attempted} examples of {test.name} failed")
        return results

    with replaced(DocTestRunner, run=run):
        yield


_RUNNERS = {"pytest": _pytest, "unittest": _unittest, "doctest": _doctest}
