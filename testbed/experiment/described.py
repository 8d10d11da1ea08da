"""The definition in an experiment's file, as JSON: for a file that this machine must not execute.

The lab reads such a file and reports this; the experiment that is made of it runs there as any other. Ranges of
parameters are not in it, as the lab checks them again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from testbed import units
from testbed.experiment.definition import Experiment, Origin
from testbed.experiment.parameters import ExperimentError, File, Parameter
from testbed.units import Duration

_KINDS: Mapping[str, type] = {
    kind.__name__: kind
    for kind in (bool, int, float, str, File, *(getattr(units, name) for name in units.__all__))
    if isinstance(kind, type)
}
_FLAGS = ("in_lab_time", "free_cpu")
_NAMES = ("files", "packages", "debs")
_T = TypeVar("_T")


def described(experiment: Experiment) -> dict[str, Any]:
    """Return what an experiment is, without its code."""
    return {
        "name": experiment.name,
        "summary": experiment.summary,
        "timeout": str(experiment.timeout),
        "partitions": experiment.partitions,
        "parameters": [
            {
                "name": one.name,
                "kind": one.kind.__name__,
                "default": None if one.default is None else one.written(one.default),
                "is_required": one.is_required,
                "is_several": one.is_several,
            }
            for one in experiment.parameters
        ],
        **{name: getattr(experiment, name) for name in _FLAGS},
        **{name: list(getattr(experiment, name)) for name in _NAMES},
    }


def experiment_of(content: Any, path: Path, reference: str) -> Experiment:
    """Return the experiment in a file, of its description by the lab; `reference` is how the user named it."""
    try:
        name, partitions = _a(str, content["name"]), _a(int, content["partitions"])
        if not name.isidentifier() or partitions < 1:
            raise ValueError(f"{name!r} in {partitions} parts is none")
        return Experiment(
            name=name,
            body=_unread(path, _a(str, content["summary"])),
            parameters=tuple(map(_parameter, content["parameters"])),
            timeout=Duration(content["timeout"]),
            source=path.resolve(),
            origin=Origin(("run", reference), (str(path),)),
            partitions=partitions,
            in_lab_time=_a(bool, content["in_lab_time"]),
            free_cpu=_a(bool, content["free_cpu"]),
            files=_texts(content["files"]),
            packages=_texts(content["packages"]),
            debs=_texts(content["debs"]),
        )
    except (TypeError, KeyError, ValueError) as error:
        raise ExperimentError(f"{path}: the lab has read something else than an experiment ({error})") from None


def _parameter(content: Any) -> Parameter:
    kind, text = _KINDS[content["kind"]], content["default"]
    plain = Parameter(_a(str, content["name"]), kind, None, None, _a(bool, content["is_required"]),
                      _a(bool, content["is_several"]))  # fmt: skip
    if text is None or kind is File:  # a file has no default, and none on this machine
        return plain
    return Parameter(plain.name, kind, plain.read(_a(str, text)), None, plain.is_required, plain.is_several)


def _a(kind: type[_T], value: Any) -> _T:
    if type(value) is not kind:
        raise ValueError(f"{str(value)[:40]!r} is no {kind.__name__}")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(_a(str, one) for one in _a(list, value))


def _unread(path: Path, summary: str) -> Callable[..., None]:
    """Return the function of an experiment whose file is not read here."""

    def body(*_: Any, **__: Any) -> None:
        raise ExperimentError(f"{path} runs in the lab alone")

    body.__doc__ = summary
    return body
