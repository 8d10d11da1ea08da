"""Strategies for tests of DCBX: any TLVs that each of the formats can carry."""

from __future__ import annotations

from typing import TypeVar

from hypothesis import strategies as st

from testbed.frames.dcbx.values import AppEntry, Ets, EtsRecommendation, Selector, Tsa
from testbed.subjects.dcbx.tlvs import ApplicationPriority, CongestionNotification, DcbxTlvs, EtsConfiguration, Pfc

T = TypeVar("T")

masks = st.integers(0, 255)
priorities = st.integers(0, 7)
draft_groups = st.tuples(*[st.sampled_from([*range(8), 13, 14, 15])] * 8)
classes = st.tuples(*[priorities] * 8)
algorithms = st.tuples(*[st.sampled_from([int(algorithm) for algorithm in Tsa])] * 8)


@st.composite
def percents(draw: st.DrawFn) -> tuple[int, ...]:
    """Draw eight percents that sum to 100."""
    cuts = sorted(draw(st.lists(st.integers(0, 100), min_size=7, max_size=7)))
    return tuple(high - low for low, high in zip([0, *cuts], [*cuts, 100], strict=True))


def maybe(strategy: st.SearchStrategy[T]) -> st.SearchStrategy[T | None]:
    return st.none() | strategy


def entries(without: Selector, most: int = 168) -> st.SearchStrategy[tuple[AppEntry, ...]]:
    selectors = st.sampled_from([selector for selector in Selector if selector is not without])
    return st.lists(st.builds(AppEntry, priorities, selectors, st.integers(0, 0xFFFF)), max_size=most).map(tuple)


@st.composite
def drafts(draw: st.DrawFn) -> DcbxTlvs:
    """Draw TLVs of the draft's format."""
    enabled, notified = draw(masks), draw(masks)
    defended = draw(maybe(masks.map(enabled.__and__)))
    headroom = st.just(False) if defended is None else st.booleans()
    pfc = st.builds(
        Pfc, st.just(enabled), st.booleans(), st.integers(1, 8), defended=st.just(defended), headroom=headroom
    )
    cn = st.builds(CongestionNotification, st.just(notified), masks.map(notified.__and__), st.booleans())
    return DcbxTlvs(
        draw(maybe(st.integers(1, 8))),
        draw(maybe(st.builds(EtsConfiguration, st.builds(Ets, draft_groups, percents()), st.booleans()))),
        draw(maybe(st.builds(EtsRecommendation, percents()) | st.just(EtsRecommendation(valid=False)))),
        draw(maybe(pfc)),
        draw(maybe(st.builds(ApplicationPriority, entries(Selector.DSCP), st.booleans()))),
        draw(maybe(cn)),
    )


@st.composite
def publisheds(draw: st.DrawFn) -> DcbxTlvs:
    """Draw TLVs of the published format."""
    table = st.builds(Ets, classes, percents(), algorithms)
    configuration = draw(maybe(st.builds(EtsConfiguration, table, st.booleans(), st.booleans())))
    notified = draw(masks)
    return DcbxTlvs(
        draw(st.integers(1, 8)) if configuration else None,
        configuration,
        draw(maybe(st.builds(EtsRecommendation, percents(), classes, algorithms))),
        draw(maybe(st.builds(Pfc, masks, st.booleans(), st.integers(0, 8), st.booleans(), headroom=st.booleans()))),
        draw(maybe(st.builds(ApplicationPriority, entries(Selector.OTHER_PORT)))),
        draw(maybe(st.builds(CongestionNotification, st.just(notified), masks.map(notified.__and__)))),
    )
