"""The parameters of an experiment: their types, the ranges in which its claims hold, and files of the user's.

    def mine(run: Run, config: File, frames: Annotated[int, Between(200, 2000)] = 600) -> None: ...

`--set config=PATH` names a file on the user's machine. Its content travels with the job, and the experiment gets a
`File` whose path is that of a copy in the lab. `File | None = None` is a file that need not be given, and
`tuple[File, ...]` takes several, with commas between them. A parameter that is None by default and not given is no part
of the result.
"""

from __future__ import annotations

import inspect
import math
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from testbed.errors import UsageError
from testbed.units import Quantity, Scale

_SIMPLE = (bool, int, float, str)
LARGEST_FILE = 8 << 20
"""The most octets of a file that a job takes along."""


class ExperimentError(UsageError):
    """Raised if an experiment cannot be found or read, or is given parameters that it does not take."""


class Between:
    """The range in which an experiment's claims hold, with both ends: `frames: Annotated[int, Between(200, 2000)]`."""

    def __init__(self, low: Any, high: Any) -> None:
        self.low, self.high = low, high

    def of(self, kind: type) -> Between:
        """Return the same range with ends of a type; they may be written as text."""
        return Between(*(end if isinstance(end, kind) else kind(end) for end in (self.low, self.high)))

    def has(self, value: Any) -> bool:
        return bool(self.low <= value <= self.high)

    @property
    def ends(self) -> tuple[Any, ...]:
        return self.low, self.high

    def __str__(self) -> str:
        return f"{self.low} to {self.high}"


class OneOf:
    """The values that an experiment can be given: `library: Annotated[str, OneOf("os-ken", "ryu")]`."""

    def __init__(self, *values: Any) -> None:
        self.ends = values

    def of(self, kind: type) -> OneOf:
        return self

    def has(self, value: Any) -> bool:
        return value in self.ends

    def __str__(self) -> str:
        return " or ".join(map(str, self.ends))


@dataclass(frozen=True)
class File:
    """A file of the user's that an experiment is given."""

    path: Path
    """The path as it was given; in the lab that of a copy with the same name."""

    @property
    def name(self) -> str:
        """The name of the file, without folders."""
        return self.path.name

    def read_bytes(self) -> bytes:
        """Return the content."""
        return self.path.read_bytes()

    def read_text(self) -> str:
        """Return the content as text, which is UTF-8."""
        return self.path.read_text(encoding="utf-8")

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)


@dataclass(frozen=True)
class Parameter:
    """A parameter, which `--set` can change."""

    name: str
    kind: type
    default: Any
    limits: Between | OneOf | None = None
    is_required: bool = False
    """True if it has no default, as a file may."""
    is_several: bool = False
    """True if it is a tuple of files."""

    def __str__(self) -> str:
        shown = "FILE,..." if self.is_several else "FILE" if self.kind is File else self.default
        return f"{self.name}={shown}" + (f" ({self.limits})" if self.limits else "")

    @property
    def noun(self) -> str:
        """Return a word for the files that are expected."""
        return "files" if self.is_several else "a file"

    def written(self, value: Any) -> str:
        """Return a value as `--set` takes it."""
        return ",".join(map(str, value)) if self.is_several and isinstance(value, (list, tuple)) else str(value)

    def read(self, text: str) -> Any:
        """Return the value that `text` stands for."""
        if self.is_several:
            return tuple(self._file(one) for one in text.split(","))
        if self.kind is File:
            return self._file(text)
        value = self._read(text)
        if self.limits and not self.limits.has(value):
            raise ExperimentError(f"{self.name} is {value}; what the experiment claims holds for {self.limits}")
        return value

    def _file(self, text: str) -> File:
        path = Path(text)
        try:
            status = path.stat()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ExperimentError(f"{self.name}: the file {text!r} cannot be read: {reason}") from None
        if not stat.S_ISREG(status.st_mode):
            raise ExperimentError(f"{self.name}: {text!r} is no file")
        if status.st_size > LARGEST_FILE:
            raise ExperimentError(
                f"{self.name}: {text!r} has {status.st_size} octets; a job takes files of up to "
                f"{LARGEST_FILE >> 20} MiB along"
            )
        return File(path)

    def _read(self, text: str) -> Any:
        if self.kind is bool:
            if text.lower() in ("yes", "true", "on", "1"):
                return True
            if text.lower() in ("no", "false", "off", "0"):
                return False
            raise ExperimentError(f"{self.name}={text}: yes or no is expected")
        try:
            value = self.kind(text)
            if self.kind is float and not math.isfinite(value):
                raise ValueError
            return value
        except UsageError as error:
            raise ExperimentError(f"{self.name}: {error}") from None
        except ValueError:
            noun = {int: "a whole number", float: "a number"}.get(self.kind, self.kind.__name__)
            raise ExperimentError(f"{self.name}={text}: {noun} is expected") from None


def parameters_of(body: Callable[..., None]) -> tuple[Parameter, ...]:
    """Return the parameters of an experiment's function, all but the first."""
    found = []
    for name, parameter in list(inspect.signature(body).parameters.items())[1:]:
        kind = parameter.annotation
        if kind is inspect.Parameter.empty:
            kind = type(parameter.default)
        if isinstance(kind, str):  # `from __future__ import annotations`
            kind = eval(kind, body.__globals__)  # the experiment's own text, as Python would read it
        limits = None
        if get_origin(kind) is Annotated:
            kind, *more = get_args(kind)
            limits = next((one for one in more if isinstance(one, Between | OneOf)), None)
        kind, is_several = _element(kind, parameter.default)
        is_required = parameter.default is inspect.Parameter.empty
        if is_required and kind is not File:
            raise ExperimentError(f"{body.__name__}: the parameter {name} needs a default value")
        if not isinstance(kind, type) or not issubclass(kind, (*_SIMPLE, Quantity, Scale, File)):
            raise ExperimentError(
                f"{body.__name__}: the parameter {name} has the type {kind}; "
                "int, float, bool, str, File and the types of testbed.units can be set"
            )
        default = None if is_required else parameter.default
        limits = limits and limits.of(kind)
        if limits and default is not None and not limits.has(default):
            raise ExperimentError(f"{body.__name__}: {name} is {default} by default, which is not {limits}")
        found.append(Parameter(name, kind, default, limits, is_required, is_several))
    return tuple(found)


def _element(kind: Any, default: Any) -> tuple[Any, bool]:
    """Return the type without `| None`, or that of the elements of a tuple of files; and whether it is such a tuple."""
    if get_origin(kind) in (Union, UnionType) and default is None:
        (kind,) = [one for one in get_args(kind) if one is not NoneType] if len(get_args(kind)) == 2 else [kind]
    if get_origin(kind) is tuple and get_args(kind) == (File, ...):
        return File, True
    return kind, False
