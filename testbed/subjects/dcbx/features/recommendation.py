"""ETS Recommendation: how a port would have its peer operate ETS, the other half of asymmetric passing.

    draft      subtype 10, length 13    reserved 7 bits, RV 1; bandwidth 8 x 8, reserved while RV is 0
    published  subtype 10, length 25    reserved 8; assignment 8 x 4, bandwidth 8 x 8, selection 8 x 8; no RV

A recommendation may have to wait for what the peer announces (decision 0107): the draft names the number of traffic
classes and the assignment of priorities to groups. While it waits the draft's TLV has RV 0; the published format has no
RV, so the TLV is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from testbed.frames import FieldError
from testbed.frames.dcbx.layouts import LAYOUTS
from testbed.frames.dcbx.values import (
    DcbxVersion,
    EtsRecommendation,
    Table,
    assignment_problem,
    bandwidth_problem,
)
from testbed.frames.lldp_tlvs import Flaw, Organisational
from testbed.strict.tables import TomlTable, flag
from testbed.subjects.dcbx.config_values import section
from testbed.subjects.dcbx.features.codec import Contents, DcbxReason, codec, flaw, layouts, packed, unpacked
from testbed.subjects.dcbx.features.ets_tables import (
    check_format,
    keys_of_tables,
    legend,
    published_tables,
    read_classes,
    read_percents,
    read_selection,
    share_warnings,
    shares_text,
    table_data,
    table_flaws,
    table_text,
)
from testbed.subjects.dcbx.features.feature import CommonSettings, DcbxSettingsError, Feature, FeatureState, View

_DRAFT, _PUBLISHED = (LAYOUTS[version][10] for version in (DcbxVersion.DRAFT, DcbxVersion.PUBLISHED))
_NAME = "ets_recommendation"


@dataclass(frozen=True)
class Shares:
    """Draft only: a recommendation that gives these priorities these percents, in whatever groups the peer puts them.

    The recommendation is worked out from the peer's ETS Configuration, and RV is 0 until that has come.
    """

    percent: Table
    """The percents of priorities 0 to 7."""

    def __post_init__(self) -> None:
        if len(self.percent) != 8 or min(self.percent) < 0 or sum(self.percent) != 100:
            raise DcbxSettingsError(f"shares {self.percent} are invalid: give one for each of 8 priorities, 100 in sum")


@dataclass(frozen=True)
class Recommend:
    """A recommendation of this table; with `wait`, not before the peer's ETS Configuration shows that it fits."""

    table: EtsRecommendation
    wait: bool = False


@dataclass(frozen=True, slots=True)
class Advice:
    """The recommendation of a port at this moment."""

    table: EtsRecommendation | None
    """The recommended table, or None if nothing can be recommended now."""
    why: str


def _encode_draft(advice: EtsRecommendation, _: Contents) -> Organisational:
    if advice.assignment is not None:
        raise FieldError("the draft recommends bandwidth only; leave `assignment` and `tsa` at None")
    return packed(_DRAFT, rv=advice.valid, bandwidth=advice.bandwidth)


def _read_draft(info: bytes, flaws: list[Flaw]) -> EtsRecommendation | None:
    found = unpacked(_DRAFT, _NAME, info, flaws)
    if found is None:
        return None
    if not found["rv"]:
        return EtsRecommendation(valid=False)
    wrong = bandwidth_problem(found["bandwidth"], None)
    if wrong:
        flaws.append(flaw(_NAME, DcbxReason.BANDWIDTH_SUM, wrong))
        return None
    return EtsRecommendation(found["bandwidth"])


def _encode_published(advice: EtsRecommendation, _: Contents) -> Organisational:
    if not advice.valid:
        raise FieldError("the published format has no RV bit; leave the TLV out until there is a recommendation")
    return packed(_PUBLISHED, **published_tables(advice.assignment, advice.bandwidth, advice.tsa))


def _read_published(info: bytes, flaws: list[Flaw]) -> EtsRecommendation | None:
    found = unpacked(_PUBLISHED, _NAME, info, flaws)
    if found is None:
        return None
    assignment, bandwidth, tsa = found["priority"], found["bandwidth"], found["tsa"]
    wrong = table_flaws(_NAME, assignment, bandwidth, tsa)
    flaws += wrong
    return None if wrong else EtsRecommendation(bandwidth, assignment, tsa)


