"""SONiC's commands about Link Layer Retry in a running network: `show llr ...`, and clearing its counters.

Columns and words are those of SONiC's utilities. Ports of switches that were read from a config_db.json have the rows
of their file; ports of other switches have what their cable has.
"""

from __future__ import annotations

from collections.abc import Sequence

from testbed.errors import UsageError
from testbed.net.fabric.fabric import Fabric
from testbed.net.fabric.ports import PortState
from testbed.subjects.sonic import llr
from testbed.subjects.sonic.lab.configuration import Configuration
from testbed.subjects.sonic.lab.trimming_views import grid
from testbed.subjects.sonic.lab.views import SonicViews, table
from testbed.subjects.sonic.tables import LlrProfileRow, Tables
from testbed.switch.link.counters import LlrReport

_PROFILE = (
    ("max_outstanding_frames", "Maximum Outstanding Frames"), ("max_outstanding_bytes", "Maximum Outstanding Bytes"),
    ("max_replay_count", "Maximum Replay Count"), ("max_replay_timer", "Maximum Replay Timer(ns)"),
    ("pcs_lost_timeout", "PCS Lost Status Timeout(ns)"), ("data_age_timeout", "Data Age Timeout(ns)"),
    ("ctlos_spacing_bytes", "CTLOS Spacing Bytes"), ("init_action", "Init Action"), ("flush_action", "Flush Action"),
)  # fmt: skip
_RX = (
    ("RX_INIT", "LLR_RX_INIT_CTL_OS"), ("RX_INIT_ECHO", "LLR_RX_INIT_ECHO_CTL_OS"), ("RX_ACK", "LLR_RX_ACK_CTL_OS"),
    ("RX_NACK", "LLR_RX_NACK_CTL_OS"), ("RX_OK", "LLR_RX_OK"), ("RX_BAD", "LLR_RX_BAD"),
    ("RX_POISONED", "LLR_RX_POISONED"), ("RX_REPLAY", "LLR_RX_REPLAY"),
)  # fmt: skip
_TX = (
    ("TX_INIT", "LLR_TX_INIT_CTL_OS"), ("TX_INIT_ECHO", "LLR_TX_INIT_ECHO_CTL_OS"), ("TX_ACK", "LLR_TX_ACK_CTL_OS"),
    ("TX_NACK", "LLR_TX_NACK_CTL_OS"), ("TX_OK", "LLR_TX_OK"), ("TX_DISCARD", "LLR_TX_DISCARD"),
    ("TX_POISONED", "LLR_TX_POISONED"), ("TX_REPLAY", "LLR_TX_REPLAY"),
)  # fmt: skip
_DETAILED = (
    (("LLR_INIT      CtrlOS Transmitted", "LLR_TX_INIT_CTL_OS"),
     ("LLR_INIT_ECHO CtrlOS Transmitted", "LLR_TX_INIT_ECHO_CTL_OS"),
     ("LLR_ACK       CtrlOS Transmitted", "LLR_TX_ACK_CTL_OS"),
     ("LLR_NACK      CtrlOS Transmitted", "LLR_TX_NACK_CTL_OS")),
    (("LLR Frames Transmitted OK", "LLR_TX_OK"), ("LLR Frames Transmitted as poisoned", "LLR_TX_POISONED"),
     ("LLR Frames Discarded at Transmit", "LLR_TX_DISCARD"), ("LLR Tx Replay Triggered Count", "LLR_TX_REPLAY")),
    (("LLR_INIT      CtrlOS Received", "LLR_RX_INIT_CTL_OS"),
     ("LLR_INIT_ECHO CtrlOS Received", "LLR_RX_INIT_ECHO_CTL_OS"),
     ("LLR_ACK       CtrlOS Received", "LLR_RX_ACK_CTL_OS"),
     ("LLR_NACK      CtrlOS Received", "LLR_RX_NACK_CTL_OS"),
     ("LLR_ACK/NACK  CtrlOS Received with SeqNum error", "LLR_RX_ACK_NACK_SEQ_ERROR")),
    (("LLR Frames Received OK", "LLR_RX_OK"), ("LLR Frames Received as Poisoned", "LLR_RX_POISONED"),
     ("LLR Frames Received as Bad", "LLR_RX_BAD"), ("LLR Rx Replay Detect Count", "LLR_RX_REPLAY")),
    (("LLR Frames Received OK with expected seq num", "LLR_RX_EXPECTED_SEQ_GOOD"),
     ("LLR Frames Received Poisoned with expected seq num", "LLR_RX_EXPECTED_SEQ_POISONED"),
     ("LLR Frames Received Bad with expected seq num", "LLR_RX_EXPECTED_SEQ_BAD")),
    (("LLR Frames Received with Unexpected seq num", "LLR_RX_MISSING_SEQ"),
     ("LLR Frames Received with Duplicate seq num", "LLR_RX_DUPLICATE_SEQ")),
)  # fmt: skip
"""The lines of the detailed view, in their blocks."""
_WIDTH = 60
_HEADS = ("PORT", "LLR Mode", "LLR Local", "LLR Remote", "LLR Profile")


