"""Upper-layer protocols: their Service-IDs (QoS RFC sections 4 to 8), and the short form `qos-ulps` as groups, levels
and rules. The rules of the short form come after the policy's own."""

from __future__ import annotations

from dataclasses import replace

from testbed.subjects.qos.fabric import DEFAULT_PKEY
from testbed.subjects.qos.model import MatchRule, Policy, PortGroup, QosLevel, Ulp, UlpKey, UlpRule
from testbed.subjects.qos.numbers import Ranges

SDP = 0x0000000000010000
"""The Service-ID of SDP without its port: 0x000000000001PPPP, PPPP the TCP port to connect to (section 6)."""
CMA_PREFIX = 0x0000000001000000
"""The Service-ID of the CMA without its port space and port (section 5)."""
TCP_PORT_SPACE, UDP_PORT_SPACE = 0x06, 0x11
RDS_PORT, ISER_PORT = 18634, 3260


def cma_service_id(port: int, port_space: int = TCP_PORT_SPACE) -> int:
    """Return the Service-ID that the CMA makes of a port space and a port."""
    return CMA_PREFIX | port_space << 16 | port


def sdp_service_id(port: int) -> int:
    return SDP | port


def iser_service_id(port: int = ISER_PORT) -> int:
    """Return the Service-ID of iSER, which section 8 leaves open: the CMA's for the target's TCP port (decision
    0126).
    """
    return cma_service_id(port)


def expanded(policy: Policy) -> Policy:
    """Return the same policy without the short form. The new names have a quote in them, as no name in a file has."""
    groups, levels, rules = list(policy.port_groups), dict[str, QosLevel](), list(policy.rules)
    default = policy.default_level
    for number, ulp in enumerate(policy.ulps):
        level = QosLevel(f'"sl {ulp.sl}"', ulp.sl, position=ulp.position)
        levels[level.name] = level
        if ulp.ulp is Ulp.DEFAULT:
            default = default or level.name
            continue
        rule = MatchRule(level.name, use=f"{ulp.ulp} of the short form", position=ulp.position)
        group = f'"ulp {number}"'
        if ulp.key in (UlpKey.TARGET_PORT_GUID, UlpKey.SOURCE_PORT_GUID, UlpKey.SOURCE_TARGET_PORT_GUID):
            groups.append(PortGroup(group, port_guids=ulp.values, position=ulp.position))
            if ulp.key is not UlpKey.TARGET_PORT_GUID:
                rule = replace(rule, sources=(group,))
            if ulp.key is not UlpKey.SOURCE_PORT_GUID:
                rule = replace(rule, destinations=(group,))
        elif ulp.ulp is Ulp.IPOIB or ulp.key is UlpKey.PKEY:
            rule = replace(rule, pkeys=ulp.values or Ranges(((DEFAULT_PKEY, DEFAULT_PKEY),)))
        else:
            rule = replace(rule, service_ids=_service_ids(ulp))
        rules.append(rule)
    return replace(
        policy,
        port_groups=tuple(groups),
        levels=(*policy.levels, *levels.values()),
        rules=tuple(rules),
        ulps=(),
        default_level=default,
    )


def _service_ids(ulp: UlpRule) -> Ranges:
    if ulp.key is UlpKey.SERVICE_ID:
        return ulp.values
    if ulp.ulp is Ulp.SDP:
        ports = ulp.values or Ranges(((0, 0xFFFF),))
        return Ranges.of((sdp_service_id(low), sdp_service_id(high)) for low, high in ports)
    usual = RDS_PORT if ulp.ulp is Ulp.RDS else ISER_PORT
    ports = ulp.values or Ranges(((usual, usual),))
    return Ranges.of((cma_service_id(low), cma_service_id(high)) for low, high in ports)
