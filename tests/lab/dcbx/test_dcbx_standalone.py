"""`xoff dcbx agent` and `xoff dcbx show` on interfaces of a real kernel."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobs.dcbx_ends import HIGH, LOW, OURS, PEER, THEIRS, Agent, Process, agent, at_peer, cable, command, settle, until

from testbed.frames.dcbx.values import mask
from testbed.lab import Run, experiment
from testbed.subjects.dcbx.config import dump
from testbed.subjects.dcbx.settings import DcbxSettings, PfcAdmin

if TYPE_CHECKING:
    pass


FILES = ("jobs/dcbx_ends.py",)
THREE = DcbxSettings(pfc=PfcAdmin(mask([3])))
WILLING = DcbxSettings(pfc=PfcAdmin(mask([7]), willing=True))


def xoff(folder: Path, *words: str, user: int = 0) -> tuple[int | None, str]:
    """Run a command line, and return its exit code and output."""
    output = folder / "said.txt"
    output.unlink(missing_ok=True)
    code = Process(words, output, user=user).wait()
    return code, output.read_text().strip()


def follows(end: Agent, priorities: list[int]) -> bool:
    """Return True if an agent has PFC on these priorities within three seconds."""

    def last() -> Any:
        changes = end.records("pfc_changed")
        return changes[-1]["enabled"] if changes else None

    return until(lambda: last() == priorities, 3)


@experiment(timeout="120s", files=FILES)
def test_the_interface_may_go_down_change_its_address_and_come_back(run: Run) -> None:
    """An agent's interface goes down and up, changes its address, is removed and comes back; the peer's state is always
    right.
    """
    folder = run.directory
    with cable(), agent(folder, THREE, THEIRS, is_far=True), agent(folder, WILLING) as ours:
        run.claim("agreed", follows(ours, [3]), equals=True)
        at_peer("ip", "link", "set", "dev", THEIRS, "down")
        run.claim("no carrier: back to local", follows(ours, [7]), equals=True)
        lost = [record["why"] for record in ours.records("neighbour_lost")]
        run.claim("why the neighbour is gone", lost, equals=["the link went down"])
        at_peer("ip", "link", "set", "dev", THEIRS, "up")
        run.claim("carrier again", follows(ours, [3]), equals=True)
        command("ip", "link", "set", "dev", OURS, "down")
        run.claim("set down", follows(ours, [7]), equals=True)
        run.claim("link, as it is shown", ours.state()["link"], equals="down")
        command("ip", "link", "set", "dev", OURS, "up")
        run.claim("set up again", follows(ours, [3]), equals=True)
        command("ip", "link", "set", "dev", OURS, "address", "02:00:00:00:00:77")
        until(lambda: ours.state()["mac"] == "02:00:00:00:00:77" and ours.state()["neighbours"], 3)
        run.claim("another address", follows(ours, [3]), equals=True)
        said = [line for line in ours.text(ours.output).splitlines() if "address" in line or "ended" in line]
        wanted = "xoff: a0: its address is 02:00:00:00:00:77 now; a shutdown frame ended the one before"
        run.claim("another address, as it is said", said, equals=[wanted])
        settle(1)
        command("ip", "link", "delete", "dev", OURS)
        until(lambda: ours.state()["link"] == "gone", 3)
        run.claim("removed: back to local", follows(ours, [7]), equals=True)
        far = ("peer", "name", THEIRS, "address", HIGH, "netns", PEER)
        command("ip", "link", "add", "name", OURS, "address", LOW, "type", "veth", *far)
        at_peer("ip", "link", "set", "dev", THEIRS, "up")
        command("ip", "link", "set", "dev", OURS, "up")
        run.claim("another interface of that name", follows(ours, [3]), equals=True)
        run.claim("still one neighbour", len(ours.state()["neighbours"]), equals=1)
        command("ip", "link", "set", "dev", OURS, "name", "a9")
        until(lambda: ours.state()["link"] == "gone", 3)
        run.claim("renamed: back to local", follows(ours, [7]), equals=True)
        command("ip", "link", "set", "dev", "a9", "name", OURS)
        command("ip", "link", "set", "dev", OURS, "up")
        run.claim("named as before", follows(ours, [3]), equals=True)


@experiment(timeout="120s", files=FILES)
def test_a_changed_file_or_sighup_changes_the_settings(run: Run) -> None:
    """An agent's file is changed, is wrong, is replaced; SIGHUP has it read again."""
    folder = run.directory
    with cable(), agent(folder, None, THEIRS, is_far=True) as theirs, agent(folder, THREE) as ours:
        run.claim("first settings", follows(theirs, [3]), equals=True)
        ours.write(DcbxSettings(pfc=PfcAdmin(mask([4]))))
        run.claim("the file was written", follows(theirs, [4]), equals=True)
        other = folder / "new.toml"
        other.write_text(dump(DcbxSettings(pfc=PfcAdmin(mask([5])))))
        other.rename(ours.file)
        run.claim("the file was replaced", follows(theirs, [5]), equals=True)
        ours.write("[pfc]\nenable = [3]\n")
        settle(1)
        ours.process.send(signal.SIGHUP)
        settle(1)
        run.claim("a wrong file changes nothing", theirs.records("pfc_changed")[-1]["enabled"], equals=[5])
        said = [line for line in ours.text(ours.output).splitlines() if "stay" in line]
        wrong = f"xoff: {ours.file}: [pfc] enable: unknown key; did you mean enabled?"
        wrong += "; the settings stay as they were"
        run.claim("it is said each time", said, equals=[wrong, wrong])
        ours.write("")
        settle(1)
        run.claim("PFC taken out of the file", ours.feature("pfc", "oper") is None, equals=True)
        ours.file.unlink()
        ours.process.send(signal.SIGHUP)
        settle(1)
        wanted = f"xoff: {ours.file} cannot be read: No such file or directory; the settings stay as they were"
        run.claim("no file", ours.text(ours.output).splitlines()[-1], equals=wanted)
        theirs.process.send(signal.SIGHUP)
        settle(1)
        wanted = "xoff: there is no file to read again; start with --config"
        run.claim("SIGHUP without a file", theirs.text(theirs.output).splitlines()[-1], equals=wanted)


