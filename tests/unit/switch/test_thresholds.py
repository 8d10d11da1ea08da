"""The thresholds of a buffer by formula are those at which the model of a buffer pauses; and the command shows them."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from testbed.cli import main
from testbed.errors import UsageError
from testbed.switch.buffer.model import BufferModel
from testbed.switch.buffer.thresholds import Answer, Asked, answer
from testbed.switch.buffer.use import Signal

CASES = {
    "alpha 1": Asked("60kB", ports="3", cell="100"),
    "alpha 1/8 with headroom": Asked("90kB", ports="3", cell="100", alpha="1/8", headroom="2kB", guaranteed="300B"),
    "alpha 4": Asked("60kB", ports="3", cell="100", alpha="4"),
    "XON below": Asked("60kB", ports="4", lossless="1", cell="100", alpha="1/2", xon_offset="1kB"),
    "static": Asked("60kB", ports="3", cell="100", static="8kB"),
    "static, more than there is": Asked("60kB", ports="3", cell="100", static="30kB"),
    "overbooked": Asked("60kB", ports="3", cell="100", headroom="9kB", headroom_pool="20kB", alpha="1/4"),
}


def filled(found: Answer, groups: int) -> tuple[BufferModel, list[tuple[int, int]]]:
    """Fill groups in turn, a cell each, until the first is paused."""
    model, size = BufferModel(found.settings), found.settings.cell_bytes
    keys = [key for key, group in found.settings.all_groups().items() if group.lossless][:groups]
    guaranteed = found.settings.group(*keys[0]).guaranteed
    for key in keys * guaranteed:
        model.admit(*key, size)
    while True:
        for key in keys:
            if model.admit(*key, size).signal is Signal.XOFF:
                return model, keys


@pytest.mark.parametrize("name", CASES)
def test_the_model_pauses_where_the_answer_says(name: str) -> None:
    found = answer(CASES[name])
    assert [row.groups for row in found.rows][-1] == found.groups
    for row in found.rows:
        model, keys = filled(found, row.groups)
        assert max(model.used(*key).shared for key in keys) == row.xoff


@pytest.mark.parametrize("name", CASES)
def test_one_that_is_alone_resumes_where_the_answer_says(name: str) -> None:
    found = answer(CASES[name])
    model, (key,) = filled(found, 1)
    while model.release(*key, found.settings.cell_bytes).signal is not Signal.XON:
        pass
    assert model.used(*key).shared == min(found.rows[0].xon, found.rows[0].xoff - (not found.settings.headroom_cells))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (Asked("1m"), "--buffer: '1m' is not a size"),
        (Asked("1MB", ports="0"), "--ports: '0' is not a whole number from 1 to 1024"),
        (Asked("1MB", alpha="x"), "--alpha is 'x'; it is a fraction above 0"),
        (Asked("1MB", alpha="1", static="1kB"), "give one of them"),
        (Asked("1MB", static="1kB", xon_offset="9kB"), "--xon-offset is 44 cells, more than the static threshold of 4"),
        (Asked("1MB", headroom="1MB"), "cells are missing"),
    ],
)
def test_an_error_names_the_option(asked: Asked, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        answer(asked)
    assert said in str(raised.value)


def answered(arguments: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["switch", "thresholds", *shlex.split(arguments), "--json"]) == 0
    content: dict[str, Any] = json.loads(capsys.readouterr().out)
    return content


def test_the_command_prints_the_same_as_json_and_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = "--buffer 32MB --alpha 1/8 --headroom 120kB --guaranteed 10kB"
    found = answered(arguments, capsys)
    assert (found["guaranteed_cells"], found["headroom_cells"], found["shared_cells"]) == (3136, 36928, 113782)
    assert found["thresholds"][-1]["xoff_cells"] == 1581
    assert main(["switch", "thresholds", *shlex.split(arguments)]) == 0
    assert "64    1581 cells" in capsys.readouterr().out


def test_headroom_that_is_overbooked_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    (note,) = answered("--buffer 32MB --headroom 120kB --headroom-pool 4MB", capsys)["notes"]
    assert note.startswith("headroom is overbooked by 17697 cells: if many ports are paused at once, frames of")
