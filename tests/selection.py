"""The tests that `xoff test WORD` chooses, and their needs, for it to know before it sets anything up.

    python -m tests.selection PLACE... [-k WORD]

It prints JSON. A test needs a lab if it uses the fixture `ready`: the engine that `XOFF_TEST_ENGINE` names, or those of
its mark `engines`; the fixture `vm` is one. Debian's packages that it needs besides are in its mark `packages`.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO

import pytest

from testbed.lab.host import prerequisites

_WORD = re.compile(r"\w{3,}", re.ASCII)


class Selection:
    """A plugin that looks at what pytest collects."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.chosen: list[pytest.Item] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            for word in _WORD.findall(item.nodeid.rpartition("/")[2]):
                self.names |= {word.removeprefix("test_"), *word.split("_")}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.chosen = session.items

    def as_json(self) -> dict[str, object]:
        usual = os.environ.get("XOFF_TEST_ENGINE", "um")
        engines: set[str] = set()
        packages: set[str] = set()
        for item in self.chosen:
            fixtures = getattr(item, "fixturenames", ())
            engines.update({"vm"} & set(fixtures))
            if "ready" in fixtures:
                mark = item.get_closest_marker("engines")
                engines.update(mark.args if mark else (usual,))
            for mark in item.iter_markers("packages"):
                packages.update(mark.args)
        if unknown := packages - {package.name for package in prerequisites.test_packages()}:
            raise KeyError(f"no package of [test] in testbed/lab/packages.toml: {sorted(unknown)}")
        return {"chosen": len(self.chosen), "engines": sorted(engines), "packages": sorted(packages),
                "names": [] if self.chosen else sorted(self.names)}  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    found = Selection()
    said = StringIO()
    with redirect_stdout(said):
        code = pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", *arguments], plugins=[found])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        sys.stderr.write(said.getvalue())
        return 1
    print(json.dumps(found.as_json()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
