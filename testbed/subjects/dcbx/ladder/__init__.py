"""Ladder diagrams of a link, from the log of its two ports: `diagram` makes them, `text` and `svg` draw them."""

from testbed.subjects.dcbx.ladder.diagram import Ladder, LadderError, ladder, read

__all__ = ["Ladder", "LadderError", "ladder", "read"]
