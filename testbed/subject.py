"""Subjects: DCBX, SRv6, SONiC and others, each of which plugs into the core by one object.

The core knows no subject by its name. Where one can have a part, a command or a view of a running network for instance,
the core asks each subject of the table for it. The table is `testbed.subjects.TABLE`, and what installed packages add
by entry points of the group `xoff.subjects`.

A member of a subject is the name of an object, "MODULE:OBJECT", which is imported when something of its kind is wanted:
`xoff list` imports no protocol. What kind of object a member names is written
here; the class of the object is in the room of the core that asks for it.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from testbed.plugins import Plugin


class Subject(NamedTuple):
    """A subject, with the names of the objects by which it takes part in the core. Each of them may be left out."""

    name: str
    commands: str = ""
    """Commands: a mapping of the titles of groups to commands by name, as in `cli/commands.py:GROUPS`."""
    exports: str = ""
    """Options of `xoff export`: a mapping of their names to `cli/look/export.py:Export`."""

    scripts: str = ""
    """Kinds of scripts that run as they are: each an `experiment/script.py:ScriptKind`."""
    fabric: str = ""
    """The fabric that a benchmark measures, of files of others: a function of the files, the rate control and the
    recovery, which returns a `measures/fabric_under_test.py:FabricUnderTest`."""
    node_options: str = ""
    """Options of nodes: a mapping of "host", "switch" and "router" to names, which `addHost` and its like then take."""
    negotiation: str = ""
    """How a port's settings are negotiated: a `switch/priority/negotiation.py:Negotiate`; one subject has it."""
    control_plane: str = ""
    """The routing daemons of a network: a `net/build/routing.py:MakeControlPlane`; one subject has them."""
    agent: str = ""
    """A part in the speakers of nodes: a function that makes its plan, as `net/fabric/bring_up.py:MakePart`."""

    views: str = ""
    """Views of a running network, commands of its command line: a mapping of names to `net/shell/views.py:View`."""
    shell: str = ""
    """Other commands of that command line: a mapping of names to functions of the words after it, which return what is
    printed; the docstring is the help."""
    states: str = ""
    """Rows of a live view: a function of a `Fabric`, which returns words by what they are about."""
    history: str = ""
    """The same over time, for a report: a function of a result folder and the events that tables show, which yields
    `report/timeline/states.py:Row`."""
    panels: str = ""
    """Panels of a report: a function of a result folder and its tracks, as in `report/pages/panels.py:MAKERS`."""
    section: str = ""
    """A section of a report: a function of a result folder, which returns HTML in parts, none if it has nothing."""
    line_frames: str = ""
    """The frame of a capture for what a cable carried: a function of a `linux/line_records.py:LineRecord` and of the
    addresses of the port that it comes from and of the one that it goes to; one subject has it."""
    decoders: str = ""
    """Frames in words: the `report/exports/frame_text.py:Decoder` of each EtherType."""

    plans: str = ""
    """Test plans that run on the subject's models: a mapping of the words of `xoff switch conformance --plan` to names
    of `lab/studies/plan_rows.py:Plan`."""

    def load(self, member: str) -> Any:
        """Return the object that a member names, or None if the subject has none."""
        value: str = getattr(self, member)
        module, _, name = value.partition(":")
        return getattr(importlib.import_module(module), name) if value else None


def every() -> tuple[Subject, ...]:
    """Return all subjects: those of the table in its order, then those of packages."""
    return (*own(), *_of_packages())


def loaded(member: str) -> Iterator[Any]:
    """Yield the objects that a member names, of each subject that has it."""
    for one in every():
        found = one.load(member)
        if found is not None:
            yield found


@cache
def own() -> tuple[Subject, ...]:
    table: tuple[str, ...] = importlib.import_module("testbed.subjects").TABLE
    return tuple(importlib.import_module(f"testbed.subjects.{name}.subject").SUBJECT for name in table)


@cache
def _of_packages() -> tuple[Subject, ...]:
    if not _some_package_has_any():
        return ()
    from testbed import plugins
    from testbed.errors import warn

    return tuple(plugins.usable(plugins.SUBJECTS, _checked, warn).values())


def _checked(plugin: Plugin, found: Any) -> Subject:
    if not isinstance(found, Subject):
        raise plugin.error("it is no Subject")
    if found.name in {one.name for one in own()}:
        raise plugin.error(f"Xoff has a subject {found.name} already; it needs another name")
    return found


def _some_package_has_any() -> bool:
    """Look for the group in what is installed. `plugins` does it exactly; its imports would delay each command."""
    for folder in sys.path:
        try:
            entries = [entry.path for entry in os.scandir(folder or ".") if entry.name.endswith(("-info", "plugins"))]
        except OSError:
            continue
        for path in entries:
            for name in ("entry_points.txt", "plugins.json"):
                try:
                    with open(f"{path}/{name}", "rb") as file:
                        if b"xoff.subjects" in file.read():
                            return True
                except OSError:
                    continue
    return False