@experiment(timeout="120s", files=FILES)
def test_a_signal_ends_the_agent_with_a_shutdown_lldpdu_and_exit_code_0(run: Run) -> None:
    """SIGTERM and SIGINT end an agent with a shutdown frame, one line and exit code 0; a killed one leaves nothing in
    the way.
    """
    folder = run.directory
    for number in (signal.SIGTERM, signal.SIGINT):
        with cable(), agent(folder, None, THEIRS, is_far=True) as theirs, agent(folder, THREE) as ours:
            run.claim(f"{number.name}: agreed", follows(theirs, [3]), equals=True)
            settle(1)
            lines = len(ours.text(ours.output).splitlines())
            run.claim(f"{number.name}: exit code", ours.end(number), equals=0)
            said = ours.text(ours.output).splitlines()[lines:]
            run.claim(
                f"{number.name}: last words", said, equals=["xoff: a0: ended; a shutdown frame was sent to the peer"]
            )
            run.claim(f"{number.name}: its peer removes it at once", follows(theirs, []), equals=True)
            why = theirs.records("neighbour_lost")[-1]["why"]
            run.claim(f"{number.name}: why, for the peer", why, equals="it shut down")
            goodbye = ours.records("frame")[-1]
            run.claim(f"{number.name}: last frame", [goodbye["direction"], goodbye["ttl"]], equals=["sent", 0])
        for log in (ours.log, theirs.log):
            log.unlink()
    with cable():
        killed = Agent(folder, THREE)
        killed.process.send(signal.SIGKILL)
        killed.process.wait()
        code, text = xoff(folder, "dcbx", "show", OURS)
        run.claim("a killed agent is none", [code, text[:28]], equals=[3, "xoff: no agent serves a0 in "])
        killed.log.unlink()
        with agent(folder, THREE) as ours:
            run.claim("another one starts", ours.state()["running"], equals=True)
            code, metrics = xoff(folder, "dcbx", "metrics", OURS)
            shown = metrics.splitlines()
            run.claim("metrics: the link", [code, f'xoff_port_up{{port="{OURS}"}} 1' in shown], equals=[0, True])
            enabled = [line[-1] for line in shown if line.startswith("xoff_dcbx_pfc_enabled{")]
            run.claim("metrics: PFC by priority", "".join(enabled), equals="00010000")
            run.claim("metrics: the end", shown[-1], equals="# EOF")


