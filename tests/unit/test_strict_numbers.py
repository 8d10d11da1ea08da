"""Numbers of others: infinite ones, none, and such of thousands of digits are refused in one line wherever they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from testbed.cli import main
from testbed.errors import UsageError, XoffError
from testbed.experiment.parameters import Parameter
from testbed.strict.numbers import DECODER, whole
from testbed.strict.problems import shown
from testbed.subjects.snappi.reading import Reader
from testbed.workload.chakra import read_trace

LONG = "9" * 5000


@pytest.mark.parametrize("text", ["1e999", "-1e999", "Infinity", "-Infinity", "NaN", LONG, "9" * 301], ids=shown)
def test_json_has_no_number_that_nobody_can_compute_with(text: str) -> None:
    with pytest.raises(ValueError, match=r"number|digits"):
        DECODER.decode(f'{{"a": [{text}]}}')


def test_json_has_all_other_numbers() -> None:
    assert DECODER.decode(f"[1, -2.5, 1e300, {'9' * 300}]") == [1, -2.5, 1e300, int("9" * 300)]


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("65535", 65535), ("00080", 80), ("65536", None), ("", None), ("-1", None), ("\u0663", None),
     (" 1", None), (LONG, None), ("0" * 5000 + "7", 7)],
)  # fmt: skip
def test_a_whole_number_of_a_text(text: str, value: int | None) -> None:
    assert whole(text, 65535) == value


@pytest.mark.parametrize("field", ["runtime", "comm_size"])
@pytest.mark.parametrize(
    "value", ["1e999", "-1", "1e300", "NaN", LONG, "9" * 40, f'"{LONG}"', f'"{"9" * 400}"'], ids=shown
)
def test_a_trace_with_a_number_that_no_job_has_is_refused_in_one_line(field: str, value: str) -> None:
    text = f'{{"workload_graph": [{{"Id": 0, "NodeType": 4, "{field}": {value}}}]}}'
    with pytest.raises(XoffError) as caught:
        read_trace(text.encode(), "t.json")
    assert str(caught.value).startswith("t.json") and "\n" not in str(caught.value) and len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "value", [float("inf"), float("nan"), 10**5000, -(10**5000), "1e99999999", LONG, []], ids=shown
)
def test_a_field_of_a_configuration_of_snappi_refuses_them(value: Any) -> None:
    for kind in ("integer", "number"):
        reader = Reader()
        with reader.item({"size": value}) as item:
            getattr(item, kind)("size", 1, *((0, 10) if kind == "integer" else ()))
        assert reader.errors and len(reader.errors[0]) < 200, kind


@pytest.mark.parametrize("text", ["inf", "nan", "1e999", "-inf"])
def test_a_parameter_is_a_number(text: str) -> None:
    with pytest.raises(UsageError, match="a number is expected"):
        Parameter("share", float, 0.5).read(text)


def test_a_message_shows_no_number_of_thousands_of_digits() -> None:
    assert shown(10**5000) == "a number of 16610 bits"


@pytest.mark.parametrize("size", ["9" * 5000, "1e999", "Infinity", "-1"], ids=shown)
def test_a_table_of_sizes_refuses_them(size: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "sizes.csv").write_text(f"1000,0.5\n{size},1\n")
    assert main(["workload", "--sizes", str(tmp_path / "sizes.csv")]) == 2
    assert "line 2: " in capsys.readouterr().err
