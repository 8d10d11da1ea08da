"""The old names of commands, which are taken with a note of the new name until the next version."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Words = list[str]


def renamed(words: Sequence[str]) -> tuple[str, str, Words] | None:
    """Return the old name, the new one, and all words of the command by that; None if the name is no old one."""
    if not words or (known := _OLD.get(words[0])) is None:
        return None
    new, translate = known
    rest = translate(list(words[1:]))
    return None if rest is None else (_SHOWN.get(words[0], words[0]), new, rest)


def _under(*new: str) -> tuple[str, Callable[[Words], Words | None]]:
    return " ".join(new), lambda rest: [*new, *rest]


def _figure(rest: Words) -> Words | None:
    """`export RESULT --figure FIGURE` -> `plot FIGURE RESULT`"""
    given = [place for place, word in enumerate(rest) if word.partition("=")[0] == "--figure"]
    if not given:
        return None
    place = given[0]
    _, has_value, name = rest[place].partition("=")
    names = [name] if has_value else rest[place + 1 : place + 2]
    return ["plot", *names, *rest[:place], *rest[place + 1 + (not has_value) :]]


def _ladder(rest: Words) -> Words:
    """`ladder RESULT A B --svg FILE` -> `export RESULT --ladder A B -o FILE`"""
    options, places = _split(rest, "--svg")
    options = [word.replace("--svg", "--output", 1) if word.startswith("--svg") else word for word in options]
    return ["export", *places[:1], *(("--ladder", *places[1:]) if len(places) > 1 else ()), *options]


def _conformance(rest: Words) -> Words:
    """`conformance --switch FILE` -> `switch conformance FILE`"""
    files = [word.removeprefix("--switch=") for word in rest if word != "--switch"]
    return ["switch", "conformance", *files]


def _dcbx(rest: Words) -> Words | None:
    """`dcbx [IFACE]` -> `dcbx show [IFACE]`, and `dcbx --forget` -> `dcbx forget`"""
    if rest and rest[0] in ("show", "metrics", "forget", "agent", "-h", "--help"):
        return None
    if "--forget" in rest:
        return ["dcbx", "forget", *(word for word in rest if word != "--forget")]
    return ["dcbx", "show", *rest]


def _split(words: Words, *taking_a_value: str) -> tuple[Words, Words]:
    """Return the options with their values, and the words between them."""
    options, places = [], []
    following = iter(words)
    for word in following:
        if word.startswith("-"):
            options += [word, *([next(following, "")] if word in taking_a_value else [])]
        else:
            places.append(word)
    return options, places


_OLD: dict[str, tuple[str, Callable[[Words], Words | None]]] = {
    "sr": _under("controller", "sr"),
    "qos": _under("controller", "qos"),
    "dissector": _under("decode", "--dissector"),
    "lock": _under("image", "lock"),
    "clean": _under("image", "clean", "--all"),
    "export": ("plot", _figure),
    "ladder": ("export --ladder", _ladder),
    "agent": _under("dcbx", "agent"),
    "dcbx": ("dcbx show", _dcbx),
    "headroom": _under("switch", "headroom"),
    "conformance": ("switch conformance", _conformance),
    "completion": ("--completion", lambda rest: ["--completion", *rest]),
}
_SHOWN = {"export": "export --figure"}
"""The old names of options of a command that stays."""
NEW = {old: new for old, (new, _) in _OLD.items() if old not in _SHOWN}
"""The new name of each old one."""
