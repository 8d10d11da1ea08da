"""Classes of one's own as code: their methods, with all that they call, from the syntax tree of Python.

What no method assigns is a constant of the object at hand: its line, its parameters. What one of them assigns is state,
in cells. Calls are lowered in place, and so are properties. The shapes of state, of names and of results are those that
all their values need: where one turns out to need more, all is lowered again.
"""

from __future__ import annotations

import ast
import types
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from testbed.bytecode import code
from testbed.bytecode.calls import Calls
from testbed.bytecode.code import NO_ENTRY, RAISED, UNEQUAL, Place, Program
from testbed.bytecode.expressions import Frame
from testbed.bytecode.storage import Label
from testbed.bytecode.values import (
    FLOAT,
    INT,
    Const,
    Items,
    Maybe,
    Num,
    Record,
    Refusal,
    Rows,
    Series,
    Shape,
    Value,
    in_words,
    shape_of,
    shape_of_object,
)

_ATTEMPTS = 200
_UNROLLED = 64


@dataclass(frozen=True)
class Lowered:
    """An object as code: the program, and how a frame of one begins."""

    program: Program
    states: Mapping[str, Value]
    constants: tuple[tuple[int, bool, float], ...]
    """Of each constant its cell, whether it is a double, and the number."""
    reads: Mapping[tuple[Any, ...], Any]
    """The constants of the object that are in the code, by how it has them."""


