"""Equal ways follow the links of their ports, also when an agent takes over from one that died."""

from __future__ import annotations

from testbed.agent.pfc.lost_ways import LostWays, WaysPlan
from testbed.linux.port_program.records import WAYS_ENTRY
from testbed.linux.port_program.ways_tables import WaysTables
from testbed.switch.ways.settings import Ways
from testbed.units import NEVER


def made() -> tuple[WaysTables, WaysPlan]:
    tables = WaysTables(bytearray(WAYS_ENTRY.size), 0)
    plan = WaysPlan(tables.add(0, 1, 7, (1, 1), (3, 5)), Ways(), (1, 1), (3, 5), gone_after_ns=100)
    plan.put(tables)
    return tables, plan


def there(tables: WaysTables) -> list[bool]:
    return [way.is_there for way in tables.counters(0)]


def test_a_way_leaves_after_its_time_and_is_back_at_once() -> None:
    tables, plan = made()
    ways = LostWays([plan], tables)
    assert not ways.follow(5, False, 1000)
    assert (ways.deadline_ns, ways.expire(1099), there(tables)) == (1100, [], [True, True])
    assert (ways.expire(1100), there(tables), ways.deadline_ns) == ([5], [True, False], NEVER)
    assert ways.follow(5, True, 2000)
    assert there(tables) == [True, True]


def test_a_link_that_is_back_in_time_never_leaves() -> None:
    tables, plan = made()
    ways = LostWays([plan], tables)
    ways.follow(3, False, 0)
    assert not ways.follow(3, True, 50)
    assert (ways.deadline_ns, ways.expire(1000), there(tables)) == (NEVER, [], [True, True])


def test_a_successor_brings_a_way_back_whose_link_came_back_while_no_agent_ran() -> None:
    tables, plan = made()
    first = LostWays([plan], tables)
    first.follow(3, False, 0)
    assert first.expire(100) == [3]
    successor = LostWays([plan], tables)
    successor.take_over()
    assert successor.follow(3, True, 200)
    assert there(tables) == [True, True]
