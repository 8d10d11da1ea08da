"""The tables of a config_db.json that decide about Link Layer Retry: LLR_CONFIG, LLR_PORT and LLR_PROFILE.

Names and ranges are those of SONiC's YANG models; the design's first form, LLR_CONFIG and `profile` in LLR_PORT, is
read too. `llr_local` is reception and `llr_remote` transmission. A port without a profile of its own has that of its
speed and cable length: the row of that name if there is one, else that of SONiC's sample, else what the cable needs.

What the lab has is a cable with LLR in both directions, or none. Not here: `dynamic`, which is negotiation by LLDP.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from testbed.strict.problems import json_path as path
from testbed.strict.problems import shown
from testbed.subjects.sonic.entries import Entry, EntryReader
from testbed.subjects.sonic.headroom import SHORT_CABLE
from testbed.subjects.sonic.tables import LlrFrameAction, LlrMode, LlrPortRow, LlrProfileRow, Tables
from testbed.switch.link import retry
from testbed.switch.link.retry import Llr, LlrAction
from testbed.units import Duration, Length, Rate, Size

GLOBAL_KEY = "GLOBAL"
_ON = {"enabled": True, "disabled": False}
_DEFAULT_MTU = 1500
_SAMPLE = {
    "llr_200000_5m_profile": LlrProfileRow(
        61, 31_184, 3, 5000, 50_000, 20_000, flush_action=LlrFrameAction.BLOCK
    ),
    "llr_200000_40m_profile": LlrProfileRow(
        71, 35_952, 3, 5500, 55_000, 24_000, flush_action=LlrFrameAction.BLOCK
    ),
    "llr_400000_5m_profile": LlrProfileRow(115, 58_768, 3, 5000, 50_000, 20_000),
    "llr_400000_40m_profile": LlrProfileRow(
        133, 67_760, 3, 5500, 55_000, 24_000, flush_action=LlrFrameAction.DISCARD
    ),
}  # fmt: skip
"""The profiles that a switch with SONiC's sample of `llr_profile_lookup.ini` makes."""
NUMBERS = {
    "max_outstanding_frames": (0, retry.MOST_FRAMES),
    "max_outstanding_bytes": (0, (1 << 32) - 1),
    "max_replay_count": (1, 255),
    "max_replay_timer": (0, 65_535),
    "pcs_lost_timeout": (0, 4_290_000_000),
    "data_age_timeout": (0, 4_290_000_000),
    "ctlos_spacing_bytes": (400, 16_384),
}
"""The least and the most of each number of a profile."""
_NEEDED = ("max_outstanding_frames", "max_outstanding_bytes")
Finding = tuple[str, str, str]
"""The place of a finding, its text, and the rule's name."""


# Reading and writing


def read_tables(reader: EntryReader) -> dict[str, Any]:
    """Return the fields of `Tables` about LLR. What is wrong goes to the reader's problems."""
    profiles = {entry.key: row for entry in reader.rows("LLR_PROFILE") if (row := _profile(reader, entry))}
    return {
        "llr_mode": _mode(reader),
        "llr_profiles": profiles,
        "llr_ports": dict(reader.of_ports("LLR_PORT", lambda entry: _port(reader, entry, profiles))),
    }


def _mode(reader: EntryReader) -> LlrMode | None:
    found = None
    for entry in reader.rows("LLR_CONFIG"):
        if entry.key != GLOBAL_KEY:
            reader.problems.error(entry.where(), f"{shown(entry.key)} is unknown: {GLOBAL_KEY} is the only row")
        elif "mode" in entry.row:
            found = reader.word(entry, "mode", LlrMode, LlrMode.STATIC)
    return found


def _profile(reader: EntryReader, entry: Entry) -> LlrProfileRow | None:
    for name in _NEEDED:
        if name not in entry.row:
            reader.problems.error(entry.where(), f"{name} is missing; a number such as 61 frames or 31184 is expected")
    numbers = {
        name: number
        for name, (least, most) in NUMBERS.items()
        if (number := reader.whole(entry, name, least, most)) is not None
    }
    actions = {
        name: reader.word(entry, name, LlrFrameAction, LlrFrameAction.BEST_EFFORT)
        for name in ("init_action", "flush_action")
    }
    if not all(name in numbers for name in _NEEDED) or None in actions.values():
        return None
    return LlrProfileRow(**numbers, **actions)  # type: ignore[arg-type]


def _port(reader: EntryReader, entry: Entry, profiles: dict[str, LlrProfileRow]) -> LlrPortRow:
    names = [name for name in ("llr_profile", "profile") if name in entry.row]
    if len(names) > 1:
        reader.problems.error(entry.where(), "it has llr_profile and profile; one of them is expected")
    known = [*profiles, *_SAMPLE]
    mode = reader.word(entry, "llr_mode", LlrMode, LlrMode.STATIC) if "llr_mode" in entry.row else None
    profile = None
    if names and entry.row[names[0]].strip().rpartition("|")[2].rstrip("]") in _SAMPLE:
        profile = entry.row[names[0]].strip().rpartition("|")[2].rstrip("]")  # what the switch makes of its own file
    elif names:
        profile = reader.reference(entry, names[0], "LLR_PROFILE", known)
    return LlrPortRow(mode, _state(reader, entry, "llr_local"), _state(reader, entry, "llr_remote"), profile)


