"""The order in which workers get the suite's tests: what takes longest begins, and each test is there once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.order import dealt


def parts(order: list[int], workers: int) -> list[list[int]]:
    """Divide an order as xdist does it at first."""
    left, found = list(order), []
    for remaining in range(workers, 0, -1):
        found.append(left[: len(left) // remaining])
        del left[: len(left) // remaining]
    return found


def test_each_worker_begins_with_what_takes_longest_and_ends_with_quick_tests() -> None:
    files = ["unit"] * 90 + ["lab a"] * 2 + ["lab b"] * 3 + ["browser"] * 5
    seconds = {"unit": 1.0, "lab a": 20.0, "lab b": 90.0, "browser": 100.0}
    first, second = parts(dealt(files, seconds, 2), 2)
    assert [files[test] for test in first] == ["browser"] * 5 + ["unit"] * 45
    assert [files[test] for test in second] == ["lab b"] * 3 + ["lab a"] * 2 + ["unit"] * 45


def test_tests_of_a_file_follow_each_other_in_their_order() -> None:
    files = ["a", "b", "a", "b", "a"]
    assert dealt(files, {"a": 1.0, "b": 9.0}, 1) == [1, 3, 0, 2, 4]


@given(st.lists(st.tuples(st.integers(1, 40), st.floats(0, 1000)), min_size=1, max_size=12), st.integers(1, 5))
def test_every_test_is_there_once_and_parts_that_could_be_equal_are(
    found: list[tuple[int, float]], workers: int
) -> None:
    files = [str(number) for number, (count, _) in enumerate(found) for _ in range(count)]
    seconds = {str(number): took for number, (_, took) in enumerate(found)}
    order = dealt(files, seconds, workers)
    assert sorted(order) == list(range(len(files)))
    for part in parts(order, workers):
        each = [seconds[files[test]] / files.count(files[test]) for test in part]
        assert each == sorted(each, reverse=True)


@pytest.mark.slow
def test_a_run_of_a_folder_is_learned_from_and_both_workers_come_to_the_same_order(tmp_path: Path) -> None:
    tests = tmp_path / "suite"
    tests.mkdir()
    (tests / "test_a_quick.py").write_text(
        "import pytest\n@pytest.mark.parametrize('n', range(8))\ndef test_it(n): ...\n"
    )
    (tests / "test_b_long.py").write_text("import time\ndef test_it(): time.sleep(0.5)\n")
    (tests / "conftest.py").write_text(
        "from tests.order import Order\ndef pytest_configure(config): config.pluginmanager.register(Order(config))\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "2", "--dist", "worksteal", "-v"]
    environment = {**os.environ, "XOFF_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(Path(__file__).parents[3])}
    environment.pop("PYTEST_XDIST_WORKER_COUNT", None)
    said = [
        subprocess.run(
            [*command, "-c", os.devnull, "--rootdir", str(tmp_path), "--import-mode=importlib", str(tests)],
            env=environment, cwd=tmp_path, capture_output=True, text=True, check=True,
        ).stdout
        for _ in range(2)
    ]  # fmt: skip
    kept = json.loads((tmp_path / "cache" / "test-seconds.json").read_text())[""]
    assert kept["suite/test_b_long.py"] >= 0.5 > kept["suite/test_a_quick.py"]
    begun = defaultdict(list)
    for line in said[1].splitlines():
        if "PASSED" in line:
            worker, _, rest = line.partition("]")
            begun[worker].append(rest)
    assert any("test_b_long" in done[0] for done in begun.values()), said[1]
    assert sum(map(len, begun.values())) == 9
