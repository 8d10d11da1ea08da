"""Expressions of Python as code: the middle of the lowering of classes."""

from __future__ import annotations

import ast
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from testbed.bytecode.code import INDEX, Place
from testbed.bytecode.storage import Assembler, Label
from testbed.bytecode.values import (
    BOOL,
    FLOAT,
    INT,
    Const,
    Items,
    Maybe,
    Num,
    Record,
    Refusal,
    Series,
    Shape,
    Value,
    as_rows,
    in_words,
    shape_of,
)

_FOLDED: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.LShift: operator.lshift,
    ast.RShift: operator.rshift, ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne, ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert,
    ast.Is: operator.is_, ast.IsNot: operator.is_not, ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.AST], str] = {ast.Add: "ADD", ast.Sub: "SUB", ast.Mult: "MUL"}
_OF_INTS: dict[type[ast.AST], str] = {
    ast.FloorDiv: "DIVI", ast.Mod: "MODI", ast.LShift: "SHLI", ast.RShift: "SHRI", ast.BitAnd: "ANDI",
    ast.BitOr: "ORI", ast.BitXor: "XORI",
}  # fmt: skip
_MOST_POWER = 8
_EXACT = 2**53
_JUMPS: dict[type[ast.AST], tuple[str, str, str, bool]] = {
    ast.Lt: ("JLT", "JLEI", "JNLTF", False),
    ast.LtE: ("JLE", "JLTI", "JNLEF", False),
    ast.Gt: ("JLT", "JLEI", "JNLTF", True),
    ast.GtE: ("JLE", "JLTI", "JNLEF", True),
    ast.Eq: ("JEQ", "JNEI", "JNEF", False),
    ast.NotEq: ("JNE", "JEQI", "JEQF", False),
}
"""For each comparison the jump if it holds, those of ints (with the sides changed) and floats if it does not, and
whether its sides are changed."""
_ORDERS: dict[type[ast.AST], str] = {ast.Lt: "Gt", ast.Gt: "Lt", ast.LtE: "GtE", ast.GtE: "LtE"}


@dataclass
class Frame:
    """A function that is lowered in place, where it is called."""

    path: tuple[Any, ...]
    """How it was reached: the same in each attempt."""
    names: dict[str, Any]
    """The names of its module and of what is around it."""
    owner: type | None = None
    """The class that has it, if it is a method."""
    me: Value | None = None
    scope: dict[str, Value] = field(default_factory=dict)
    slots: dict[str, Value] = field(default_factory=dict)
    end: Label = field(default_factory=Label)
    result: Value | None = None
    loops: list[tuple[Label, Label]] = field(default_factory=list)
    """Of each loop around: where `continue` and `break` go on."""


