"""DCBX with independent peers: lldpad, lldpd, and Wireshark's decoder on what was captured on the way."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from jobs.dcb_driver import Daemon, Driver
from jobs.dcbx_ends import HIGH, LOW, OURS, PEER, THEIRS, Agent, agent, at_peer, cable, settle, some_settings, until

from testbed.frames import Mac
from testbed.frames.dcbx.values import AppEntry, DcbxVersion, Ets, EtsRecommendation, Selector, mask
from testbed.lab import Result, Run, experiment
from testbed.subjects.dcbx import tlvs as dcbx
from testbed.subjects.dcbx.config import dump, parse
from testbed.subjects.dcbx.negotiation import negotiate
from testbed.subjects.dcbx.settings import ApplicationAdmin, CnAdmin, DcbxSettings, EtsAdmin, PfcAdmin, Recommend
from testbed.subjects.dcbx.show import frame_record
from testbed.subjects.dcbx.tlvs import ApplicationPriority, CongestionNotification, DcbxTlvs, EtsConfiguration, Pfc

if TYPE_CHECKING:
    from tests.lab.conftest import Runner

MARKS = {"*": [("packages", "tshark")]}

CASES = {
    "test_lldpd_keeps_every_octet_that_we_send": [{"version": "published"}, {"version": "draft"}],
    "test_a_willing_agent_adopts_the_octets_that_lldpd_is_configured_to_send": [
        {"version": "published"},
        {"version": "draft"},
    ],
}

FILES = ("jobs/dcb_driver.py", "jobs/dcbx_ends.py")
NONE = DcbxSettings()
FULL = DcbxSettings(
    traffic_classes=3,
    ets=EtsAdmin(
        Ets((0, 0, 0, 1, 0, 0, 0, 2), (60, 40, 0, 0, 0, 0, 0, 0), (2, 2, 0, 0, 0, 0, 0, 0)),
        recommend=Recommend(
            EtsRecommendation((50, 50, 0, 0, 0, 0, 0, 0), (0, 0, 0, 1, 1, 0, 0, 2), (2, 2, 0, 0, 0, 0, 0, 0))
        ),
    ),
    pfc=PfcAdmin(mask([3]), cap=3),
    applications=ApplicationAdmin(
        (
            AppEntry(3, Selector.ETHERTYPE, 0x8906),
            AppEntry(4, Selector.TCP, 3260),
            AppEntry(6, Selector.UDP, 4791),
            AppEntry(5, Selector.DSCP, 46),
        )
    ),
    cn=CnAdmin(mask([5])),
)
"""The settings of a switch that is not willing."""


@contextmanager
def capture(run: Run, name: str = "a0") -> Iterator[None]:
    """Capture the frames of our end into the result folder."""
    from testbed.net.shell.wire import capture as capturing

    with capturing(SimpleNamespace(pid=os.getpid()), OURS, run.directory / f"{name}.pcap", "ether proto 0x88cc"):
        yield


# lldpad


@contextmanager
def lldpad(folder: Path, driver: Driver | None = None) -> Iterator[None]:
    """Run lldpad at the far end; with a driver it also sends DCBX and does not only receive it."""
    words = ["ip", "netns", "exec", PEER, "lldpad", "-t", "-p", "-f", str(folder / "lldpad.conf")]
    log = folder / "lldpad.txt"
    daemon = Daemon(words, driver, log) if driver else None
    with log.open("ab") as output:
        process = daemon.process if daemon else subprocess.Popen(words, stdout=output, stderr=output)
    try:
        if not until(lambda: _lldptool("ping").strip().isdigit(), 20):
            raise RuntimeError(f"lldpad did not start: {log.read_text()}")
        _lldptool("-L", "-i", THEIRS, "adminStatus=rxtx")
        yield
        if process.poll() is not None:
            raise RuntimeError(f"lldpad ended by itself: {log.read_text()[-2000:]}")
    finally:
        process.terminate()
        process.wait(10)


def _lldptool(*words: str) -> str:
    done = subprocess.run(
        ["ip", "netns", "exec", PEER, "lldptool", *words], capture_output=True, text=True, check=False
    )
    return done.stdout if done.returncode == 0 else ""


_LLDPTOOL_SELECTORS = {1: Selector.ETHERTYPE, 2: Selector.TCP, 3: Selector.UDP, 4: Selector.ANY_PORT}
_LLDPTOOL_TSA = {"strict": 0, "cbshaper": 1, "ets": 2, "vendor": 255}


def read_lldptool(text: str) -> DcbxTlvs:
    """Read the output of `lldptool -n -t`, which shows Congestion Notification only as octets."""
    sections: dict[str, str] = {}
    text = text.replace("APP TLV\n\tUnid", "APP TLV\nUnid")  # it does not end the line of an empty table
    for title, body in re.findall(r"^(\S.*)\n((?:\t.*\n)*)", text, re.MULTILINE):
        sections[title] = body

    def found(body: str, label: str) -> str:
        return str(re.findall(rf"{label}: *(.*)", body)[0]).strip()

    def numbers(body: str, label: str) -> tuple[int, ...]:
        return tuple(int(word.strip("%").partition(":")[2] or word.strip("%")) for word in found(body, label).split())

    def tsa(body: str) -> tuple[int, ...]:
        return tuple(_LLDPTOOL_TSA[word.partition(":")[2]] for word in found(body, "TSA_MAP").split())

    classes, ets, advice, pfc, applications, cn = (None,) * 6
    if body := sections.get("IEEE 8021QAZ ETS Configuration TLV"):
        classes = int(found(body, "MAX_TCS"))
        table = Ets(numbers(body, "PRIO_MAP"), numbers(body, "TC Bandwidth"), tsa(body))
        ets = EtsConfiguration(table, found(body, "Willing") == "yes", found(body, "CBS") == "supported")
    if body := sections.get("IEEE 8021QAZ ETS Recommendation TLV"):
        advice = EtsRecommendation(numbers(body, "TC Bandwidth"), numbers(body, "PRIO_MAP"), tsa(body))
    if body := sections.get("IEEE 8021QAZ PFC TLV"):
        enabled = found(body, "PFC enabled")
        priorities = [] if enabled == "none" else map(int, enabled.split())
        cap = int(found(body, "PFC capable traffic classes"))
        pfc = Pfc(mask(priorities), found(body, "Willing") == "yes", cap, found(body, "MACsec Bypass Capable") == "yes")
    if (body := sections.get("IEEE 8021QAZ APP TLV")) is not None:
        entries = [
            AppEntry(int(priority), _LLDPTOOL_SELECTORS[int(selector)], int(protocol, 0))
            for priority, selector, protocol in re.findall(r"Prio (\d) \t Sel (\d) \t P-ID\t .*: (\w+)", body)
        ]
        for priority, listed in re.findall(r"Prio:(\d) \t dscp: (.*)", body):
            entries += [AppEntry(int(priority), Selector.DSCP, int(one)) for one in re.findall(r"\d+", listed)]
        applications = ApplicationPriority(_ordered(entries))
    if body := sections.get("Unidentified Org Specific TLV"):
        octets = re.findall(r"OUI: 0x0080c2, Subtype: 8, Info: (\w{4})\b", body)
        cn_enabled, ready = bytes.fromhex(octets[0])
        cn = CongestionNotification(cn_enabled, cn_enabled & ~ready)
    return DcbxTlvs(classes, ets, advice, pfc, applications, cn)


def _ordered(entries: Any) -> tuple[AppEntry, ...]:
    """Return entries in the order in which lldptool prints them: DSCPs last, whatever their place."""
    return tuple(sorted(entries, key=lambda entry: (entry.selector.value, entry.protocol, entry.priority)))


def expected(settings: DcbxSettings) -> DcbxTlvs:
    """Return the reason at a port whose peer sends no DCBX."""
    sent = negotiate(settings, Mac.parse(LOW), None).sent
    entries = _ordered(sent.applications.entries) if sent.applications else ()
    applications = ApplicationPriority(entries) if sent.applications else None
    pfc = sent.pfc and replace(sent.pfc, headroom=False)  # our private octet is not the business of others
    return DcbxTlvs(sent.traffic_classes, sent.ets, sent.recommendation, pfc, applications, sent.cn)


@experiment(_in_lab_time=True, timeout="300s", files=FILES)
def read_by_lldpad(run: Run, count: int = 12) -> None:
    """lldpad receives our frames; `lldptool` prints their values. One agent, with many settings one after another."""
    chosen = [FULL, replace(FULL, pfc=PfcAdmin(mask([3]), headroom=True))]
    chosen += [some_settings(run.rng) for _ in range(count)]
    with cable(), capture(run), lldpad(run.directory), agent(run.directory, chosen[0]) as ours:
        for number, settings in enumerate(chosen):
            ours.write(settings)
            read: DcbxTlvs | DcbxSettings = NONE
            wanted = expected(settings)

            def reads(wanted: DcbxTlvs = wanted) -> bool:
                nonlocal read
                settle(0.2)
                read = read_lldptool(_lldptool("-n", "-t", "-i", THEIRS))
                return read == wanted

            until(reads, 4)
            run.claim(f"settings {number}, as lldptool prints them", repr(read), equals=repr(wanted))
        printed = _lldptool("-n", "-t", "-i", THEIRS)
        run.claim("TTL, as lldptool prints it", re.findall(r"Time to Live TLV\n\t(\d+)", printed), equals=["121"])
        run.claim("port ID, as lldptool prints it", re.findall(r"Ifname: (\w+)", printed), equals=[OURS])
        run.claim("neighbours that we hear", len(ours.state()["neighbours"]), equals=1)
        ours.end()
        gone = until(lambda: "Chassis ID" not in _lldptool("-n", "-t", "-i", THEIRS), 3)
        run.claim("it removes us when we end", gone, equals=True)
    (run.directory / "settings.json").write_text(json.dumps([dump(settings) for settings in chosen]))


def _tool(name: str, *settings: str) -> None:
    """Set one of lldpad's TLVs."""
    said = _lldptool("-T", "-i", THEIRS, "-V", name, *settings)
    if not said or "not capable" in said:
        raise RuntimeError(f"lldptool -T {name} {' '.join(settings)}: {said!r}")