@experiment(timeout="120s", files=FILES)
def test_messages_and_exit_codes_of_the_commands(run: Run) -> None:
    """Messages of the commands, and their exit codes."""
    folder = run.directory

    def refuses(name: str, words: list[str], code: int, text: str, user: int = 0) -> None:
        run.claim(name, list(xoff(folder, *words, user=user)), equals=[code, text])

    with cable():
        refuses("no interface", ["dcbx", "agent", "a00"], 2, "xoff: there is no interface a00; did you mean a0?")
        text = "xoff: lo is a loopback interface, and has no peer; there are a0"
        refuses("loopback", ["dcbx", "agent", "lo"], 2, text)
        text = "xoff: there is no interface x; there are a0"
        refuses("no similar one", ["dcbx", "agent", "x"], 2, text)
        refuses(
            "no file",
            ["dcbx", "agent", "a0", "--config", "/n"],
            2,
            "xoff: /n cannot be read: No such file or directory",
        )
        text = "xoff: no agent runs in this network namespace; start one with `xoff dcbx agent IFACE`"
        refuses("no agent", ["dcbx", "show"], 3, text)
        text = "xoff: sending and receiving LLDP on a0 needs CAP_NET_RAW; run this as root"
        refuses("an ordinary user", ["dcbx", "agent", "a0"], 3, text, user=65534)
        with agent(folder, THREE) as ours:
            text = (
                f"xoff: an agent serves a0 already, process {ours.process.pid}; see its state with "
                "`xoff dcbx show a0`, or stop it first"
            )
            refuses("a second one", ["dcbx", "agent", "a0"], 3, text)
            refuses("of another interface", ["dcbx", "show", "lo"], 3, "xoff: no agent serves lo in this network "
                 "namespace; start one with `xoff dcbx agent lo`")  # fmt: skip
            with agent(folder, None, THEIRS, is_far=True) as theirs:
                follows(theirs, [3])
                code, text = xoff(folder, "dcbx", "show", "--json")
                shown = json.loads(text)
                run.claim("xoff dcbx: agents of this namespace alone", [code, *shown], equals=[0, OURS])
                code, text = xoff(folder, "dcbx", "show", OURS)
                pfc = [line.split() for line in text.splitlines() if line.split()[:2] == [OURS, "PFC"]]
                wanted = [OURS, "PFC", "3", "3", "3", "no/yes", "no", "none/-", "local", "setting:"]
                run.claim("the row of PFC", [row[:10] for row in pfc], equals=[wanted])
                run.claim("what is missing here is said", "takes no DCB settings" in text, equals=True)


@experiment(timeout="120s", files=FILES)
def test_the_agent_drops_root_and_survives_removed_interfaces_and_a_full_disk(run: Run) -> None:
    """Once its sockets are open it is no longer root; interfaces may come and go, and a full disk ends nothing."""
    folder = run.directory
    with cable(), agent(folder, None, THEIRS, is_far=True) as theirs:
        folder.chmod(0o700)  # it cannot be read any more then
        ours = Agent(folder, THREE, more=("--user", "nobody", "--log", "/dev/full"), waits=False)
        run.claim("agreed", follows(theirs, [3]), equals=True)
        run.claim("said of its file", "a change of it does not count" in ours.text(ours.output), equals=True)
        status = Path(f"/proc/{ours.process.pid}/status").read_text()
        found = {
            line.split(":")[0]: line.split()[1:] for line in status.splitlines() if line[:3] in ("Uid", "Gid", "Cap")
        }
        run.claim("its user", sorted(set(found["Uid"])), equals=["65534"])
        run.claim("its capabilities: NET_ADMIN and NET_RAW", int(found["CapPrm"][0], 16), equals=1 << 12 | 1 << 13)
        run.claim("it cannot get others", int(found["CapBnd"][0], 16) & ~(1 << 12 | 1 << 13), equals=0)
        run.claim("lines that were not logged are counted", ours.state()["counters"]["log_lost"], at_least=3)
        command("ip", "link", "delete", "dev", OURS)
        until(lambda: ours.state()["link"] == "gone", 3)
        far = ("peer", "name", THEIRS, "address", HIGH, "netns", PEER)
        command("ip", "link", "add", "name", OURS, "address", LOW, "type", "veth", *far)
        at_peer("ip", "link", "set", "dev", THEIRS, "up")
        command("ip", "link", "set", "dev", OURS, "up")
        run.claim("an interface that comes back is served", follows(theirs, [3]), equals=True)
        run.claim("exit code", ours.end(), equals=0)
        run.claim("its peer removes it at once", follows(theirs, []), equals=True)


@experiment(timeout="120s", files=FILES)
def test_a_hostile_peer_is_limited_and_its_neighbours_can_be_cleared(run: Run) -> None:
    """A peer that changes with every frame, a second neighbour with the longest TTL, and an administrator's way out."""
    from testbed.frames import Mac
    from testbed.frames.dcbx.values import DcbxVersion
    from testbed.frames.lldp import Lldpdu, LldpFrame
    from testbed.linux.process import kernel
    from testbed.linux.sockets.lldp_socket import LldpSocket
    from testbed.subjects.dcbx.settings import PortIdentity
    from testbed.subjects.dcbx.tlvs import DcbxTlvs, Pfc, encode

    def frame(last: int, enabled: int, ttl: int = 65535) -> bytes:
        mac = Mac(bytes([2, 0, 0, 0, 0, last]))
        identity = PortIdentity.of(mac, "x")
        tlvs = tuple(encode(DcbxVersion.PUBLISHED, DcbxTlvs(pfc=Pfc(enabled))))
        return LldpFrame(mac, Lldpdu(identity.chassis_id, identity.port_id, ttl, tlvs)).encode()

    folder = run.directory
    with cable(), agent(folder, WILLING) as ours:
        namespace = os.open(f"/run/netns/{PEER}", os.O_RDONLY)
        with kernel.in_network(namespace):
            theirs = LldpSocket(THEIRS)
        for number in range(2000):
            theirs.send(frame(0xB, number % 255 + 1))
            settle(0.001)
        run.claim("changes in 2 s of a change each ms", len(ours.records("pfc_changed")), at_most=14)
        run.claim("lines for people", len(ours.text(ours.output).splitlines()), at_most=20)
        run.claim("the last one counts", follows(ours, [0, 1, 2, 4, 6, 7]), equals=True)
        theirs.send(frame(0xC, 1))
        until(lambda: ours.state()["crowded"], 3)
        run.claim("a second neighbour", ours.state()["crowded"], equals=True)
        code, text = xoff(folder, "dcbx", "forget", OURS)
        wanted = "a0: 2 removed; neighbours on the link are learnt again"
        run.claim("xoff dcbx forget", [code, text], equals=[0, wanted])
        settle(2)
        theirs.send(frame(0xB, 0x10))
        run.claim("the peer is followed again", follows(ours, [4]), equals=True)
        theirs.close()
        os.close(namespace)