class Expressions(Assembler, ABC):
    """Expressions, and the conditions of jumps."""

    @abstractmethod
    def _attribute(self, node: ast.Attribute, frame: Frame) -> Value:
        """Return an attribute."""

    @abstractmethod
    def _call(self, node: ast.Call, frame: Frame) -> Value:
        """Return the result of a call."""

    @abstractmethod
    def _hint(self, key: tuple[Any, ...], value: Value, name: str) -> Shape:
        """Return the shape of a name, or of what is one of several values, which holds all of them."""

    @abstractmethod
    def _is_state(self, value: Value) -> bool:
        """Return True if a value is in cells that a call can change."""

    def _refuse(self, what: str, node: ast.AST | None = None) -> Refusal:
        line = getattr(node, "lineno", self.place.line)
        return Refusal(what, Place(self.place.file, line) if self.place.file else None)

    def _expr(self, node: ast.expr, frame: Frame) -> Value:
        """Return the value of an expression."""
        self.place = Place(self.place.file, node.lineno)
        method: Callable[[Any, Frame], Value] | None = getattr(self, f"_of_{type(node).__name__.lower()}", None)
        if method is None:
            raise self._refuse(f"{type(node).__name__}, as in {ast.unparse(node)}, has no code", node)
        return method(node, frame)

    def _operands(self, nodes: Sequence[ast.expr], frame: Frame) -> list[Value]:
        """Return the values of expressions, in their order: a later one that calls something changes none before."""
        values = list[Value]()
        for place, node in enumerate(nodes):
            value = self._expr(node, frame)
            later = nodes[place + 1 :]
            if self._is_state(value) and any(isinstance(one, ast.Call) for rest in later for one in ast.walk(rest)):
                value = self._snapshot(value)
            values.append(value)
        return values

    def _snapshot(self, value: Value) -> Value:
        """Return a copy that later assignments leave alone."""
        shape = shape_of(value)
        if isinstance(value, Const) or shape is None:
            return value
        made = self._storage(shape)
        self._move(made, value)
        return made

    def _collected(self, key: tuple[Any, ...], made: Value | None, value: Value, name: str) -> Value:
        """Bring a value to the cells of what is one of several, which are made for the first one."""
        shape = self._hint(key, value, name)
        if made is None or shape_of(made) != shape:
            self.is_stale |= made is not None
            made = self._storage(shape)
        self._move(made, value)
        return made

    # Conditions

    def _jump(self, node: ast.expr, frame: Frame, target: Label, when: bool) -> bool | None:
        """Jump if an expression is true, or if it is not. What is known now is returned, and nothing jumps."""
        self.place = Place(self.place.file, node.lineno)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            known = self._jump(node.operand, frame, target, not when)
            return known if known is None else not known
        if isinstance(node, ast.BoolOp):
            return self._jump_of_several(node, frame, target, when)
        if isinstance(node, ast.Compare):
            if len(node.ops) == 1:
                left, right = self._operands([node.left, node.comparators[0]], frame)
                return self._jump_compared(node.ops[0], left, right, target, when)
            return self._jump_of_chain(node, frame, target, when)
        return self._jump_if(self._expr(node, frame), target, when)

    def _jump_if(self, value: Value, target: Label, when: bool) -> bool | None:
        """Jump by the truth of a value."""
        if isinstance(value, Const):
            return bool(value.value)
        if isinstance(value, Items):
            return bool(value.items)
        if isinstance(value, Series):
            if value.length is None:
                return bool(value.shape.most)
            value = value.length
        if isinstance(value, Maybe):
            end = target if not when else Label()
            self._emit("JZI", end, value.flag.cell)
            known = self._jump_if(value.value, target, when)
            if known is not None and known == when:
                self._emit("JMP", target)
            if when:
                self._mark(end)
            return None
        if not isinstance(value, Num):
            raise self._refuse("an object in a condition")
        self._emit(("JNZ" if when else "JZ") + _letter(value.kind), target, value.cell)
        return None

    def _jump_of_several(self, node: ast.BoolOp, frame: Frame, target: Label, when: bool) -> bool | None:
        decides = isinstance(node.op, ast.Or)
        return self._jump_by_parts([partial(self._jump, part, frame) for part in node.values], decides, target, when)

    def _jump_by_parts(
        self, parts: Sequence[Callable[[Label, bool], bool | None]], decides: bool, target: Label, when: bool
    ) -> bool | None:
        """`decides` is the truth of a part that decides for all."""
        end, has_jumps = Label(), False
        for place, part in enumerate(parts):
            if when != decides and place == len(parts) - 1 and has_jumps:
                known = part(target, when)
                if known == when:
                    self._emit("JMP", target)
                self._mark(end)
                return None
            known = part(target if when == decides else end, decides)
            if known == decides:
                if not has_jumps:
                    return decides
                if when == decides:
                    self._emit("JMP", target)
                self._mark(end)
                return None
            has_jumps = has_jumps or known is None
        if not has_jumps:
            return not decides
        if when != decides:
            self._emit("JMP", target)
        self._mark(end)
        return None

    def _jump_of_chain(self, node: ast.Compare, frame: Frame, target: Label, when: bool) -> bool | None:
        values = self._operands([node.left, *node.comparators], frame)
        return self._jump_by_parts(
            [
                partial(self._jump_compared, op, one, other)
                for op, one, other in zip(node.ops, values, values[1:], strict=False)
            ],
            False,
            target,
            when,
        )

    def _jump_compared(self, op: ast.cmpop, one: Value, other: Value, target: Label, when: bool) -> bool | None:
        """Jump if a comparison holds, or if it does not."""
        if isinstance(one, Const) and isinstance(other, Const):
            return bool(self._folded(op, one.value, other.value))
        if isinstance(op, ast.Is | ast.IsNot | ast.Eq | ast.NotEq):
            nothing = next((x for x in (one, other) if isinstance(x, Const) and x.value is None), None)
            if nothing is not None:
                value, is_same = other if nothing is one else one, isinstance(op, ast.Is | ast.Eq)
                if not isinstance(value, Maybe):
                    return not is_same
                self._emit("JZI" if is_same == when else "JNZI", target, value.flag.cell)
                return None
        if isinstance(op, ast.In | ast.NotIn):
            is_in = isinstance(op, ast.In)
            parts = [partial(self._jump_compared, ast.Eq(), one, item) for item in self._items_of(other)]
            known = self._jump_by_parts(parts, True, target, when == is_in)
            return known if known is None or is_in else not known
        if type(op) not in _JUMPS:
            raise self._refuse("`is` of what is not None")
        flags = [one.flag for one in (one, other) if isinstance(one, Maybe)]
        if flags and isinstance(op, ast.Eq | ast.NotEq):  # None is equal to no number
            one, other = (side.value if isinstance(side, Maybe) else side for side in (one, other))
            is_equal = isinstance(op, ast.Eq)
            sides = [partial(self._jump_if, flag) for flag in flags]
            last = partial(self._jump_compared, ast.Eq(), one, other)
            self._jump_by_parts([*sides, last], False, target, when == is_equal)
            return None
        left, right = self._numbers(one, other)
        self._jump_by_numbers(op, left, right, target, when)
        return None

    def _jump_by_numbers(self, op: ast.cmpop, one: Num, other: Num, target: Label, when: bool) -> None:
        if (one.kind == FLOAT) != (other.kind == FLOAT):
            if one.kind == FLOAT:
                one, other, op = other, one, getattr(ast, _ORDERS.get(type(op), type(op).__name__))()
            self._jump_by_order(op, self._computed("CMPIF", INT, one, other), target, when)
            return
        yes, no_int, no_float, is_changed = _JUMPS[type(op)]
        if is_changed:
            one, other = other, one
        letter = _letter(one.kind)
        if when:
            self._emit(yes + letter, target, one.cell, other.cell)
        elif letter == "F":
            self._emit(no_float, target, one.cell, other.cell)
        elif type(op) in (ast.Eq, ast.NotEq):
            self._emit(no_int, target, one.cell, other.cell)
        else:
            self._emit(no_int, target, other.cell, one.cell)

    def _jump_by_order(self, op: ast.cmpop, order: Num, target: Label, when: bool) -> None:
        """Jump by -1, 0, 1, or 2 for what cannot be compared."""
        against = {ast.Lt: -1, ast.Gt: 1, ast.Eq: 0, ast.NotEq: 0}.get(type(op))
        if isinstance(op, ast.LtE):
            low = Num(order.cell, INT)
            self._jump_by_numbers(ast.LtE(), low, self._constant(0, INT), target, when)
        elif against is None:  # >=: 0 or 1, and not 2
            masked = self._computed("ANDI", INT, order, self._constant(-2, INT))
            self._jump_by_numbers(ast.Eq(), masked, self._constant(0, INT), target, when)
        else:
            equal = ast.NotEq() if isinstance(op, ast.NotEq) else ast.Eq()
            self._jump_by_numbers(equal, order, self._constant(against, INT), target, when)

    def _truth(self, node: ast.expr, frame: Frame) -> Value:
        """Return the truth of an expression, a bool."""
        made = Num(self._new(), BOOL)
        end = Label()
        self._move(made, Const(False))
        known = self._jump(node, frame, end, False)
        if known is not None:
            return Const(known)
        self._move(made, Const(True))
        self._mark(end)
        return made

    # Kinds of expressions, by the names of their classes

    def _of_constant(self, node: ast.Constant, _frame: Frame) -> Value:
        return Const(node.value)

    def _of_name(self, node: ast.Name, frame: Frame) -> Value:
        if node.id in frame.scope:
            return frame.scope[node.id]
        if node.id in frame.names:
            return Const(frame.names[node.id])
        raise self._refuse(f"{node.id} has no value here", node)

    def _of_attribute(self, node: ast.Attribute, frame: Frame) -> Value:
        return self._attribute(node, frame)

    def _of_call(self, node: ast.Call, frame: Frame) -> Value:
        return self._call(node, frame)

    def _of_compare(self, node: ast.Compare, frame: Frame) -> Value:
        return self._truth(node, frame)

    def _of_unaryop(self, node: ast.UnaryOp, frame: Frame) -> Value:
        if isinstance(node.op, ast.Not):
            return self._truth(node, frame)
        value = self._expr(node.operand, frame)
        if isinstance(value, Const):
            return Const(self._folded(node.op, value.value))
        number = self._number(value)
        if isinstance(node.op, ast.USub):
            return self._computed("NEG" + _letter(number.kind), _arithmetic(number.kind), number)
        if isinstance(node.op, ast.Invert):
            return self._computed("INVI", INT, self._number(number, INT))
        return number

    def _of_binop(self, node: ast.BinOp, frame: Frame) -> Value:
        one, other = self._operands([node.left, node.right], frame)
        return self._binary(node.op, one, other)

    def _binary(self, op: ast.operator, one: Value, other: Value) -> Value:
        """Return what an operator makes of two values."""
        if isinstance(one, Const) and isinstance(other, Const):
            return Const(self._folded(op, one.value, other.value))
        if isinstance(op, ast.Add) and (isinstance(one, Items) or isinstance(other, Items)):
            return Items((*self._items_of(one), *self._items_of(other)))
        if isinstance(op, ast.Pow):
            return self._power(one, other)
        a, b = self._numbers(one, other)
        is_float = FLOAT in (a.kind, b.kind)
        if isinstance(op, ast.Div) and not is_float:
            return self._computed("QUOI", FLOAT, a, b)
        if type(op) in _OF_INTS:
            if is_float:
                raise self._refuse("//, % and bits are of ints; take int(a / b) of floats")
            kind = BOOL if a.kind == b.kind == BOOL and _OF_INTS[type(op)] in ("ANDI", "ORI", "XORI") else INT
            return self._computed(_OF_INTS[type(op)], kind, a, b)
        name = "DIV" if isinstance(op, ast.Div) else _ARITHMETIC.get(type(op))
        if name is None:
            raise self._refuse(f"the operator {type(op).__name__} has no code")
        if is_float:
            return self._computed(f"{name}F", FLOAT, self._number(a, FLOAT), self._number(b, FLOAT))
        return self._computed(f"{name}I", INT, a, b)

    def _numbers(self, *values: Value) -> list[Num]:
        """Return values as numbers. A whole one that is known is a float where it meets floats, if it is the same."""
        made = [None if isinstance(one, Const) else self._number(one) for one in values]
        is_float = any(one is not None and one.kind == FLOAT for one in made)
        return [
            self._number(value, FLOAT if is_float and _is_exact(value) else None) if number is None else number
            for value, number in zip(values, made, strict=True)
        ]

    def _power(self, one: Value, other: Value) -> Value:
        base, exponent = self._number(one), other.value if isinstance(other, Const) else None
        if base.kind == FLOAT or type(exponent) is not int or not 1 <= exponent <= _MOST_POWER:
            raise self._refuse("** is the C library's, which differ in the last bit; multiply, or take math.sqrt()")
        made = Num(base.cell, INT)
        for _ in range(exponent - 1):
            made = self._computed("MULI", INT, made, base)
        return made

    def _of_boolop(self, node: ast.BoolOp, frame: Frame) -> Value:
        """`a or b` is one of its values, not a bool."""
        is_or, end = isinstance(node.op, ast.Or), Label()
        made: Value | None = None
        key = (*frame.path, node.lineno, node.col_offset)
        for place, part in enumerate(node.values):
            value = self._expr(part, frame)
            is_last = place == len(node.values) - 1
            if isinstance(value, Const) and not is_last and made is None:
                if bool(value.value) == is_or:
                    return value
                continue
            if is_last and made is None:
                return value
            made = self._collected(key, made, value, "a value of `or` and `and`")
            if not is_last:
                known = self._jump_if(made if not isinstance(value, Const) else value, end, is_or)
                if known is not None and known == is_or:
                    break
        self._mark(end)
        assert made is not None
        return made

    def _of_ifexp(self, node: ast.IfExp, frame: Frame) -> Value:
        other, end = Label(), Label()
        known = self._jump(node.test, frame, other, False)
        if known is not None:
            return self._expr(node.body if known else node.orelse, frame)
        key = (*frame.path, node.lineno, node.col_offset)
        value = self._expr(node.body, frame)
        made = self._collected(key, None, value, "a value of `if` and `else`")
        self._emit("JMP", end)
        self._mark(other)
        made = self._collected(key, made, self._expr(node.orelse, frame), "a value of `if` and `else`")
        self._mark(end)
        return made

    def _of_tuple(self, node: ast.Tuple, frame: Frame) -> Value:
        values = self._operands([one.value if isinstance(one, ast.Starred) else one for one in node.elts], frame)
        made = list[Value]()
        for one, value in zip(node.elts, values, strict=True):
            made += self._items_of(value) if isinstance(one, ast.Starred) else [value]
        if all(isinstance(one, Const) for one in made):
            return Const(tuple(one.value for one in made if isinstance(one, Const)))
        return Items(tuple(made))

    def _of_dict(self, node: ast.Dict, frame: Frame) -> Value:
        made = dict[str, Value]()
        for key, one in zip(node.keys, node.values, strict=True):
            value = self._expr(one, frame)
            if key is None and isinstance(value, Record):
                made |= value.fields
            elif isinstance(key, ast.Constant) and isinstance(key.value, str):
                made[key.value] = self._snapshot(value)
            else:
                raise self._refuse("a dict whose keys are not words", node)
        return Record(made)

    def _of_subscript(self, node: ast.Subscript, frame: Frame) -> Value:
        value = self._needed(self._expr(node.value, frame))
        if isinstance(node.slice, ast.Slice):
            bounds = [None if one is None else self._expr(one, frame)
                      for one in (node.slice.lower, node.slice.upper, node.slice.step)]  # fmt: skip
            if not all(one is None or isinstance(one, Const) for one in bounds):
                raise self._refuse("a slice whose bounds are not known before", node)
            cut = slice(*(one.value if isinstance(one, Const) else None for one in bounds))
            if isinstance(value, Const):
                return Const(value.value[cut])
            return Items(self._items_of(value)[cut])
        index = self._expr(node.slice, frame)
        if isinstance(index, Const):
            try:
                if isinstance(value, Const):
                    return Const(value.value[index.value])
                if isinstance(value, Items):
                    item: Value = value.items[index.value]
                    return item
            except (LookupError, TypeError) as error:
                raise self._refuse(f"{ast.unparse(node)}: {error}", node) from None
        return self._item(self._as_series(value), self._number(index, INT))

    def _as_series(self, value: Value) -> Series:
        """Return a sequence in cells, so that a number can choose among its items."""
        if isinstance(value, Series):
            return value
        shape = shape_of(value)
        rows = None if shape is None else as_rows(shape)
        if rows is None or not rows.most:
            raise self._refuse(f"{in_words(shape)} is no sequence of numbers that are alike")
        made = self._storage(rows)
        assert isinstance(made, Series)
        self._move(made, value)
        return made

    def _item(self, series: Series, index: Num) -> Value:
        """Return an item of a sequence; an index below 0 counts from its end."""
        if series.length is not None:
            index = self._checked(series.length, index)
        columns = [
            Num(self._loaded(series, column, index), kind, is_fresh=len(series.shape.kinds) == 1)
            for column, kind in enumerate(series.shape.kinds)
        ]
        return columns[0] if series.shape.of is None else Items(tuple(columns), series.shape.of)

    def _loaded(self, series: Series, column: int, index: Num) -> int:
        cell, most = self._new(), series.shape.most
        self._emit("LOAD", cell, series.first + column * most, index.cell, n=most)
        return cell

    def _checked(self, length: Num, index: Num) -> Num:
        """Return an index from the front, of a sequence that is not full."""
        made, front, good, bad = Num(self._new(), INT), Label(), Label(), Label()
        zero = self._constant(0, INT)
        self._move(made, Num(index.cell, INT))
        self._emit("JLEI", front, zero.cell, made.cell)
        self._emit("ADDI", made.cell, made.cell, length.cell)
        self._emit("JLTI", bad, made.cell, zero.cell)
        self._mark(front)
        self._emit("JLTI", good, made.cell, length.cell)
        self._mark(bad)
        self._emit("FAIL", n=INDEX)
        self._mark(good)
        return made

    def _length_of(self, value: Value) -> Value:
        if isinstance(value, Series):
            return Const(value.shape.most) if value.length is None else value.length
        return Const(len(self._items_of(value)))

    def _folded(self, op: ast.AST, *values: Any) -> Any:
        try:
            return _FOLDED[type(op)](*values)
        except (ArithmeticError, TypeError, ValueError, KeyError) as error:
            raise self._refuse(f"{' and '.join(map(repr, values))}: {error}") from None

    # Functions of Python that have code

    def _extreme(self, name: str, values: Sequence[Value]) -> Value:
        """Return the least or the largest of values, the first one of equal ones."""
        if len(values) == 1:
            values = self._items_of(values[0])
        if all(isinstance(one, Const) for one in values):
            return Const({"min": min, "max": max}[name](one.value for one in values if isinstance(one, Const)))
        numbers = self._numbers(*values)
        kind = FLOAT if any(one.kind == FLOAT for one in numbers) else INT
        made = self._number(numbers[0], kind)
        for one in numbers[1:]:
            made = self._computed(name.upper() + _letter(kind), kind, made, self._number(one, kind))
        return made

    def _conversion(self, function: Any, value: Value) -> Value | None:
        """Return what a function of one number makes of it, or None if the function has no code."""
        if function in (int, float, abs, round, math.floor, math.ceil, math.trunc, math.sqrt, math.fabs):
            number = self._number(value)
            if function is float:
                return self._number(number, FLOAT)
            if function in (math.sqrt, math.fabs):
                operation = "SQRTF" if function is math.sqrt else "ABSF"
                return self._computed(operation, FLOAT, self._number(number, FLOAT))
            if function is abs:
                return self._computed("ABS" + _letter(number.kind), _arithmetic(number.kind), number)
            if number.kind != FLOAT:
                return self._number(number, INT)
            names = {round: "ROUND", math.floor: "FLOOR", math.ceil: "CEIL"}
            return self._computed(names.get(function, "INT"), INT, number)
        return None

    def _ordered(self, value: Value) -> Value:
        """Return two numbers in their order."""
        items = self._items_of(value)
        if len(items) != 2:
            raise self._refuse("sorted() has code for two numbers")
        numbers = self._numbers(*items)
        kind = FLOAT if any(one.kind == FLOAT for one in numbers) else INT
        one, other = (self._number(item, kind) for item in numbers)
        low, high = (self._computed(name + _letter(kind), kind, *pair)
                     for name, pair in (("MIN", (one, other)), ("MAX", (other, one))))  # fmt: skip
        return Items((Num(low.cell, kind), Num(high.cell, kind)))


def _is_exact(value: Value) -> bool:
    """Return True if a number that is known is the same as a float."""
    return isinstance(value, Const) and isinstance(value.value, int | float) and abs(value.value) <= _EXACT


def _letter(kind: str) -> str:
    return "F" if kind == FLOAT else "I"


def _arithmetic(kind: str) -> str:
    return FLOAT if kind == FLOAT else INT