LLDPAD_SAYS = DcbxTlvs(
    8,
    EtsConfiguration(Ets((0, 1, 2, 0, 0, 0, 0, 0), (30, 70, 0, 0, 0, 0, 0, 0), (2, 2, 0, 0, 0, 0, 0, 0))),
    EtsRecommendation((20, 80, 0, 0, 0, 0, 0, 0), (0, 1, 2, 0, 1, 0, 0, 0), (2, 2, 0, 0, 0, 0, 0, 0)),
    Pfc(mask([4, 5]), cap=8),
    ApplicationPriority((AppEntry(3, Selector.ETHERTYPE, 0x8906), AppEntry(5, Selector.TCP, 3260))),
)
"""The settings that lldpad is to send; its applications come with the last one first."""


def configure_lldpad(pfc_willing: bool, ets_willing: bool) -> None:
    """Have lldpad send LLDPAD_SAYS."""
    _tool("PFC", "enabled=4,5", f"willing={'yes' if pfc_willing else 'no'}")
    tables = ("tsa=0:ets,1:ets,2:strict,3:strict,4:strict,5:strict,6:strict,7:strict",)
    up = ("up2tc=0:0,1:1,2:2,3:0,4:0,5:0,6:0,7:0", "tcbw=30,70,0,0,0,0,0,0")
    _tool("ETS-CFG", *tables, *up, f"willing={'yes' if ets_willing else 'no'}")
    _tool("ETS-REC", *tables, "up2tc=0:0,1:1,2:2,3:0,4:1,5:0,6:0,7:0", "tcbw=20,80,0,0,0,0,0,0")
    _tool("APP", "app=5,2,3260")
    _tool("APP", "app=3,1,35078")
    for name in ("PFC", "ETS-CFG", "ETS-REC", "APP"):
        _tool(name, "enableTx=yes")