class LlrViews:
    """The views of LLR of one running network; what is cleared is remembered by the other views."""

    def __init__(self, views: SonicViews, fabric: Fabric) -> None:
        self._views, self._fabric = views, fabric

    def interfaces(self, wanted: str = "") -> str:
        """Return `show llr interface`."""
        rows = []
        for node, port in self._ports(wanted):
            tables = self._tables(node)
            label = self._views.label(port)
            if tables is not None and label in tables.llr_ports:
                row = tables.llr_ports[label]
                name = llr.profile_name(tables, label) if row.local or row.remote else row.profile or "N/A"
                states = [("disabled", "enabled")[is_on] for is_on in (row.local, row.remote)]
                rows.append((label, str(llr.mode_of(tables, label)), *states, name))
            elif port.lab_cable.llr:
                rows.append((label, "static", "enabled", "enabled", self._profile(node, port)[0]))
        if not rows:
            return _no_port(wanted)
        title = "LLR Interface Configuration"
        return f"\n{title}\n{'-' * (len(title) + 1)}\n\n{table(_HEADS, rows, left=True)}\n"

    def profiles(self, wanted: str = "") -> str:
        """Return `show llr profile`: the profiles that ports have."""
        found = dict(sorted({name: row for node, port in self._ports() if port.lab_cable.llr
                             for name, row in [self._profile(node, port)]}.items()))  # fmt: skip
        chosen = {name: row for name, row in found.items() if wanted in ("", name)}
        if not chosen:
            return f"LLR profile {wanted} not found.\n" if wanted else "No LLR profiles found.\n"
        return "".join(
            grid((f"LLR Profile: {name}", ""), [(words, str(getattr(row, field))) for field, words in _PROFILE]) + "\n"
            for name, row in chosen.items()
        )

    def counters(self, wanted: str = "") -> str:
        """Return `show llr counters`."""
        seen = self._seen(wanted)
        if not seen:
            return _no_port(wanted, "No LLR ports configured.\n")
        parts = []
        for head, columns in (("Port Rx", _RX), ("Port Tx", _TX)):
            rows = [
                (label, "Enable" if one.state != "OFF" else "Disable", *(counts[name] for _, name in columns))
                for label, one, counts in seen
            ]
            parts.append(_tabulated((head, "STATUS", *(name for name, _ in columns)), rows) + "\n")
        return "".join(parts)

    def detailed(self, wanted: str = "") -> str:
        """Return `show llr counters detailed`."""
        seen = self._seen(wanted)
        if not seen:
            return _no_port(wanted, "No LLR ports configured.\n")
        parts = []
        for label, _, counts in seen:
            parts.append(f"LLR Counters - {label}\n{'-' * (16 + len(label))}\n")
            for block in _DETAILED:
                lines = (f"{words} {'.' * max(1, _WIDTH - len(words))} {counts[name]}\n" for words, name in block)
                parts.append("".join(lines) + "\n")
        return "".join(parts)

    def clear(self, wanted: str = "") -> str:
        """Begin the counters anew, and return what the switch says."""
        if not self._seen(wanted):
            raise UsageError(_no_port(wanted, "No LLR ports configured.").strip())
        for _, port in self._ports(wanted):
            report = self._fabric.core.cabling.reports().get(port.name)
            if report is not None:
                for name, count in report.counters.items():
                    self._views.cleared.counts["llr", port.name, name] = count
        return f"LLR counters cleared for {wanted}.\n" if wanted else "LLR counters cleared.\n"

    # What is there

    def _seen(self, wanted: str) -> list[tuple[str, LlrReport, dict[str, int]]]:
        """Return each port whose cable has LLR: its name, its report and its counters since they were cleared."""
        reports, found = self._fabric.core.cabling.reports(), []
        for _, port in self._ports(wanted):
            report = reports.get(port.name)
            if report is not None and port.lab_cable.llr:
                since = self._views.cleared.since
                counts = {name: since(("llr", port.name, name), count) for name, count in report.counters.items()}
                found.append((self._views.label(port), report, counts))
        return found

    def _ports(self, wanted: str = "") -> list[tuple[str, PortState]]:
        return [(node, port) for node, ports in self._views.ports(wanted) for port in ports]

    def _tables(self, node: str) -> Tables | None:
        found = self._fabric.core.ports.by_node()[node][0].node.params.get("configuration")
        return found.tables if isinstance(found, Configuration) else None

    def _profile(self, node: str, port: PortState) -> tuple[str, LlrProfileRow]:
        """Return the name and the values of a port's profile, in the hardware's times."""
        tables, label = self._tables(node), self._views.label(port)
        if tables is not None and label in tables.llr_ports:
            return llr.profile_name(tables, label), llr.profile_of(tables, label)
        cable = port.lab_cable.in_hardware(port.scale)
        used = cable.retry
        assert used is not None
        return llr.usual_name(cable.rate.bps // 10**6, str(cable.delay.length())), llr.row_of(used)


def show(views: SonicViews, words: Sequence[str]) -> str | None:
    """Return the text of `show llr` with these words, or None if it is none of its forms."""
    seen = LlrViews(views, Fabric.current())
    match list(words):
        case ["interface"]:
            return seen.interfaces()
        case ["interface", port]:
            return seen.interfaces(port)
        case ["profile"]:
            return seen.profiles()
        case ["profile", name]:
            return seen.profiles(name)
        case ["counters"]:
            return seen.counters()
        case ["counters", "detailed"]:
            return seen.detailed()
        case ["counters", "detailed", port]:
            return seen.detailed(port)
        case ["counters", "-i" | "--interface", port] | ["counters", port] if not port.startswith("-"):
            return seen.counters(port)
    return None


def _no_port(wanted: str, none: str = "No LLR interface configuration found.\n") -> str:
    return f"Interface {wanted} not found in LLR configuration.\n" if wanted else none


def _tabulated(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return columns with words at the left and numbers at the right."""
    widths = [max(len(head) + 2, *(len(str(row[place])) for row in rows)) for place, head in enumerate(heads)]
    align = [str.rjust if isinstance(one, int) else str.ljust for one in rows[0]]
    lines = [heads, ["-" * width for width in widths], *rows]
    return "".join(
        "  ".join(put(str(cell), width) for put, cell, width in zip(align, line, widths, strict=True)).rstrip() + "\n"
        for line in lines
    )