class Lowering(Calls):
    """One attempt, with the shapes that are known so far."""

    methods: ClassVar[tuple[str, ...]]
    """The methods that are entries of a program, in the order of their numbers."""
    pinned: ClassVar[Mapping[str, tuple[Shape, Value]]] = {}
    """The state that has fixed cells."""
    inputs: ClassVar[range]
    """The fixed cells with what an event brings."""

    def __init__(self, control: Any, shapes: dict[str, Shape], hints: dict[tuple[Any, ...], Shape]) -> None:
        super().__init__(code.FIRST)
        self.control, self.shapes, self.hints = control, shapes, hints
        self.reads: dict[tuple[Any, ...], Any] = {}
        self.states: dict[str, Value] = {name: cells for name, (_, cells) in self.pinned.items()}
        for name, shape in shapes.items():
            self.states[name] = self._storage(shape)
        self.given = set[int]()
        """The first cells of arrays with what an event brings."""
        self.more = 0
        """The first of the cells with what an event brings beside the fixed ones; 0: there are none."""
        self.stamps = self._arrays()
        self._first_temporary = self.kept = self.free

    def lower(self) -> Lowered:
        entries, shown = [NO_ENTRY] * (code.SHOW + 1), list[tuple[str, str]]()
        refusal: Refusal | None = None
        for number, name in enumerate(self.methods):
            if self._is_told(name):
                entries[number] = self.here
                try:
                    self._start()
                    self._event(name)
                except Refusal as refused:  # a later event may say what this one needs
                    refusal, self.depth = refusal or refused, 0
        if refusal is not None:
            raise refusal
        entries[code.SHOW] = self.here
        self._start()
        self._show(shown)
        instructions, places, cells = self.linked()
        program = Program(
            instructions, places, tuple(entries), cells, self.methods, self.stamps, tuple(shown), more=self.more
        )
        constants = tuple(
            (self.most - 1 - cell, kind == FLOAT, float.fromhex(value) if kind == FLOAT else value)
            for (kind, value), cell in self.constants.items()
        )
        return Lowered(program, dict(self.states), constants, self.reads)

    # Entries

    @abstractmethod
    def _is_told(self, name: str) -> bool:
        """Return True if the class has a method of its own for an event."""

    @abstractmethod
    def _event(self, name: str) -> None:
        """Lower the method for an event."""

    def _arrays(self) -> int:
        """Make the arrays with what events bring, and return the first of the stamps of acknowledgements, or 0."""
        return 0

    def _start(self) -> None:
        self.free = self.kept = self._first_temporary

    def _show(self, shown: list[tuple[str, str]]) -> None:
        """Lower what a recorder shows."""
        state = self._method("state", [])
        if not isinstance(state, Record) or len(state.fields) > code.MOST_STATE:
            raise self._refuse(f"state() has code if it returns a dict of at most {code.MOST_STATE} numbers")
        for place, (name, value) in enumerate(state.fields.items()):
            number = self._number(value)
            self._emit("MOV" if number.kind == FLOAT else "FLOAT", code.STATE + place, number.cell)
            shown.append((name, number.kind))
        self._emit("RET")

    def _method(self, name: str, arguments: Sequence[Value]) -> Value:
        owner, function = self._found(name)
        if not isinstance(function, types.FunctionType):
            raise self._refuse(f"{name} is no method")
        return self._inline(function, [Const(self.control, ()), *arguments], {}, ("event", name), owner)

    # Statements

    def _statements(self, body: Sequence[ast.stmt], frame: Frame) -> bool:
        """Lower statements; True if what follows them is never reached."""
        for node in body:
            before, kept = self.free, self.kept
            self.kept = before
            self.place = Place(self.place.file, node.lineno)
            method = getattr(self, f"_do_{type(node).__name__.lower()}", None)
            if method is None:
                raise self._refuse(f"`{ast.unparse(node).splitlines()[0]}` has no code", node)
            ends = bool(method(node, frame))
            self.free, self.kept = self.kept, max(kept, self.kept)
            if ends:
                return True
        return False

    def _do_expr(self, node: ast.Expr, frame: Frame) -> None:
        if not isinstance(node.value, ast.Constant):
            self._expr(node.value, frame)

    def _do_pass(self, _node: ast.Pass, _frame: Frame) -> None:
        pass

    def _do_assign(self, node: ast.Assign, frame: Frame) -> None:
        value = self._expr(node.value, frame)
        if len(node.targets) > 1:
            value = self._snapshot(value)
        for target in node.targets:
            self._store(target, value, frame)

    def _do_annassign(self, node: ast.AnnAssign, frame: Frame) -> None:
        if node.value is not None:
            self._store(node.target, self._expr(node.value, frame), frame)

    def _do_augassign(self, node: ast.AugAssign, frame: Frame) -> None:
        load = ast.parse(ast.unparse(node.target), mode="eval").body
        for one in ast.walk(load):
            ast.copy_location(one, node.target)
        old, new = self._operands([load, node.value], frame)
        self._store(node.target, self._binary(node.op, old, new), frame)

    def _do_if(self, node: ast.If, frame: Frame) -> bool:
        other, end = Label(), Label()
        known = self._jump(node.test, frame, other, False)
        if known is not None:
            return self._statements(node.body if known else node.orelse, frame)
        ends = self._statements(node.body, frame)
        if not ends and node.orelse:
            self._emit("JMP", end)
        self._mark(other)
        ends = self._statements(node.orelse, frame) and ends
        self._mark(end)
        return ends

    def _do_return(self, node: ast.Return, frame: Frame) -> bool:
        if node.value is not None:
            value = self._expr(node.value, frame)
            key, name = (*frame.path, "result"), "the result"
            if shape_of(value) is None:
                if frame.result is not None:
                    raise self._refuse(f"{name} is {in_words(shape_of(value))}, and elsewhere something else", node)
                frame.result = value
            else:
                self.is_stale |= key not in self.hints  # the result has cells from the start of the function on
                frame.result = self._collected(key, frame.result, value, name)
        elif (*frame.path, "result") in self.hints:
            frame.result = self._collected((*frame.path, "result"), frame.result, Const(None), "the result")
        self._emit("JMP", frame.end)
        return True

    def _do_raise(self, _node: ast.Raise, _frame: Frame) -> bool:
        self._emit("FAIL", n=RAISED)
        return True

    def _do_assert(self, node: ast.Assert, frame: Frame) -> None:
        good = Label()
        if self._jump(node.test, frame, good, True) is not True:
            self._emit("FAIL", n=RAISED)
        self._mark(good)

    def _do_break(self, _node: ast.Break, frame: Frame) -> bool:
        self._emit("JMP", frame.loops[-1][1])
        return True

    def _do_continue(self, _node: ast.Continue, frame: Frame) -> bool:
        self._emit("JMP", frame.loops[-1][0])
        return True

    def _do_while(self, node: ast.While, frame: Frame) -> None:
        if node.orelse:
            raise self._refuse("`else` of a loop has no code", node)
        start, end = Label(), Label()
        self._mark(start)
        known = self._jump(node.test, frame, end, False)
        if known is False:
            return
        self._body(node.body, frame, start, end)
        self._emit("JMP", start)
        self._mark(end)

    def _body(self, body: Sequence[ast.stmt], frame: Frame, start: Label, end: Label) -> None:
        frame.loops.append((start, end))
        self._statements(body, frame)
        frame.loops.pop()

    def _do_for(self, node: ast.For, frame: Frame) -> None:
        if node.orelse:
            raise self._refuse("`else` of a loop has no code", node)
        called = node.iter if isinstance(node.iter, ast.Call) and not node.iter.keywords else None
        name = called.func.id if called and isinstance(called.func, ast.Name) else ""
        if called and name == "range" and "range" not in frame.scope:
            self._count(node, [self._number(self._expr(one, frame), INT) for one in called.args], frame)
            return
        sequences = self._sequences(node.iter, frame)
        if any(isinstance(one, Series) for one in sequences):
            self._over_series(node, [self._as_series(one) for one in sequences], frame)
            return
        rows = [self._items_of(one) for one in sequences]
        if max(map(len, rows)) > _UNROLLED:
            raise self._refuse(f"a loop over more than {_UNROLLED} items", node)
        end = Label()
        for items in zip(*rows, strict=False):
            following = Label()
            self._store(node.target, self._next(node.iter, items), frame)
            self._body(node.body, frame, following, end)
            self._mark(following)
        if self._is_strict(node.iter) and len({len(row) for row in rows}) > 1:
            self._emit("FAIL", n=UNEQUAL)
        self._mark(end)

    def _sequences(self, node: ast.expr, frame: Frame) -> list[Value]:
        """Return what a loop goes over: the sequences of zip(), or the one."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "zip":
            found = [self._expr(one, frame) for one in node.args]
        else:
            found = [self._expr(node, frame)]
        sequences = [self._needed(value) for value in found]
        return [self._snapshot(value) if self._is_state(value) else value for value in sequences]

    @staticmethod
    def _is_strict(node: ast.expr) -> bool:
        return isinstance(node, ast.Call) and any(
            one.arg == "strict" and isinstance(one.value, ast.Constant) and one.value.value for one in node.keywords
        )

    @staticmethod
    def _next(node: ast.expr, items: Sequence[Value]) -> Value:
        is_zip = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "zip"
        return Items(tuple(items)) if is_zip else items[0]

    def _count(self, node: ast.For, bounds: Sequence[Num], frame: Frame) -> None:
        zero, one = self._constant(0, INT), self._constant(1, INT)
        first, last, step = (zero, bounds[0], one) if len(bounds) == 1 else (*bounds, one)[:3]
        steps = [value for (kind, value), cell in self.constants.items() if cell == step.cell and kind != FLOAT]
        if not steps or not steps[0]:
            raise self._refuse("range() has code if its step is known", node)
        counter, until = Num(self._new(), INT), Num(self._new(), INT)
        self._move(counter, Num(first.cell, INT))
        self._move(until, Num(last.cell, INT))
        start, following, end = Label(), Label(), Label()
        self._mark(start)
        low, high = (until, counter) if steps[0] > 0 else (counter, until)
        self._emit("JLEI", end, low.cell, high.cell)
        self._store(node.target, counter, frame)
        self._body(node.body, frame, following, end)
        self._mark(following)
        self._emit("ADDI", counter.cell, counter.cell, step.cell)
        self._emit("JMP", start)
        self._mark(end)

    def _over_series(self, node: ast.For, series: Sequence[Series], frame: Frame) -> None:
        counter, many = Num(self._new(), INT), Num(self._new(), INT)
        lengths = [self._number(self._length_of(one)) for one in series]
        self._move(many, Num(lengths[0].cell, INT))
        for other in lengths[1:]:
            self._emit("MINI", many.cell, many.cell, other.cell)
        self._move(counter, Const(0))
        start, following, end, stop = Label(), Label(), Label(), Label()
        self._mark(start)
        self._emit("JLEI", end, many.cell, counter.cell)
        items = [self._item(Series(one.first, one.shape, None), counter) for one in series]
        self._store(node.target, self._next(node.iter, items), frame)
        self._body(node.body, frame, following, stop)
        self._mark(following)
        self._emit("ADDI", counter.cell, counter.cell, self._constant(1, INT).cell)
        self._emit("JMP", start)
        self._mark(end)
        if self._is_strict(node.iter):
            good = Label()
            for length in lengths:
                bad = Label()
                self._emit("JEQI", bad, many.cell, length.cell)
                self._emit("FAIL", n=UNEQUAL)
                self._mark(bad)
            self._mark(good)
        self._mark(stop)

    # Names and state

    def _hint(self, key: tuple[Any, ...], value: Value, name: str) -> Shape:
        shape = shape_of(value)
        if shape is None:
            raise self._refuse(f"{name} is an object, which no cell holds")
        known = self.hints.get(key)
        self.hints[key] = shape if known is None else self._joined(known, value, name)
        return self.hints[key]

    def _store(self, target: ast.expr, value: Value, frame: Frame) -> None:
        if isinstance(target, ast.Name):
            self._store_name(target.id, value, frame)
        elif isinstance(target, ast.Tuple | ast.List):
            if isinstance(value, Maybe):
                self._emit("NEED", a=value.flag.cell)
                value = value.value
            items = self._items_of(value)
            if len(items) > 1 and not all(
                isinstance(one, ast.Name) and one.id not in frame.slots for one in target.elts
            ):
                items = tuple(self._snapshot(one) for one in items)
            if len(items) != len(target.elts) or any(isinstance(one, ast.Starred) for one in target.elts):
                raise self._refuse(f"{len(items)} values for {ast.unparse(target)}", target)
            for one, item in zip(target.elts, items, strict=True):
                self._store(one, item, frame)
        elif isinstance(target, ast.Attribute):
            holder = self._expr(target.value, frame)
            if not (isinstance(holder, Const) and holder.value is self.control):
                raise self._refuse(f"{ast.unparse(target)} is set, which is not the {self.kind}'s own", target)
            self._store_attribute(target.attr, value)
        elif isinstance(target, ast.Subscript):
            self._store_item(target, value, frame)
        else:
            raise self._refuse(f"{ast.unparse(target)} is set", target)

    def _store_name(self, name: str, value: Value, frame: Frame) -> None:
        shape, key = shape_of(value), (*frame.path, name)
        if shape is None:
            old = frame.scope.get(name)
            if name in frame.slots or (isinstance(old, Const) and old.value is not getattr(value, "value", None)):
                raise self._refuse(f"{name} is one object, and then another one")
            frame.scope[name] = value
            return
        if name in frame.scope and name not in frame.slots and shape_of(frame.scope[name]) is None:
            raise self._refuse(f"{name} is an object, and then a number")
        if isinstance(value, Series) and value.shape.is_list:
            raise self._refuse(f"{name} is the same list as another name")
        shape = self._hint(key, value, name)
        if name not in frame.slots or shape_of(frame.slots[name]) != shape:
            self.is_stale |= name in frame.slots
            frame.slots[name] = self._storage(shape)
            self.kept = self.free
        self._move(frame.slots[name], value)
        frame.scope[name] = frame.slots[name]

    def _store_attribute(self, name: str, value: Value) -> None:
        if isinstance(self._found(name)[1], property):
            raise self._refuse(f"{name} is a property, and is set")
        if name not in self.states:
            shape = shape_of_object(getattr(self.control, name, None))
            if shape is None:
                raise self._refuse(f"self.{name} is {getattr(self.control, name)!r}, and is set: numbers can be state")
            self._widen(name, shape)
        known = shape_of(self.states[name])
        assert known is not None
        joined = self._joined(known, value, f"self.{name}")
        if joined != known:
            if name in self.pinned:
                raise self._refuse(f"self.{name} is {in_words(known)}, and here {in_words(shape_of(value))}")
            self._widen(name, joined)
        self._move(self.states[name], value)

    def _widen(self, name: str, shape: Shape) -> None:
        """Take another shape for an attribute of the rate control from the next attempt on."""
        self.shapes[name] = shape
        self.states[name] = self._storage(shape)
        self.is_stale = True

    def _store_item(self, target: ast.Subscript, value: Value, frame: Frame) -> None:
        owner = target.value
        name = owner.attr if isinstance(owner, ast.Attribute) else ""
        holder = self._expr(owner.value, frame) if isinstance(owner, ast.Attribute) else Const(None)
        if not (isinstance(holder, Const) and holder.value is self.control):
            raise self._refuse(f"{ast.unparse(target)} is set, which is not the {self.kind}'s own", target)
        if name not in self.states:
            shape = shape_of_object(getattr(self.control, name))
            if shape is None:
                raise self._refuse(f"self.{name} is no list of numbers", target)
            self._widen(name, shape)
        series = self.states[name]
        if not isinstance(series, Series) or not series.shape.is_list:
            raise self._refuse(f"self.{name} is no list of numbers", target)
        (kind,), shape_now = series.shape.kinds, shape_of(value)
        if isinstance(shape_now, str) and self._joined(kind, value, f"an item of self.{name}") != kind:
            self._widen(name, Rows((shape_now,), None, series.shape.most, False, is_list=True))
            return
        number = self._number(value, kind)
        index = self._number(self._expr(target.slice, frame), INT)
        self._emit("STORE", series.first, number.cell, index.cell, n=series.shape.most)

    def _is_state(self, value: Value) -> bool:
        if isinstance(value, Num):
            return 0 <= value.cell < self._first_temporary and value.cell not in self.inputs
        if isinstance(value, Maybe):
            return self._is_state(value.flag)
        if isinstance(value, Items):
            return any(map(self._is_state, value.items))
        return isinstance(value, Series) and value.first < self._first_temporary and value.first not in self.given


def lower(kind: type[Lowering], control: Any) -> Lowered:
    """Return an object as code, or say what has none."""
    shapes, hints = dict[str, Shape](), dict[tuple[Any, ...], Shape]()
    for _ in range(_ATTEMPTS):
        attempt = kind(control, dict(shapes), hints)
        try:
            made = attempt.lower()
        except Refusal:
            if not attempt.is_stale:  # or the next one may have no reason
                raise
        else:
            if not attempt.is_stale:
                return made
        shapes = attempt.shapes
    raise Refusal(f"the shapes of what {type(control).__name__} keeps have no end")