def heard_from(ours: Agent) -> dict[str, Any]:
    """Return the TLVs of the last frame that we received, as plain data."""
    received = [record for record in ours.records("frame") if record["direction"] == "received"]
    return dict(received[-1]["tlvs"]) if received else {}


def as_plain(tlvs: DcbxTlvs) -> dict[str, Any]:
    """Return TLVs as plain data, by way of our own log."""
    from testbed.frames.lldp import ChassisId, Lldpdu, LldpFrame, PortId

    mac = Mac.parse(HIGH)
    pdu = Lldpdu(ChassisId.of_mac(mac), PortId.of_mac(mac), 1, tuple(dcbx.encode(DcbxVersion.PUBLISHED, tlvs)))
    plain: dict[str, Any] = frame_record(LldpFrame(mac, pdu).encode(), DcbxVersion.PUBLISHED, "received", 0)["tlvs"]
    return plain


@experiment(_in_lab_time=True, timeout="120s", files=FILES)
def test_a_willing_agent_adopts_the_settings_of_lldpad(run: Run) -> None:
    """lldpad sends and is not willing; we are, and have no settings of our own."""
    driver = Driver()
    with cable(), capture(run), lldpad(run.directory, driver), agent(run.directory, None) as ours:
        configure_lldpad(pfc_willing=False, ets_willing=False)
        until(lambda: heard_from(ours) == as_plain(LLDPAD_SAYS), 5)
        run.claim("what it sends, as we read it", heard_from(ours), equals=as_plain(LLDPAD_SAYS))
        run.claim("flaws in its frames", [r.get("flaws") for r in ours.records("frame") if r.get("flaws")], equals=[])
        state = ours.state()
        recommended = as_plain(LLDPAD_SAYS)["recommendation"]
        plain = {key: recommended[key] for key in ("assignment", "bandwidth", "tsa")}
        run.claim("ETS that we operate with", state["features"]["ets"]["oper"], equals=plain)
        run.claim("PFC that we operate with", state["features"]["pfc"]["oper"], equals=[4, 5])
        table = as_plain(LLDPAD_SAYS)["applications"]["entries"]
        run.claim("applications that we operate with", state["features"]["applications"]["oper"], equals=table)
        run.claim("PFC that its card has", driver.pfc_enabled, equals=mask([4, 5]))
        _tool("PFC", "enabled=6")
        until(lambda: ours.feature("pfc", "oper") == [6], 3)
        run.claim("PFC after its administrator changed it", ours.feature("pfc", "oper"), equals=[6])