def _state(reader: EntryReader, entry: Entry, name: str) -> bool:
    text = entry.row.get(name, "disabled").strip().lower()
    if text not in _ON:
        reader.problems.error(entry.where(name), f"{shown(text)} is unknown: enabled or disabled is expected")
    return _ON.get(text, False)


def as_json(tables: Tables) -> dict[str, dict[str, Any]]:
    """Return the tables as plain data."""
    return {
        "LLR_CONFIG": {GLOBAL_KEY: {"mode": tables.llr_mode.value}} if tables.llr_mode else {},
        "LLR_PORT": {
            name: {
                **({"llr_mode": row.mode.value} if row.mode else {}),
                "llr_local": _word(row.local), "llr_remote": _word(row.remote),
                **({"llr_profile": row.profile} if row.profile else {}),
            }
            for name, row in tables.llr_ports.items()
        },
        "LLR_PROFILE": {
            name: {one.name: str(getattr(row, one.name)) for one in fields(row)}
            for name, row in tables.llr_profiles.items()
        },
    }  # fmt: skip


def _word(is_on: bool) -> str:
    return "enabled" if is_on else "disabled"


# The settings of a port


def mode_of(tables: Tables, port: str) -> LlrMode:
    """Return the mode of a port."""
    return tables.llr_ports.get(port, LlrPortRow()).mode or tables.llr_mode or LlrMode.STATIC


def is_on(tables: Tables, port: str) -> bool:
    """Return True if a port sends and receives with LLR."""
    row = tables.llr_ports.get(port, LlrPortRow())
    return mode_of(tables, port) is LlrMode.STATIC and row.local and row.remote


def profile_name(tables: Tables, port: str) -> str:
    """Return the profile of a port: the one that it names, or that of its speed and cable length."""
    named = tables.llr_ports.get(port, LlrPortRow()).profile
    return named or usual_name(tables.ports[port].speed, tables.cables.get(port, SHORT_CABLE))


def profile_of(tables: Tables, port: str) -> LlrProfileRow:
    """Return the profile of a port: that of the file, else SONiC's sample, else what the cable needs."""
    name = profile_name(tables, port)
    return tables.llr_profiles.get(name) or _SAMPLE.get(name) or _by_law(tables, port)


def settings_of(tables: Tables, port: str) -> Llr | None:
    """Return what the cable at a port has, in the hardware's time; None if it has no LLR."""
    row = profile_of(tables, port)
    if not is_on(tables, port) or not (row.max_outstanding_frames and row.max_outstanding_bytes):
        return None
    age = row.data_age_timeout
    return Llr(
        frames=row.max_outstanding_frames,
        octets=min(max(row.max_outstanding_bytes, retry.LEAST_OCTETS), retry.MOST_OCTETS),
        replay_timer=Duration.from_ns(row.max_replay_timer) if row.max_replay_timer else None,
        replay_count=row.max_replay_count,
        spacing=row.ctlos_spacing_bytes,
        init_action=LlrAction(row.init_action.value),
        flush_action=LlrAction(row.flush_action.value),
        re_init=True,
        data_age=Duration.from_ns(age) if age else None,
    )


