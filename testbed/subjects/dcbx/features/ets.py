"""ETS: the classes of priorities and the shares of classes, passed on asymmetrically, with `recommendation`.

    draft      subtype 9, length 17    reserved 7 bits, W 1; assignment 8 x 4; bandwidth 8 x 8
    published  subtype 9, length 25    W 1, CBS 1, reserved 3, traffic classes 3 (0 is 8); assignment 8 x 4;
                                       bandwidth 8 x 8; transmission selection 8 x 8

A willing port operates with the peer's recommendation: of bandwidth in the draft, of the whole table in the published
format.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from testbed.frames import FieldError
from testbed.frames.dcbx.layouts import LAYOUTS
from testbed.frames.dcbx.values import PRIORITIES, DcbxVersion, Ets, Tsa
from testbed.frames.lldp_tlvs import Flaw, Organisational
from testbed.strict.tables import TomlTable, flag
from testbed.subjects.dcbx.config_values import section
from testbed.subjects.dcbx.features.codec import Contents, codec, layouts, packed, unpacked
from testbed.subjects.dcbx.features.ets_tables import (
    check_format,
    keys_of_tables,
    legend,
    published_tables,
    read_classes,
    read_percents,
    read_selection,
    share_warnings,
    table_data,
    table_flaws,
    table_text,
)
from testbed.subjects.dcbx.features.feature import (
    CommonSettings,
    Data,
    DcbxSettingsError,
    Event,
    Feature,
    FeatureState,
    View,
    willing_text,
)
from testbed.subjects.dcbx.features.recommendation import Recommend, Shares, read_recommend, recommend_lines
from testbed.subjects.dcbx.machines import asymmetric

_DRAFT, _PUBLISHED = (LAYOUTS[version][9] for version in (DcbxVersion.DRAFT, DcbxVersion.PUBLISHED))
_NAME = "ets_configuration"


@dataclass(frozen=True, slots=True)
class EtsConfiguration:
    """The content of ETS Configuration: how the sender operates."""

    ets: Ets
    willing: bool = False
    cbs: bool = False
    """Published only: True if the sender supports the credit-based shaper."""


@dataclass(frozen=True)
class EtsAdmin:
    """The settings of ETS, which is passed on asymmetrically."""

    table: Ets
    willing: bool = False
    recommend: Recommend | Shares | None = None
    cbs: bool = False
    """Published only: True if this port has the credit-based shaper."""


@dataclass(frozen=True, slots=True)
class EtsChanged(Event):
    """Operate with this table; None if ETS is disabled."""

    ets: Ets | None
    why: str


def _encode_draft(content: EtsConfiguration, _: Contents) -> Organisational:
    if content.ets.tsa is not None or content.cbs:
        raise FieldError("the draft has no transmission selection; leave `tsa` at None and `cbs` at False")
    ets = content.ets
    return packed(_DRAFT, willing=content.willing, priority=ets.assignment, bandwidth=ets.bandwidth)


def _read_draft(info: bytes, flaws: list[Flaw]) -> EtsConfiguration | None:
    found = unpacked(_DRAFT, _NAME, info, flaws)
    if found is None:
        return None
    ets = Ets(found["priority"], found["bandwidth"])
    flaws += table_flaws(_NAME, ets.assignment, ets.bandwidth, None)
    return EtsConfiguration(ets, bool(found["willing"]))


def _encode_published(content: EtsConfiguration, others: Contents) -> Organisational:
    classes = others.get("traffic_classes")
    if classes is None:
        raise FieldError("a published ETS Configuration has a number of traffic classes: give 1 to 8")
    tables = published_tables(content.ets.assignment, content.ets.bandwidth, content.ets.tsa)
    return packed(_PUBLISHED, willing=content.willing, cbs=content.cbs, traffic_classes=classes, **tables)


def _read_published(info: bytes, flaws: list[Flaw]) -> EtsConfiguration | None:
    found = unpacked(_PUBLISHED, _NAME, info, flaws)
    if found is None:
        return None
    ets = Ets(found["priority"], found["bandwidth"], found["tsa"])
    flaws += table_flaws(_NAME, ets.assignment, ets.bandwidth, ets.tsa)
    return EtsConfiguration(ets, bool(found["willing"]), bool(found["cbs"]))


class EtsFeature(Feature[EtsAdmin, Ets, EtsConfiguration]):
    name = "ets"
    head = "ETS"
    tlv = "ETS Configuration"
    event_type = EtsChanged
    event_field = "ets"
    codecs = layouts(
        draft=codec(_DRAFT, _NAME, _read_draft, _encode_draft, tells=True),
        published=codec(_PUBLISHED, _NAME, _read_published, _encode_published, tells=True),
    )

    def check(self, admin: EtsAdmin, settings: CommonSettings) -> None:
        check_format("ETS table", admin.table.version, settings)
        wrong = admin.table.problem()
        if wrong:
            raise DcbxSettingsError(f"ETS table: {wrong}")
        classes = settings.traffic_classes
        for priority in PRIORITIES:
            if classes <= admin.table.assignment[priority] < 8 and not settings.is_draft:
                raise DcbxSettingsError(
                    f"ETS table: priority {priority} is assigned to class {admin.table.assignment[priority]}, "
                    f"and this port has {classes}, 0 to {classes - 1}"
                )
        if admin.cbs and settings.is_draft:
            raise DcbxSettingsError("the draft has no CBS bit; leave `cbs` at False")

    def read_settings(self, top: TomlTable, version: DcbxVersion) -> EtsAdmin | None:
        table = top.table("ets")
        if table is None:
            return None
        willing, cbs = table.take("willing", flag, False), table.take("cbs", flag, False)
        assignment = table.need("classes", read_classes(version))
        bandwidth = table.take("bandwidth", read_percents, (0,) * 8)
        tsa = read_selection(table, version)
        advice = table.table("recommend")
        recommend = read_recommend(advice, version) if advice else None
        return table.build(lambda: EtsAdmin(Ets(assignment, bandwidth, tsa), willing, recommend, cbs))

    def settings_lines(self, admin: EtsAdmin) -> list[str]:
        values = {"willing": admin.willing, "cbs": admin.cbs}
        values |= keys_of_tables(admin.table.assignment, admin.table.bandwidth, admin.table.tsa)
        recommend = [] if admin.recommend is None else recommend_lines(admin.recommend)
        return section("ets", values) + recommend

    def warnings(self, settings: CommonSettings, states: Mapping[str, FeatureState[Any]]) -> Iterator[str]:
        admin, ets = self.admin(settings), states[self.name].oper
        if not admin or not ets:
            return
        yield from share_warnings("", ets.assignment, ets.bandwidth, ets.tsa)
        for number in sorted(set(ets.assignment)) if ets.tsa else ():
            if ets.tsa[number] == Tsa.CBS and not admin.cbs:
                yield f"traffic class {number} has the credit-based shaper, and this port has none (cbs = false)"
            elif ets.tsa[number] == Tsa.VENDOR:
                yield f"traffic class {number} has a vendor's own transmission selection (255), unknown here"

    def negotiate(self, view: View) -> FeatureState[Ets]:
        admin, tlv, advice = self.admin(view.settings), view.remote(self.name), view.remote("recommendation")
        remote, remote_willing = (tlv.ets, tlv.willing) if tlv else (None, None)
        if admin is None:
            return FeatureState(None, None, remote, "this port does not run ETS", remote_willing=remote_willing)
        rv = advice.valid if advice else None
        recommended = advice.applied_to(admin.table) if advice and rv else None
        unfit = _misfit(recommended, view.settings)
        if unfit:  # as good as no recommendation
            recommended = rv = None
        known, absent = remote is not None, view.lacking(self.tlv)
        outcome = asymmetric(admin.table, recommended, rv=rv, local_willing=admin.willing, known=known, absent=absent)
        why = f"local setting: {unfit}" if unfit and admin.willing else outcome.why
        return FeatureState(admin.table, outcome.oper, remote, why, admin.willing, remote_willing, outcome.pending)

    def sent(self, settings: CommonSettings, state: FeatureState[Ets]) -> EtsConfiguration | None:
        admin = self.admin(settings)
        if admin is None or state.oper is None:
            return None
        return EtsConfiguration(state.oper, admin.willing, admin.cbs)

    def event(self, at_ns: int, state: FeatureState[Ets]) -> Event:
        return EtsChanged(at_ns, state.oper, state.why)

    def facts(self, state: FeatureState[Ets]) -> object:
        return state.oper

    def event_data(self, event: EtsChanged) -> dict[str, Any]:
        return {"ets": None if event.ets is None else table_data(event.ets), "why": event.why}

    def value_data(self, value: Ets) -> dict[str, Any]:
        return table_data(value)

    def tlv_data(self, content: EtsConfiguration) -> dict[str, Any]:
        return {"willing": content.willing, **table_data(content.ets), "cbs": content.cbs}

    def value_text(self, data: Any) -> str:
        return table_text(data)

    def tlv_text(self, data: Any, version: str) -> str:
        return f"ETS {table_text(data)}{willing_text(data)}{', CBS' if data['cbs'] else ''}"

    def event_text(self, line: Data, before: Data) -> list[str]:
        if before and before["ets"] == line["ets"]:
            return []
        return [f"ETS {'off' if line['ets'] is None else table_text(line['ets'])}, {line['why']}"]

    def sentence(self, line: Data) -> str:
        return f"ETS {'-' if line['ets'] is None else table_text(line['ets'])}: {line['why']}"

    def legend(self, data: Any) -> str:
        return legend(data)


def _misfit(recommended: Ets | None, settings: CommonSettings) -> str | None:
    """Return why the port cannot do what is recommended. The draft leaves the assignment alone, so it always can."""
    if recommended is None or settings.is_draft:
        return None
    highest, classes = max(recommended.assignment), settings.traffic_classes
    if highest < classes:
        return None
    return f"the peer recommends traffic class {highest}, and this port has {classes}"
