"""Values of a header's field, frame by frame: one value, a list, a counter up or down, or random ones with a seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from testbed.frames import Mac
from testbed.strict.problems import shown
from testbed.subjects.snappi.reading import Item

Values = tuple[int, ...]
"""The values of a field. The frame with number n has the value n modulo their count; a counter is written out."""

MOST_VALUES = 1 << 20


def _mac(value: Any) -> int:
    text = str(value).replace("-", ":")
    return int.from_bytes(Mac.parse(text).octets)


def _number(value: Any) -> int:
    return int(value)


READ: dict[str, Callable[[Any], int]] = {
    "mac": _mac,
    "ipv4": lambda value: int(IPv4Address(str(value))),
    "ipv6": lambda value: int(IPv6Address(str(value))),
    "": _number,
}
"""The functions, by kind, from a value of the model to the number in the frame."""


def read(item: Item, kind: str, bits: int, default: int, *, has_auto: bool) -> Values | None:
    """Return the values of the pattern in `item`, or None if the generator is to find the value."""
    convert = READ[kind]
    chosen = item.choice(
        "auto" if has_auto else "value",
        "value", "values", "increment", "decrement", "random", *(["auto"] if has_auto else []),
    )  # fmt: skip
    try:
        values = _read(item, chosen, convert, bits, default)
    except (ValueError, TypeError, OverflowError) as error:
        item.error(chosen, f"it cannot be read: {error}")
        return (default,)
    largest = (1 << bits) - 1
    if values is not None and (beyond := next((one for one in values if not 0 <= one <= largest), None)) is not None:
        item.error(chosen, f"it has {shown(beyond)}; the field has {bits} bits")
        return (default,)
    return values


def _read(item: Item, chosen: str, convert: Callable[[Any], int], bits: int, default: int) -> Values | None:
    if chosen == "auto":
        item.ignore("auto")
        return None
    if chosen == "value":
        return (convert(item.take("value")) if item.has("value") else default,)
    if chosen == "values":
        return tuple(convert(one) for one in item.take("values", ())) or (default,)
    if not chosen:
        return (default,)
    with item.item(chosen) as counter:
        count = counter.integer("count", 1, 1, MOST_VALUES)
        if chosen == "random":
            low = convert(counter.take("min")) if counter.has("min") else 0
            high = convert(counter.take("max")) if counter.has("max") else (1 << bits) - 1
            if low > high:
                counter.error("min", "it is above max")
                return (default,)
            draw = random.Random(counter.integer("seed", 1))
            return tuple(draw.randint(low, high) for _ in range(count))
        start = convert(counter.take("start")) if counter.has("start") else default
        step = convert(counter.take("step")) if counter.has("step") else 1
    step = -step if chosen == "decrement" else step
    return tuple((start + number * step) % (1 << bits) for number in range(count))