def row_of(llr: Llr) -> LlrProfileRow:
    """Return the profile of a cable of the lab, in the hardware's time; nanoseconds are rounded up."""
    timer, age = (0 if time is None else -(-Duration(time).ps // 1000) for time in (llr.replay_timer, llr.data_age))
    return LlrProfileRow(
        llr.frames or 0, llr.octets or 0, llr.replay_count, timer, 0, age, llr.spacing,
        LlrFrameAction(llr.init_action), LlrFrameAction(llr.flush_action),
    )  # fmt: skip


def usual_name(speed: int, length: str) -> str:
    """Return the name that a switch gives to the profile of a speed in Mb/s and a cable length."""
    return f"llr_{speed}_{length}_profile"


def _by_law(tables: Tables, port: str) -> LlrProfileRow:
    frames, octets, timer = _needed(tables, port)
    return LlrProfileRow(frames, octets, retry.NO_LIMIT, min(timer.ns, 65_535))


def _needed(tables: Tables, port: str) -> tuple[int, int, Duration]:
    """Return the frames, octets and replay timer with which the cable carries the port's rate."""
    rate, _, delay = _cable(tables, port)
    mtu = tables.ports[port].mtu or _DEFAULT_MTU
    frames, octets = retry.needed(rate, delay, mtu)
    return frames, octets, max(retry.SHORTEST_TIMER, delay + delay + rate.time_for(Size.from_bytes(octets)))


def _cable(tables: Tables, port: str) -> tuple[Rate, Length, Duration]:
    length = Length(tables.cables.get(port, SHORT_CABLE))
    return Rate.from_bps(tables.ports[port].speed * 10**6), length, length.propagation()


# Checking


def check(tables: Tables, port: str) -> Iterator[Finding]:
    """Yield what is contradictory about LLR at a port, or without effect in the lab."""
    row, where = tables.llr_ports[port], path("LLR_PORT")
    if mode_of(tables, port) is LlrMode.DYNAMIC:
        yield (
            where,
            ("llr_mode is dynamic, negotiation by LLDP, which is not modelled: there is no LLR here; set it to static"),
            "llr dynamic",
        )
        return
    if row.local != row.remote:
        on, off = ("llr_local", "llr_remote") if row.local else ("llr_remote", "llr_local")
        yield (
            where,
            (
                f"{on} is enabled and {off} is not: the lab's cables have LLR in both directions or in none, so this "
                f"has none; enable {off} too"
            ),
            "llr one way",
        )
    if row.profile and not (row.local or row.remote):
        yield (
            where,
            f"the profile {row.profile} has no effect, as LLR is off; enable llr_local and llr_remote",
            "llr off",
        )
    if is_on(tables, port):
        yield from _check_cable(tables, port)


def _check_cable(tables: Tables, port: str) -> Iterator[Finding]:
    """Yield where a port's profile does not fit its cable."""
    (rate, length, delay), name = _cable(tables, port), profile_name(tables, port)
    _, needs, timer = _needed(tables, port)
    if timer.ps > retry.LONGEST_TIMER.ps:
        yield (
            path("CABLE_LENGTH"),
            (
                f"LLR over {length} at {rate}: a replay takes {timer} to be acknowledged, and max_replay_timer is "
                f"{retry.LONGEST_TIMER} at most; the lab refuses such a cable, so disable LLR here"
            ),
            "llr cable",
        )
        return
    if name not in tables.llr_profiles and name not in _SAMPLE:
        row = profile_of(tables, port)
        yield (
            path("LLR_PORT"),
            (
                f"there is no {name}, neither here nor in SONiC's sample; the cable's need is taken: "
                f"{row.max_outstanding_frames} frames and {row.max_outstanding_bytes} B"
            ),
            "llr profile",
        )
        return
    row, where = profile_of(tables, port), path("LLR_PROFILE", name)
    if not (row.max_outstanding_frames and row.max_outstanding_bytes):
        return
    if row.max_outstanding_bytes < needs:
        yield (
            where,
            (
                f"max_outstanding_bytes is {row.max_outstanding_bytes}, and {rate} over {length} need {needs}: senders "
                f"wait for acknowledgements; set {needs} or more"
            ),
            "llr buffer too small",
        )
    shortest = delay + delay + rate.time_for(Size.from_bytes(row.ctlos_spacing_bytes))
    if row.max_replay_timer and row.max_replay_timer * 1000 <= shortest.ps:
        yield (
            where,
            (
                f"max_replay_timer is {row.max_replay_timer} ns, and an acknowledgement may take {shortest}: what has "
                f"come is replayed; set {timer.ns} or more"
            ),
            "llr timer too short",
        )


def check_profiles(tables: Tables) -> Iterator[Finding]:
    """Yield what is wrong with profiles whatever port has them, and what of them has no effect."""
    used = {profile_name(tables, port) for port in tables.llr_ports}
    for name, row in tables.llr_profiles.items():
        where = path("LLR_PROFILE", name)
        if name not in used:
            yield where, "no row of LLR_PORT has this profile", "llr profile unused"
        for field in _NEEDED:
            if not getattr(row, field):
                yield (
                    where,
                    (
                        f"{field} is 0: a sender could keep no frame, so ports with it have no LLR; SONiC's sample has "
                        f"{_SAMPLE['llr_200000_5m_profile'].max_outstanding_frames} frames and "
                        f"{_SAMPLE['llr_200000_5m_profile'].max_outstanding_bytes} B for 200G and 5m"
                    ),
                    "llr no buffer",
                )
        if row.pcs_lost_timeout:
            yield (
                where,
                ("pcs_lost_timeout has no effect in the lab, where a line is up or pulled: remove it, or set 0"),
                "llr pcs lost",
            )


def differs(one: Tables, port: str, other: Tables, far: str) -> str:
    """Return how the two ends of a cable differ about LLR, as far as the lab cannot have both; empty if they do not."""
    here, there = is_on(one, port), is_on(other, far)
    if here != there:
        return f"LLR is {'on' if here else 'off'} and {'on' if there else 'off'}: the cable has none"
    if here and settings_of(one, port) != settings_of(other, far):
        names = profile_name(one, port), profile_name(other, far)
        return f"LLR profiles {names[0]} and {names[1]} differ: the lab's cable has the first in both directions"
    return ""
