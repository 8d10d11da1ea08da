"""The features of DCBX, in the order of the draft's summary.

A new feature is a class of `feature.Feature` in a file of its own, and an instance of it in the list below.
"""

from __future__ import annotations

from typing import Any

from testbed.subjects.dcbx.features.applications import ApplicationFeature
from testbed.subjects.dcbx.features.congestion_notification import CnFeature
from testbed.subjects.dcbx.features.ets import EtsFeature
from testbed.subjects.dcbx.features.feature import Feature
from testbed.subjects.dcbx.features.headroom import HeadroomFeature
from testbed.subjects.dcbx.features.link_layer import LinkLayerFeature
from testbed.subjects.dcbx.features.pfc import PfcFeature
from testbed.subjects.dcbx.features.recommendation import RecommendationFeature
from testbed.subjects.dcbx.features.traffic_classes import TrafficClassesFeature
from testbed.subjects.dcbx.features.virtual_channels import VirtualChannelsFeature

_registered: dict[str, Feature[Any, Any, Any]] = {
    feature.name: feature
    for feature in (
        TrafficClassesFeature(),
        EtsFeature(),
        RecommendationFeature(),
        PfcFeature(),
        ApplicationFeature(),
        CnFeature(),
        HeadroomFeature(),
        LinkLayerFeature(),
        VirtualChannelsFeature(),
    )
}


def every() -> tuple[Feature[Any, Any, Any], ...]:
    """Return all features, in the order in which their TLVs are sent and shown."""
    return tuple(_registered.values())


def named(name: str) -> Feature[Any, Any, Any]:
    """Return the feature of this name; KeyError if there is none."""
    return _registered[name]


def of_event(what: str) -> Feature[Any, Any, Any] | None:
    """Return the feature whose event a log calls `what`, or None if it is not a feature's event."""
    return _registered.get(what.removesuffix(_CHANGED)) if what.endswith(_CHANGED) else None


def event_name(feature: Feature[Any, Any, Any]) -> str:
    """Return the name of a feature's event in a log."""
    return f"{feature.name}{_CHANGED}"


def register(feature: Feature[Any, Any, Any]) -> None:
    """Add a feature, before any port is made."""
    if feature.name in _registered:
        raise ValueError(f"there is a DCBX feature {feature.name} already")
    _registered[feature.name] = feature


def unregister(name: str) -> None:
    """Remove a feature that was added."""
    del _registered[name]


_CHANGED = "_changed"