@experiment(_in_lab_time=True, timeout="120s", files=FILES)
def test_a_willing_lldpad_programs_its_nic_with_the_settings_of_the_agent(run: Run) -> None:
    """We are not willing; lldpad is, and gives its card what we say."""
    driver = Driver()
    with cable(), capture(run), lldpad(run.directory, driver), agent(run.directory, FULL) as ours:
        configure_lldpad(pfc_willing=True, ets_willing=True)
        until(lambda: driver.pfc_enabled == mask([3]) and ours.feature("pfc", "remote") == [3], 5)
        assert FULL.ets is not None and isinstance(FULL.ets.recommend, Recommend)
        table = FULL.ets.recommend.table
        run.claim("PFC that its card has", driver.pfc_enabled, equals=mask([3]))
        run.claim("PFC that it sends then", ours.feature("pfc", "remote"), equals=[3])
        recommended = {"bandwidth": list(table.bandwidth), "tsa": list(table.tsa or ())}
        recommended["assignment"] = list(table.assignment or ())
        run.claim("ETS that its card has", driver.ets_tables, equals=recommended)
        run.claim("ETS that it sends then", ours.feature("ets", "remote"), equals=recommended)
        own = {(2, 5, 3260), (1, 3, 0x8906)}
        given = sorted(list(entry) for entry in driver.applications - own)
        run.claim(
            "applications that its card has beside its own", given, equals=[[2, 4, 3260], [3, 6, 4791], [5, 5, 46]]
        )
        run.claim("nothing is pending", ours.feature("pfc", "pending"), equals=False)
        ours.write(dump(FULL).replace("enabled = [3]", "enabled = [2, 3]"))
        until(lambda: ours.feature("pfc", "remote") == [2, 3], 3)
        run.claim("PFC of its card after ours was changed", driver.pfc_enabled, equals=mask([2, 3]))
        ours.end()
        until(lambda: driver.pfc_enabled == mask([4, 5]), 3)
        run.claim("PFC of its card after we ended: its own", driver.pfc_enabled, equals=mask([4, 5]))


