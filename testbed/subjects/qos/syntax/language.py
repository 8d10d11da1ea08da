"""The reader of a policy file in either syntax. Errors are collected, not raised."""

from __future__ import annotations

import re
from dataclasses import dataclass

from testbed.subjects.qos.model import Policy
from testbed.subjects.qos.syntax import block_text, rfc_xml
from testbed.subjects.qos.syntax.build import build
from testbed.subjects.qos.syntax.check import check
from testbed.subjects.qos.syntax.grammar import BLOCK, XML, Syntax
from testbed.subjects.qos.syntax.source import PolicyError, Problems, decode

_SKIPPED = re.compile(rb"(?:\xef\xbb\xbf)?(?:[ \t\r\n]+|#[^\n]*(?:\n|$))*+")


@dataclass(frozen=True)
class Reading:
    """The result of reading a file. Without errors the policy is whole."""

    policy: Policy
    syntax: Syntax
    problems: Problems

    @property
    def ok(self) -> bool:
        return not self.problems.errors


def syntax_of(content: bytes) -> Syntax:
    """Return the syntax of a file: XML begins with <, all other files are block text."""
    skipped = _SKIPPED.match(content)
    return XML if content[skipped.end() if skipped else 0 :][:1] == b"<" else BLOCK


def read(content: bytes, syntax: Syntax | None = None) -> Reading:
    """Read a file's bytes. If no syntax is given, the first character decides."""
    problems = Problems()
    syntax = syntax or syntax_of(content)
    source = decode(content, problems)
    root = (rfc_xml if syntax is XML else block_text).parse(source, problems)
    policy = build(root, source, syntax, problems)
    check(policy, syntax, problems)
    return Reading(policy, syntax, problems)


def load(content: bytes, name: str, syntax: Syntax | None = None) -> Policy:
    """Return the policy of a file without errors; PolicyError names all of them otherwise."""
    reading = read(content, syntax)
    if not reading.ok:
        raise PolicyError(name, reading.problems.errors, reading.problems.left_out)
    return reading.policy