class RecommendationFeature(Feature[Recommend | Shares, EtsRecommendation, EtsRecommendation]):
    """The recommendation that a port makes; its settings are a part of those of ETS."""

    name = "recommendation"
    head = "ETS rec"
    tlv = "ETS Recommendation"
    codecs = layouts(
        draft=codec(_DRAFT, _NAME, _read_draft, _encode_draft, tells=True),
        published=codec(_PUBLISHED, _NAME, _read_published, _encode_published, tells=True),
    )

    def admin(self, settings: CommonSettings) -> Recommend | Shares | None:
        ets = settings.get("ets")
        found: Recommend | Shares | None = ets and ets.recommend
        return found

    def check(self, admin: Recommend | Shares, settings: CommonSettings) -> None:
        if isinstance(admin, Shares):
            check_format("recommendation by shares", DcbxVersion.DRAFT, settings)
            return
        table = admin.table
        if not table.valid:
            raise DcbxSettingsError("a recommendation to send has to be one: leave `valid` at True")
        check_format("ETS recommendation", table.version, settings)
        wrong = table.assignment and assignment_problem(table.assignment, table.tsa)
        wrong = wrong or bandwidth_problem(table.bandwidth, table.tsa)
        if wrong:
            raise DcbxSettingsError(f"ETS recommendation: {wrong}")

    def warnings(self, settings: CommonSettings, states: Mapping[str, FeatureState[Any]]) -> Iterator[str]:
        admin = self.admin(settings)
        if isinstance(admin, Recommend):
            advice = admin.table
            yield from share_warnings("recommended: ", advice.assignment or (), advice.bandwidth, advice.tsa)

    def negotiate(self, view: View) -> FeatureState[EtsRecommendation]:
        remote = view.remote(self.name)
        if view.settings.get("ets") is None:
            return FeatureState(None, None, remote, "this port does not run ETS")
        admin = self.admin(view.settings)
        advice = advise(admin, view.peer)
        pending = admin is not None and advice.table is None
        fixed = admin.table if isinstance(admin, Recommend) else None
        return FeatureState(fixed, advice.table, remote, advice.why, pending=pending)

    def sent(self, settings: CommonSettings, state: FeatureState[EtsRecommendation]) -> EtsRecommendation | None:
        if self.admin(settings) is None:
            return None
        if state.oper is None and settings.is_draft:
            return EtsRecommendation(valid=False)
        return state.oper

    def value_data(self, value: EtsRecommendation) -> dict[str, Any]:
        return {"valid": value.valid, **table_data(value)}

    def tlv_data(self, content: EtsRecommendation) -> dict[str, Any]:
        return self.value_data(content)

    def value_text(self, data: Any) -> str:
        if not data["valid"]:
            return "RV 0"
        return shares_text(data) if data["assignment"] is None else table_text(data)

    def tlv_text(self, data: Any, version: str) -> str:
        if not data["valid"]:
            return "recommends nothing yet (RV 0)"
        return f"recommends ETS {self.value_text(data)}{' (RV 1)' * (data['tsa'] is None)}"

    def legend(self, data: Any) -> str:
        return legend(data)


def read_recommend(table: TomlTable, version: DcbxVersion) -> Recommend | Shares:
    """Read the section [ets.recommend]."""
    wait = table.take("wait", flag, False)
    if table.has("shares"):
        shares = table.need("shares", read_percents)
        for key in ("bandwidth", "wait"):
            if table.has(key):
                table.refuse(key, "does not go with shares, which always wait for the peer's table; give one")
        return table.build(lambda: Shares(shares))
    bandwidth = table.take("bandwidth", read_percents, (0,) * 8)
    if version is DcbxVersion.DRAFT:
        if table.has("classes"):
            table.refuse("classes", "the draft recommends bandwidth only; leave this out")
        read_selection(table, version)
        return table.build(lambda: Recommend(EtsRecommendation(bandwidth), wait))
    assignment, tsa = table.need("classes", read_classes(version)), read_selection(table, version)
    return table.build(lambda: Recommend(EtsRecommendation(bandwidth, assignment, tsa), wait))


def recommend_lines(admin: Recommend | Shares) -> list[str]:
    """Return the section [ets.recommend]."""
    if isinstance(admin, Shares):
        return section("ets.recommend", {"shares": list(admin.percent)})
    table = admin.table
    return section("ets.recommend", {"wait": admin.wait} | keys_of_tables(table.assignment, table.bandwidth, table.tsa))


def advise(recommend: Recommend | Shares | None, peer: Contents | None) -> Advice:
    """Compute what a port with these settings recommends to its peer."""
    if recommend is None:
        return Advice(None, "this port is not set to recommend")
    if isinstance(recommend, Recommend) and not recommend.wait:
        return Advice(recommend.table, "local setting")
    configuration = None if peer is None else peer.get("ets")
    if peer is None or configuration is None:
        return Advice(None, "held back until the peer's ETS Configuration is known")
    wrong = configuration.ets.problem()
    if wrong:
        return Advice(None, f"held back: the peer's ETS Configuration is wrong, {wrong}")
    if isinstance(recommend, Shares):
        bandwidth = of_shares(recommend.percent, configuration.ets.assignment)
        if bandwidth is None:
            return Advice(None, "held back: the peer has no priority with a share in a priority group")
        return Advice(EtsRecommendation(bandwidth), "worked out from the shares and the peer's priority groups")
    needed, there = _classes_needed(recommend.table), peer.get("traffic_classes")
    if there is not None and needed > there:
        return Advice(None, f"held back: the table needs {needed} traffic classes, and the peer has {there}")
    return Advice(recommend.table, "local setting, and it fits the peer")


def of_shares(percent: Table, assignment: Table) -> Table | None:
    """Convert percents of priorities to percents of the groups they are in; None if no group gets any.

    Priorities outside of groups (strict, AVB) are not governed by bandwidth. What was meant for them goes to the groups
    in proportion, so that the sum stays 100: rounded down, and the rest by the largest remainders, lower groups first.
    """
    wanted = [0] * 8
    for share, group in zip(percent, assignment, strict=True):
        if group < 8:
            wanted[group] += share
    total = sum(wanted)
    if total == 0:
        return None
    bandwidth = [100 * want // total for want in wanted]
    by_remainder = sorted(range(8), key=lambda group: (-(100 * wanted[group] % total), group))
    for group in by_remainder[: 100 - sum(bandwidth)]:
        bandwidth[group] += 1
    return tuple(bandwidth)


def _classes_needed(table: EtsRecommendation) -> int:
    """Return the number of traffic classes that a peer needs for a table.

    The draft numbers its groups freely, so it is the number of those with bandwidth; else the highest class and one.
    """
    if table.assignment is None:
        return sum(share > 0 for share in table.bandwidth)
    used = [number for number, share in enumerate(table.bandwidth) if share]
    return max(*table.assignment, *used) + 1
