"""The states of protocols over time, in rows of words: [time, what they are about, words]. Subjects have them.

What a row is about has its words until its next row; empty words mean that there is nothing of it any more. The page of
a report shows those of the time that its slider is at, and a live view those of now.
"""

from __future__ import annotations

from testbed import subject
from testbed.lab.results.folder import Event, Folder

Row = tuple[int, str, str]
MOST = 3000


def states(folder: Folder, facts: list[Event]) -> list[Row]:
    """Return the rows of a result, in the order of time; `facts` are the events of agents that tables show."""
    rows = [row for of in subject.loaded("history") for row in of(folder, facts)]
    rows.sort(key=lambda row: row[0])
    return rows[:MOST]
