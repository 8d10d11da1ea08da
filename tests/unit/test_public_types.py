"""The types that a program meets when it uses the public face: each is public too, or comes with Python."""

from __future__ import annotations

import ast
import inspect
import sys
import types
import typing
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

import pytest

import xoff
from tools import api_page

_OURS = ("testbed", "topologies", "controllers", "experiments", "lessons")
_PUBLIC = {id(getattr(xoff, name)) for name in xoff.__all__}


@cache
def _names(module: str) -> dict[str, Any]:
    """Return the names of a module, and those that only type checkers import; what is not here is an object."""
    known = dict(vars(sys.modules[module]))
    for block in ast.walk(ast.parse(inspect.getsource(sys.modules[module]))):
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            for statement in block.body:
                try:
                    exec(compile(ast.Module([statement], []), module, "exec"), known)
                except ModuleNotFoundError:  # Mininet's
                    assert isinstance(statement, ast.ImportFrom)
                    known.update({alias.asname or alias.name: object for alias in statement.names})
    return known


def _classes(hint: Any) -> Iterator[type]:
    """Yield the classes that an annotation is made of."""
    if isinstance(hint, list | tuple):
        for part in hint:
            yield from _classes(part)
    elif typing.get_origin(hint) is typing.Literal:
        return
    elif parts := typing.get_args(hint):
        yield from _classes([typing.get_origin(hint), *parts] if not isinstance(hint, types.UnionType) else parts)
    elif isinstance(hint, typing.TypeVar):
        yield from _classes([hint.__bound__, *hint.__constraints__])
    elif isinstance(hint, type):
        yield hint


def _of_function(function: Any) -> Iterator[tuple[str, Any]]:
    own = {parameter.__name__: parameter for parameter in getattr(function, "__type_params__", ())}
    for name, text in inspect.get_annotations(function).items():
        yield name, eval(text, _names(function.__module__), own) if isinstance(text, str) else text


def _of_class(name: str, kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the parameters of a class, and what its described fields and members are, take and return."""
    described, made_by_users = api_page.described(name, kind), name not in api_page.MADE_BY_US
    settings = [field.name for field in fields(kind) if field.init] if is_dataclass(kind) and made_by_users else []
    for base in (one for one in kind.__mro__ if one.__module__.partition(".")[0] in _OURS):
        for field, text in inspect.get_annotations(base).items():
            if field in settings or field in described:
                yield field, eval(text, _names(base.__module__)) if isinstance(text, str) else text
    makers = [] if is_dataclass(kind) or not made_by_users else ["__init__", "build"]
    for member in [*makers, *described]:
        found = inspect.getattr_static(kind, member, None)
        function = getattr(found, "fget", None) or getattr(found, "func", None) or getattr(found, "__func__", found)
        if inspect.isfunction(function) and function.__module__.partition(".")[0] in _OURS:
            for one, hint in _of_function(function):
                yield f"{member}({one})", hint


@pytest.mark.parametrize("name", xoff.__all__)
def test_the_types_of_a_public_name_are_public(name: str) -> None:
    value = getattr(xoff, name)
    if inspect.isclass(value):
        hints = list(_of_class(name, value))
    else:
        hints = list(_of_function(value)) if inspect.isfunction(value) else []
    private = {
        f"{where}: {kind.__module__}.{kind.__qualname__}"
        for where, hint in hints
        for kind in _classes(hint)
        if kind.__module__.partition(".")[0] in _OURS and id(kind) not in _PUBLIC
    }
    assert sorted(private) == []


def test_a_private_type_in_a_public_name_is_found() -> None:
    class Hidden:
        pass

    def function(one: dict[str, list[Hidden]] | None) -> None: ...

    Hidden.__module__ = "testbed.hidden"
    assert Hidden in list(_classes(dict[str, list[Hidden]] | None))