@experiment(_in_lab_time=True, timeout="120s", files=FILES)
def test_two_willing_ends_agree_on_whose_setting_wins_as_lldpad_sees_it(run: Run) -> None:
    """Two willing ends: with the default tie-break ours and lldpad's agree who wins, whoever has the higher address."""
    for ours_mac, theirs_mac, wanted in ((LOW, HIGH, [4, 5]), (HIGH, LOW, [3])):
        folder = run.directory / f"ours-{ours_mac[-2:]}"
        folder.mkdir()
        driver = Driver()
        settings = DcbxSettings(pfc=PfcAdmin(mask([3]), willing=True))
        with cable(ours_mac, theirs_mac), lldpad(folder, driver), agent(folder, settings) as ours:
            configure_lldpad(pfc_willing=True, ets_willing=True)
            until(lambda: ours.feature("pfc", "remote_willing"), 5)
            settle(5)
            name = f"ours is {ours_mac}, lldpad's {theirs_mac}"
            run.claim(f"{name}: PFC of its card", driver.pfc_enabled, equals=mask(wanted))
            run.claim(f"{name}: our PFC", ours.feature("pfc", "oper"), equals=wanted)
            run.claim(f"{name}: PFC that it sends", ours.feature("pfc", "remote"), equals=wanted)


# lldpd


@contextmanager
def lldpd(folder: Path) -> Iterator[None]:
    """Run lldpd at the far end."""
    log = folder / "lldpd.txt"
    words = ["ip", "netns", "exec", PEER, "lldpd", "-d", "-I", THEIRS, "-u", str(folder / "lldpd.socket")]
    Path("/run/lldpd").mkdir(exist_ok=True)
    with log.open("ab") as output:
        process = subprocess.Popen(words, stdout=output, stderr=output)
    try:
        if not until((folder / "lldpd.socket").exists, 20):
            raise RuntimeError(f"lldpd did not start: {log.read_text()}")
        yield
        if process.poll() is not None:
            raise RuntimeError(f"lldpd ended by itself: {log.read_text()[-2000:]}")
    finally:
        process.terminate()
        process.wait(10)


def _lldpcli(folder: Path, *words: str) -> str:
    return at_peer("lldpcli", "-u", str(folder / "lldpd.socket"), *words)


def _send_custom(folder: Path, tlvs: DcbxTlvs, version: DcbxVersion) -> None:
    """Have lldpd send exactly these TLVs, now."""
    _lldpcli(folder, "unconfigure", "lldp", "custom-tlv")
    for tlv in dcbx.encode(version, tlvs):
        info = ",".join(f"{octet:02x}" for octet in tlv.info)
        what = ("oui", "00,80,c2", "subtype", str(tlv.subtype), "oui-info", info)
        _lldpcli(folder, "configure", "lldp", "custom-tlv", *what)
    _lldpcli(folder, "update")


