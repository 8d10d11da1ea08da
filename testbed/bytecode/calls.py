"""Attributes and calls of Python as code: methods and constants of an object, and functions lowered in place."""

from __future__ import annotations

import ast
import builtins
import math
import types
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from testbed.bytecode import sources
from testbed.bytecode.code import Place
from testbed.bytecode.expressions import Expressions, Frame
from testbed.bytecode.storage import Label
from testbed.bytecode.values import (
    BOOL,
    Const,
    Items,
    Num,
    Record,
    Shape,
    Value,
    in_words,
    settled,
    shape_of,
)
from testbed.units import Duration, Line, Rate, Scale, Size

_DEPTH = 24
_PURE = (int, float, bool, abs, round, len, sum, min, max, pow, divmod)
FOLDING = (Line, Scale, Duration, Rate, Size)
"""Classes whose methods give the same for the same, so that they are called when the code is made."""


class Calls(Expressions):
    """Attributes, and calls that are lowered where they stand."""

    control: Any
    """The object whose class is lowered."""
    kind = "object"
    """The kind of the object, in words of messages."""
    states: dict[str, Value]
    """The cells of the attributes that are assigned."""
    reads: dict[tuple[Any, ...], Any]
    """Its constants that are in the code, by how it has them."""
    hints: dict[tuple[Any, ...], Shape]
    """The shapes of names and results that are known so far."""
    depth = 0

    @abstractmethod
    def _statements(self, body: Sequence[ast.stmt], frame: Frame) -> bool:
        """Lower statements; True if what follows them is never reached."""

    @abstractmethod
    def _store_name(self, name: str, value: Value, frame: Frame) -> None:
        """Assign to a name of a function."""

    def _found(self, name: str, after: type | None = None) -> tuple[type | None, Any]:
        """Return an attribute of the object's class with the class that has it; only those behind `after`."""
        order = type(self.control).__mro__
        for owner in order[order.index(after) + 1 :] if after is not None else order:
            if name in vars(owner):
                return owner, vars(owner)[name]
        return None, None

    def _inline(
        self, function: types.FunctionType, arguments: Sequence[Value], named: Mapping[str, Value],
        path: tuple[Any, ...], owner: type | None = None,
    ) -> Value:  # fmt: skip
        """Lower a function in place; its result."""
        node, calling = sources.function(function), self.place
        if node is None:
            raise self._refuse(f"the source of {function.__qualname__} is not at hand")
        if self.depth > _DEPTH:
            raise self._refuse(f"{function.__qualname__} calls itself")
        names = {**vars(builtins), **function.__globals__}
        around = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        names |= {name: cell.cell_contents for name, cell in around if name != "__class__"}
        frame = Frame(path, names, owner, arguments[0] if arguments else None)
        self.place = Place(function.__code__.co_filename, node.lineno)
        key, result_shape = (*path, "result"), self.hints.get((*path, "result"))
        if result_shape is not None:
            frame.result = self._storage(result_shape)
        self.depth += 1
        before, kept = self.free, self.kept
        self.kept = before
        self._bind(function, node, arguments, named, frame)
        self.kept = self.free
        if not self._statements(node.body, frame) and result_shape is not None:
            frame.result = self._collected(key, frame.result, Const(None), f"the result of {function.__name__}()")
        self._mark(frame.end)
        self.depth -= 1
        if not isinstance(frame.result, Record):
            self.free = before
        self.kept, self.place = kept, calling
        return frame.result or Const(None)

    def _bind(
        self, function: types.FunctionType, node: ast.FunctionDef, arguments: Sequence[Value],
        named: Mapping[str, Value], frame: Frame,
    ) -> None:  # fmt: skip
        if node.args.vararg or node.args.kwarg:
            raise self._refuse(f"{function.__qualname__}() takes any number of arguments")
        places = [one.arg for one in (*node.args.posonlyargs, *node.args.args)]
        given = dict(zip(places, arguments, strict=False)) | dict(named)
        defaults = dict(zip(reversed(places), reversed(function.__defaults__ or ()), strict=False))
        defaults |= function.__kwdefaults__ or {}
        wanted = [*places, *(one.arg for one in node.args.kwonlyargs)]
        if len(arguments) > len(places) or given.keys() - set(wanted):
            raise self._refuse(f"the arguments of {function.__qualname__}() are others")
        stored = {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
        for name in wanted:
            if name not in given and name not in defaults:
                raise self._refuse(f"{function.__qualname__}() needs {name}")
            value = given[name] if name in given else Const(defaults[name])
            if name in stored:
                self._store_name(name, value, frame)
            else:
                frame.scope[name] = self._snapshot(value) if self._is_state(value) else settled(value)

    # Attributes

    def _attribute(self, node: ast.Attribute, frame: Frame) -> Value:
        value = self._expr(node.value, frame)
        return self._attribute_of(value, node.attr, (*frame.path, node.lineno, node.col_offset))

    def _attribute_of(self, value: Value, name: str, path: tuple[Any, ...] = ()) -> Value:
        value = self._needed(value)
        if isinstance(value, Record):
            if name not in value.fields:
                raise self._refuse(f"{value.name} has no {name}")
            return value.fields[name]
        if isinstance(value, Items) and value.of is not None:
            if name in value.of._fields:  # type: ignore[attr-defined]
                return value.items[value.of._fields.index(name)]  # type: ignore[attr-defined]
            own = getattr(value.of, name, None)
            if isinstance(own, property) and isinstance(own.fget, types.FunctionType):
                return self._inline(own.fget, [value], {}, (*path, name))
        if not isinstance(value, Const):
            raise self._refuse(f"{in_words(shape_of(value))} has no {name} here")
        if value.value is self.control:
            if name in self.states:
                return self.states[name]
            owner, own = self._found(name)
            if isinstance(own, property) and isinstance(own.fget, types.FunctionType):
                return self._inline(own.fget, [value], {}, (*path, name), owner)
        if not hasattr(value.value, name):
            raise self._refuse(f"{type(value.value).__name__} has no {name}")
        where = None if value.path is None else (*value.path, name)
        made = getattr(value.value, name)
        if where is not None and not callable(made):
            self.reads[where] = made
        return Const(made, where)

    def _call(self, node: ast.Call, frame: Frame) -> Value:
        if any(isinstance(one, ast.Starred) for one in node.args) or any(one.arg is None for one in node.keywords):
            raise self._refuse(f"{ast.unparse(node)}: arguments with * have no code", node)
        path = (*frame.path, node.lineno, node.col_offset)
        own = self._own_method(node.func, frame)
        values = self._operands([*node.args, *(one.value for one in node.keywords)], frame)
        arguments, named = (
            values[: len(node.args)],
            dict(zip([one.arg or "" for one in node.keywords], values[len(node.args) :], strict=True)),
        )
        if own is not None:
            owner, function, me = own
            return self._inline(function, [*me, *arguments], named, (*path, function.__qualname__), owner)
        called = self._expr(node.func, frame)
        if not isinstance(called, Const):
            raise self._refuse(f"{ast.unparse(node.func)} is no function", node)
        return self._called(node, called, arguments, named, path)

    def _own_method(self, node: ast.expr, frame: Frame) -> tuple[type | None, types.FunctionType, list[Value]] | None:
        """Return a method of the object, or of a tuple with names, that is called, with what it is called on."""
        if not isinstance(node, ast.Attribute):
            return None
        if ast.unparse(node.value) == "super()":
            owner, function = self._found(node.attr, frame.owner)
            holder: Value = frame.me or Const(None)
        else:
            is_name = isinstance(node.value, ast.Name) and node.value.id not in frame.scope
            holder = Const(None) if is_name else self._expr(node.value, frame)
            if isinstance(holder, Items) and holder.of is not None:
                owner, function = None, getattr(holder.of, node.attr, None)
            elif isinstance(holder, Const) and holder.value is self.control:
                owner, function = self._found(node.attr)
            else:
                return None
        if isinstance(function, staticmethod):
            function, holding = function.__func__, list[Value]()
        else:
            holding = [holder]
        return (owner, function, holding) if isinstance(function, types.FunctionType) else None

    def _called(
        self,
        node: ast.Call,
        called: Const,
        arguments: Sequence[Value],
        named: Mapping[str, Value],
        path: tuple[Any, ...],
    ) -> Value:
        function, name = called.value, ast.unparse(node.func)
        if function in (min, max) and arguments and not named:
            return self._extreme(function.__name__, arguments)
        if function is len and len(arguments) == 1:
            return self._length_of(arguments[0])
        if function is sorted and len(arguments) == 1 and not named:
            return self._ordered(arguments[0])
        values = [*arguments, *named.values()]
        if all(isinstance(one, Const) for one in values) and self._folds(function):
            return self._folded_call(node, called, arguments, named)
        if function is bool and len(arguments) == 1:
            return self._truth_of(arguments[0])
        if len(arguments) == 1 and not named:
            made = self._conversion(function, arguments[0])
            if made is not None:
                return made
        if isinstance(function, types.FunctionType):
            return self._inline(function, arguments, named, (*path, function.__qualname__))
        if isinstance(function, type) and issubclass(function, tuple) and hasattr(function, "_fields"):
            fields = dict(zip(function._fields, arguments, strict=False)) | dict(named)
            if fields.keys() == set(function._fields):
                return Items(tuple(fields[one] for one in function._fields), function)
        raise self._refuse(f"{name}() has no code", node)

    def _truth_of(self, value: Value) -> Value:
        made, end = Num(self._new(), BOOL), Label()
        self._move(made, Const(False))
        known = self._jump_if(value, end, False)
        if known is not None:
            return Const(known)
        self._move(made, Const(True))
        self._mark(end)
        return made

    @staticmethod
    def _folds(function: Any) -> bool:
        if isinstance(getattr(function, "__self__", None), FOLDING) or function in FOLDING:
            return True
        return function in _PURE or (getattr(function, "__module__", "") == "math" and function in vars(math).values())

    def _folded_call(
        self, node: ast.Call, called: Const, arguments: Sequence[Value], named: Mapping[str, Value]
    ) -> Value:
        if called.path is not None:
            self.reads[called.path[:-1]] = called.value.__self__
        try:
            return Const(
                called.value(
                    *(one.value for one in arguments if isinstance(one, Const)),
                    **{name: one.value for name, one in named.items() if isinstance(one, Const)},
                )
            )
        except (ArithmeticError, TypeError, ValueError) as error:
            raise self._refuse(f"{ast.unparse(node)}: {error}", node) from None
