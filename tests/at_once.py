"""A plugin of pytest: failures are shown when they happen, not after the last test."""

from __future__ import annotations

import pytest


class AtOnce:
    """Shows each failure once, at once; what pytest lists at the end are their names."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal
        terminal.summary_failures = terminal.summary_errors = lambda: None  # type: ignore[method-assign]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._show(report, f"{report.when} of {report.nodeid}" if report.when != "call" else report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._show(report, f"collecting {report.nodeid}")

    def _show(self, report: pytest.TestReport | pytest.CollectReport, title: str) -> None:
        self._terminal.ensure_newline()
        self._terminal.write_sep("_", title, red=True, bold=True)
        report.toterminal(self._terminal._tw)
        for heading, text in report.sections:
            self._terminal.write_sep("-", heading)
            self._terminal.write(text)
        self._terminal.flush()


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(AtOnce(terminal), "at once")