def seen_by_lldpd(folder: Path) -> dict[str, Any]:
    """Return lldpd's view of its only neighbour: its identity, and the TLVs that lldpd does not know, as octets."""
    shown = json.loads(_lldpcli(folder, "-f", "json0", "show", "neighbors", "details"))
    interfaces = shown["lldp"][0].get("interface", [])
    if len(interfaces) != 1:
        return {"neighbours": len(interfaces)}
    (interface,) = interfaces
    (chassis,), (port,) = interface["chassis"], interface["port"]
    unknown = [
        (tlv["oui"], int(tlv["subtype"]), tlv.get("value", "").replace(",", "").lower())
        for group in interface.get("unknown-tlvs", [])
        for tlv in group["unknown-tlv"]
    ]
    return {
        "chassis": chassis["id"][0]["value"],
        "port": port["id"][0]["value"],
        "ttl": port["ttl"][0]["value"],
        "tlvs": sorted(unknown),
    }


def _as_lldpd_shows(settings: DcbxSettings) -> dict[str, Any]:
    sent = negotiate(settings, Mac.parse(LOW), None).sent
    tlvs = [("00,80,C2", tlv.subtype, tlv.info.hex()) for tlv in dcbx.encode(settings.version, sent)]
    return {"chassis": LOW, "port": OURS, "ttl": "121", "tlvs": sorted(tlvs)}


@experiment(_in_lab_time=True, timeout="120s", files=FILES)
def lldpd_sees_us(run: Run, version: str = "published") -> None:
    """lldpd shows its neighbours, and every TLV that it does not decode by its octets."""
    chosen = [some_settings(run.rng, DcbxVersion(version)) for _ in range(6)]
    folder = run.directory
    with cable(), capture(run), lldpd(folder), agent(folder, chosen[0]) as ours:
        for number, settings in enumerate(chosen):
            ours.write(settings)
            seen: dict[str, Any] = {}
            wanted = _as_lldpd_shows(settings)

            def shows(wanted: dict[str, Any] = wanted) -> bool:
                nonlocal seen
                settle(0.2)
                seen = seen_by_lldpd(folder)
                return seen == wanted

            until(shows, 4)
            run.claim(f"settings {number}, as lldpd shows them", seen, equals=wanted)
        ours.end()
        gone = until(lambda: seen_by_lldpd(folder) == {"neighbours": 0}, 3)
        run.claim("it removes us when we end", gone, equals=True)
    (folder / "settings.json").write_text(json.dumps([dump(settings) for settings in chosen]))