@experiment(timeout="60s", files=FILES)
def test_an_lldp_socket_returns_lldp_from_others_without_a_tag_and_nothing_else(run: Run) -> None:
    """An LLDP socket returns LLDP of others without a tag, and nothing else."""
    from testbed.linux.process import kernel
    from testbed.linux.sockets.lldp_socket import LldpSocket

    plain = bytes.fromhex("0180c200000e" + HIGH.replace(":", "") + "88cc") + bytes(46)
    with cable():
        ours = LldpSocket(OURS)
        namespace = os.open(f"/run/netns/{PEER}", os.O_RDONLY)
        with kernel.in_network(namespace):
            theirs = LldpSocket(THEIRS)
        settle(1)  # the kernel opens the queue of an interface a moment after its carrier is there

        def heard(*frames: bytes) -> list[str]:
            for frame in frames:
                theirs.send(frame)
            settle(0.01)
            return [frame.hex() for frame in ours.receive()]

        run.claim("a frame, octet by octet", heard(plain), equals=[plain.hex()])
        run.claim("nothing more", heard(), equals=[])
        ours.send(plain)
        run.claim("not its own", heard(), equals=[])
        tagged = [plain[:12] + bytes.fromhex(tag) + plain[12:] for tag in ("81000005", "81006000")]
        run.claim("none with a tag, of a VLAN or of a priority", heard(*tagged), equals=[])
        run.claim("these are counted", ours.tagged, equals=2)
        elsewhere = [bytes.fromhex(to) + plain[6:] for to in ("ffffffffffff", LOW.replace(":", ""), "0180c200000f")]
        run.claim("none to an address that is not LLDP's", heard(*elsewhere), equals=[])
        groups = [bytes.fromhex(f"0180c20000{last}") + plain[6:] for last in ("0e", "03", "00")]
        run.claim("those to each of LLDP's three", heard(*groups), equals=[frame.hex() for frame in groups])
        run.claim("no other protocol", heard(plain[:12] + bytes.fromhex("0800") + plain[14:]), equals=[])
        run.claim("a flood comes in parts", [len(heard(*[plain] * 40)), len(heard())], equals=[32, 8])
        addresses = command("ip", "maddress", "show", "dev", OURS)
        listed = [group in addresses for group in ("01:80:c2:00:00:0e", "01:80:c2:00:00:03", "01:80:c2:00:00:00")]
        run.claim("in the three groups of LLDP", listed, equals=[True] * 3)
        at_peer("ip", "link", "set", "dev", THEIRS, "down")
        command("ip", "link", "set", "dev", OURS, "down")
        run.claim("down: nothing, and no error", [frame.hex() for frame in ours.receive()], equals=[])
        command("ip", "link", "set", "dev", OURS, "up")
        at_peer("ip", "link", "set", "dev", THEIRS, "up")
        settle(0.1)
        run.claim("up again", heard(plain), equals=[plain.hex()])
        # A bridge that is configured to forward LLDP consumes the frame before it reaches a socket behind it.
        command("ip", "link", "add", "name", "bridge0", "type", "bridge", "group_fwd_mask", "0x4000")
        command("ip", "link", "set", "dev", "bridge0", "up")
        command("ip", "link", "set", "dev", OURS, "master", "bridge0")
        settle(1)
        run.claim("at a bridge that forwards LLDP", heard(plain), equals=[plain.hex()])
        command("ip", "link", "delete", "dev", "bridge0")
        for end in (ours, theirs):
            end.close()
        os.close(namespace)
        try:
            LldpSocket("none")
        except OSError as error:
            run.claim("no such interface", str(error), equals="no interface with this name")