@experiment(_in_lab_time=True, timeout="120s", files=FILES)
def test_a_willing_agent_adopts_the_octets_that_lldpd_is_configured_to_send(
    run: Run, version: str = "published"
) -> None:
    """lldpd sends DCBX TLVs as octets, and never changes them whatever we send: a peer that is not willing."""
    form = DcbxVersion(version)
    is_draft = form is DcbxVersion.DRAFT
    table = Ets((0, 0, 0, 1, 1, 0, 0, 0), (10, 90, 0, 0, 0, 0, 0, 0), None if is_draft else (2,) * 8)
    said = DcbxTlvs(
        8 if is_draft else 2,
        EtsConfiguration(table),
        EtsRecommendation(table.bandwidth, None if is_draft else table.assignment, table.tsa),
        Pfc(mask([1, 2]), cap=2, defended=mask([]) if is_draft else None),
        ApplicationPriority((AppEntry(6, Selector.UDP, 4791),)),
        CongestionNotification(mask([2]), 0),
    )
    own = Ets((0,) * 8, (100, 0, 0, 0, 0, 0, 0, 0), None if is_draft else (2,) * 8)
    settings = DcbxSettings(
        form,
        ets=EtsAdmin(own, willing=True),
        pfc=PfcAdmin(mask([7]), willing=True),
        applications=ApplicationAdmin(willing=True),
        cn=CnAdmin(mask([2])),
    )
    folder = run.directory
    with cable(), capture(run), lldpd(folder), agent(folder, settings) as ours:
        settle(2)
        run.claim("PFC before its first frame", ours.feature("pfc", "oper"), equals=[7])
        run.claim("pending before", ours.feature("pfc", "pending"), equals=True)
        _send_custom(folder, said, form)
        until(lambda: ours.feature("pfc", "oper") == [1, 2], 5)
        features = ours.state()["features"]
        run.claim("PFC: adopted", features["pfc"]["oper"], equals=[1, 2])
        run.claim("PFC: pending", features["pfc"]["pending"], equals=False)
        run.claim("ETS bandwidth: as recommended", features["ets"]["oper"]["bandwidth"], equals=[10, 90] + [0] * 6)
        kept = list(own.assignment if is_draft else table.assignment)
        run.claim("ETS assignment: the draft recommends none", features["ets"]["oper"]["assignment"], equals=kept)
        entry = [{"priority": 6, "selector": Selector.UDP.value, "protocol": 4791}]
        run.claim("applications: adopted", features["applications"]["oper"], equals=entry)
        run.claim("CN: no defense where the peer has it", features["cn"]["defended"], equals=[])
        _send_custom(folder, DcbxTlvs(None, None, None, Pfc(mask([5]), cap=8, defended=said.pfc.defended)), form)  # type: ignore[union-attr]
        until(lambda: ours.feature("pfc", "oper") == [5], 3)
        features = ours.state()["features"]
        run.claim("PFC: adopted anew", features["pfc"]["oper"], equals=[5])
        run.claim("ETS: back to local when its TLV is gone", features["ets"]["oper"]["bandwidth"][0], equals=100)
        run.claim("CN: defended again", features["cn"]["defended"], equals=[2])
        run.claim("neighbours", len(ours.state()["neighbours"]), equals=1)


@experiment(_in_lab_time=True, timeout="120s", files=FILES)
def test_a_peer_of_the_other_format_is_named_and_neither_end_is_upset(run: Run) -> None:
    """The DCBX TLVs of a peer of the other format are ignored, with a message; lldpad survives the draft."""
    folder = run.directory
    draft = some_settings(run.rng, DcbxVersion.DRAFT)
    with cable(), capture(run), lldpad(folder, Driver()), agent(folder, draft) as ours:
        configure_lldpad(pfc_willing=True, ets_willing=True)
        until(lambda: ours.state()["peer_speaks"] == "published", 5)
        run.claim("what the peer speaks", ours.state()["peer_speaks"], equals="published")
        run.claim("what we know of its PFC", ours.feature("pfc", "remote") is None, equals=True)
        printed = _lldptool("-n", "-t", "-i", THEIRS)
        run.claim("lldpad lists us", re.findall(r"Ifname: (\w+)", printed), equals=[OURS])
        (folder / "lldptool.txt").write_text(printed)
        said = [line for line in ours.text(ours.output).splitlines() if "speaks" in line]
        wanted = ["xoff: a0: the peer speaks the published format; its DCBX TLVs are ignored"]
        run.claim("what the agent reports about it", said, equals=wanted)


@experiment(_in_lab_time=True, timeout="120s", files=FILES)
def test_a_link_agrees_within_three_seconds_of_its_carrier(run: Run) -> None:
    """Measure the time from a carrier that is back to a link that has agreed; both ends are ours, with the standard's
    timers.
    """
    worst = 0
    with (
        cable(),
        agent(run.directory, FULL) as ours,
        agent(run.directory, None, THEIRS, is_far=True) as theirs,
    ):
        for _ in range(5):
            settle(run.rng.uniform(5, 40))
            at_peer("ip", "link", "set", "dev", THEIRS, "down")
            settle(run.rng.uniform(0.5, 5))
            count = len(theirs.records("pfc_changed"))
            begun_ns = time.monotonic_ns()
            at_peer("ip", "link", "set", "dev", THEIRS, "up")
            until(lambda: any(r["enabled"] == [3] for r in theirs.records("pfc_changed")[count:]), 5)  # noqa: B023
            agreed = [r["t_ns"] for r in theirs.records("pfc_changed")[count:] if r["enabled"] == [3]]
            until(lambda: any(r["remote"] == [3] for r in ours.records("pfc_changed") if r["t_ns"] > begun_ns), 5)  # noqa: B023
            told = [r["t_ns"] for r in ours.records("pfc_changed") if r["t_ns"] > begun_ns and r["remote"] == [3]]
            worst = max(worst, max(min(agreed), min(told)) - begun_ns)
    run.figure("worst time from carrier to agreement", worst, "ns")
    run.claim("worst time from carrier to agreement, ns", worst, at_most=3 * 10**9)


def test_lldpad_reads_every_published_tlv_as_we_meant_it_and_so_does_wireshark(run: Runner, tmp_path: Path) -> None:
    result = run(read_by_lldpad).check()
    assert_wireshark_agrees(result, tmp_path)


def test_lldpd_keeps_every_octet_that_we_send(run: Runner, case: Mapping[str, Any], tmp_path: Path) -> None:
    result = run(lldpd_sees_us, **case).check()
    if case["version"] == "published":
        assert_wireshark_agrees(result, tmp_path)
    else:
        assert_wireshark_stops_at_the_drafts_first_tlv(result, tmp_path)


# Wireshark


def ours_in(result: Result) -> list[bytes]:
    """Return the frames that our end sent, but the last one, which is the shutdown frame."""
    assert result.folder is not None
    from scapy.utils import RawPcapReader

    with RawPcapReader(str(result.folder / "a0.pcap")) as capture:
        frames = [octets for octets, _ in capture if octets[6:12] == Mac.parse(LOW).octets]
    return frames[:-1]


def said_by(result: Result) -> list[DcbxTlvs]:
    assert result.folder is not None
    texts = json.loads((result.folder / "settings.json").read_text())
    return [negotiate(parse(text, "settings").settings, Mac.parse(LOW), None).sent for text in texts]


def _decoder() -> ModuleType:
    import pytest

    from tests.unit.subjects.dcbx import test_tlvs_tshark

    if shutil.which("tshark") is None:
        pytest.skip("tshark is missing; it is the independent decoder of the captures")
    return test_tlvs_tshark


def assert_wireshark_agrees(result: Result, folder: Path) -> None:
    """Check that Wireshark reads the settings in the order in which they were set, each once or more often, without a
    complaint.
    """
    wireshark = _decoder()
    read: list[Any] = []
    for fields in wireshark.decode(folder, ours_in(result)):
        assert "_ws.malformed" not in fields
        assert "_ws.expert" not in fields
        understood = wireshark.understood(fields)
        if read[-1:] != [understood]:
            read.append(understood)
    assert read == [wireshark.without_headroom(said) for said in said_by(result)]


def assert_wireshark_stops_at_the_drafts_first_tlv(result: Result, folder: Path) -> None:
    """Check that Wireshark takes subtype 8 for the published Congestion Notification, finds it too short, and reads no
    further.

    So it is to be: the draft's numbers were given away later. All of LLDP itself is before that.
    """
    for fields in _decoder().decode(folder, ours_in(result)):
        assert fields["lldp.time_to_live"] == ["121"]
        assert fields["lldp.port.id"] == ["a0"]
        assert fields["lldp.ieee.802_1.subtype"] == ["0x08"]
        assert "_ws.malformed" in fields
