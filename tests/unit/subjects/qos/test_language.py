"""QoS policy files: both syntaxes into one model and back, and errors with line, column and the right thing."""

from __future__ import annotations

import random
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.strict.problems import Severity
from testbed.subjects.qos.model import NodeType, Policy, Ulp, UlpKey
from testbed.subjects.qos.numbers import Ranges
from testbed.subjects.qos.syntax import block_text, rfc_xml
from testbed.subjects.qos.syntax.check import ReadPolicy, load, read
from testbed.subjects.qos.syntax.grammar import BLOCK, XML, Syntax
from testbed.subjects.qos.syntax.source import LARGEST, PolicyError, Problems
from testbed.subjects.qos.syntax.write import write
from tests.unit.subjects.qos.policy_samples import BLOCK_SAMPLE, EXAMPLE, RFC_SAMPLE, mutated, random_policy

LEVEL = "<qos-levels><qos-level><sn>1</sn><sl>3</sl></qos-level></qos-levels>"


def errors(text: str | bytes, syntax: Syntax | None = None) -> list[str]:
    content = text if isinstance(text, bytes) else text.encode()
    return [str(problem) for problem in read(content, syntax).problems.errors]


def warnings(text: str | bytes) -> list[str]:
    return [str(p) for p in read(text if isinstance(text, bytes) else text.encode()).problems.warnings]


def in_xml(inside: str) -> str:
    return f"<qos-policy>{inside}</qos-policy>"


def level(inside: str) -> str:
    return in_xml(f"<qos-levels><qos-level><sn>1</sn><sl>3</sl>\n{inside}</qos-level></qos-levels>")


def rule(inside: str) -> str:
    return in_xml(
        f"{LEVEL}<qos_match_rules><qos_match_rule>\n{inside}<match-level>1</match-level></qos_match_rule></qos_match_rules>"
    )


# The RFC's sample and ours


def test_the_rfcs_own_sample_gives_an_error_for_each_of_its_mistakes() -> None:
    reading = read(RFC_SAMPLE.read_bytes())
    found = [str(problem) for problem in reading.problems.errors]
    dash = "error: a comment cannot open with <!\u2014-: a typographic dash is not --; expected <!--"
    table = "error: sl2vl-table: the table has 15 entries; expected 16, the VL of each SL from 0 to 15"
    assert found == [
        *(f"{at}: {dash}" for at in ("10:3", "17:3", "21:3", "27:3", "29:4")),
        "31:4: error: there is no port group 'Part1'; expected 'Partition 1'",
        f"32:19: {table}",
        f"34:4: {dash}",
        f"37:19: {table}",
        "39:3: error: <sl2vl-tables> is opened again and was not closed; expected </sl2vl-tables>",
        f"40:3: {dash}",
        "55:9: error: sl: 16 is too large; expected 0 to 15",
        "63:48: error: </mtl_limit> closes <mtu_limit>; expected </mtu_limit>",
        *(f"{at}: {dash}" for at in ("68:3", "72:3")),
    ]
    assert [p.place.line for p in reading.problems.warnings] == [1]  # ISO-8859-1 is declared, and it is UTF-8


def test_the_rfcs_sample_as_a_web_page_has_it_is_read_with_its_no_break_spaces() -> None:
    plain = read(RFC_SAMPLE.read_bytes()).problems.errors
    pasted = read(RFC_SAMPLE.read_text().replace(" ", "\u00a0").replace("?xml\u00a0", "?xml ").encode()).problems
    assert pasted.errors == plain
    assert any("no-break spaces" in warning.message for warning in pasted.warnings)


def test_the_corrected_sample_is_what_the_rfc_meant() -> None:
    policy = load(EXAMPLE.read_bytes(), "example")
    assert [group.name for group in policy.port_groups] == ["Storage", "Virtual Servers", "Partition 1", "Routers"]
    assert [(1 << 60) + n in policy.port_groups[0].port_guids for n in (0, 1, 2, 3)] == [False, True, True, False]
    assert policy.port_groups[1].port_names == ("vs1/HCA-1/P1", "vs3/HCA-1/P1", "vs3/HCA-2/P1")
    assert policy.port_groups[2].partitions == ("Part1",)
    assert policy.port_groups[3].node_types == (NodeType.ROUTER,)
    whole, across = policy.sl2vl
    assert (whole.groups, whole.from_ports, whole.to_ports) == (("Partition 1",), None, None)
    assert (across.across_to, across.to_ports, across.table) == (("Storage",), Ranges(((1, 1),)), (0, *[1] * 15))
    (arb,) = policy.vlarb
    assert arb.high is not None and arb.low is not None
    assert (arb.high[0], arb.high[-1], arb.low[-1], arb.high_limit) == ((0, 255), (7, 1), (14, 3), 10)
    assert [(one.name, one.sl, one.tclass) for one in policy.levels] == [("1", 15, None), ("2", 0, 7), ("3", 0, 32)]
    limited = policy.levels[2]
    assert (limited.mtu_limit, limited.rate_limit, limited.path_bits) == (256, 2_500_000_000, 1)
    low_latency, storage = policy.rules
    assert (low_latency.tclasses, low_latency.level) == (Ranges(((7, 9), (11, 11))), "2")
    assert (storage.destinations, storage.service_ids) == (("Storage",), Ranges(((22, 22), (4719, 4719))))
    assert policy.default_level == "1"


# Block text


def test_block_text_gives_every_section_and_entry_of_opensm() -> None:
    reading = read(BLOCK_SAMPLE)
    assert reading.problems.errors == []
    policy = reading.policy
    storage, servers = policy.port_groups
    assert storage.use == "SRP targets # not a comment"
    assert 0x10000000000005 in storage.port_guids and 0x10000000000004 not in storage.port_guids
    assert servers.node_types == (NodeType.CA, NodeType.SELF, NodeType.ROUTER)
    assert (servers.port_names, servers.pkeys) == (("vs1 HCA-1/P1", "vs2/HCA-1/p2"), Ranges(((0x1234, 0x1240),)))
    one, other = policy.sl2vl
    assert (one.groups, one.to_ports) == (("Storage", "Servers"), Ranges(((1, 1), (3, 5))))
    assert set(other.across_to) == {"Storage", "Servers"} and set(other.across_from) == {"Storage"}
    assert (policy.vlarb[1].high, policy.vlarb[1].high_limit) == (None, 0)
    whole = policy.levels[1]
    assert (whole.mtu_limit, whole.rate_limit, whole.packet_life, whole.path_bits) == (2048, 5_000_000_000, 8, 3)
    assert policy.rules[1].pkeys == Ranges(((0x0F00, 0x0FFF),))
    assert policy.default_level == "DEFAULT"
    assert [u.ulp for u in policy.ulps[:3]] == [Ulp.DEFAULT, Ulp.SDP, Ulp.SDP]
    assert policy.ulps[-1].key is UlpKey.SOURCE_TARGET_PORT_GUID
    assert len(policy.ulps) == 16


def test_block_text_is_distinguished_from_xml_by_its_first_character() -> None:
    assert read(b"# a comment\n\n <qos-policy></qos-policy>").syntax is XML
    assert read(b"\xef\xbb\xbf<qos-policy></qos-policy>").syntax is XML
    assert read(b"").syntax is BLOCK


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("qos-levels\nqos-level\nname: a\nsl: 16\n", "4:5: error: sl: 16 is too large; expected 0 to 15"),
        ("qos-levels\nqos-level\nname: a\nsl: 1\nend-qos-levels\n",
         "5:1: error: qos-level of line 2 is not ended before end-qos-levels; expected end-qos-level"),
        ("qos-levels\nqos-level\nname: a\nsl: 1\n", "qos-level of line 2 is not ended before the end of the file"),
        ("qos-levels\n qos-level\n  sl: 1\n end-qos-level\nend-qos-levels",
         "2:2: error: qos-level has no name; expected name: and its value"),
        ("qos-levels\nqos-level\nname: a\nqos-level\n", "4:1: error: qos-level of line 2 is not ended before"),
        ("qos-level\n", "1:1: error: qos-level is not a section of qos-policy; expected qos-levels"),
        ("end-qos-levels\n", "1:1: error: end-qos-levels ends nothing"),
        ("sl: 3\n", "1:1: error: sl is not an entry"),
        ("port-groups\nport-group\nname: a\nnaem: b\n", "4:1: error: naem is not an entry of port-group; expected"),
        ("qos-levels\nqos-level\nname: a\nname: b\n", "4:1: error: a second name in qos-level; expected one name"),
        ("qos-levels\nqos-level\ntclass: 7\n", "tclass is not an entry of qos-level, and OpenSM's syntax has none"),
        ("qos-match-rules\nqos-match-rule\nservice: 7\n", "service is not an entry of qos-match-rule (that is how XML"),
        ("qos-levels: 3\n", "qos-levels is a section and takes no value"),
        ("qos-levels\nqos-level\nsl\n", "sl has no value; expected sl: and its value"),
        ("qos-levels\nqos-level\nname: \"a\n", "3:7: error: a quote is not closed"),
        ("what is this\n", "1:1: error: 'what is this' is not a line of a policy; expected one of"),
        ("qos-ulps\nsdp, port-num 70000 : 1\n", "2:15: error: port-num: 70000 is too large; expected 0 to 0xffff"),
        ("qos-ulps\nsdp, pkey 7 : 1\n", "ulp: sdp with pkey; expected sdp with nothing or port-num"),
        ("qos-ulps\nsrp : 1\n", "ulp: srp with nothing to select by; expected srp with target-port-guid"),
        ("qos-ulps\nnfs : 1\n", "2:1: error: ulp: 'nfs' is not a protocol; expected one of default, sdp"),
        ("qos-ulps\nsdp, port 7 : 1\n", "2:6: error: 'port' selects nothing; expected one of port-num"),
        ("qos-ulps\nsdp 7\n", "2:1: error: 'sdp 7' is not a line of qos-ulps"),
        ("qos-ulps\nsdp : 16\n", "2:7: error: sl: 16 is too large; expected 0 to 15"),
        ("qos-levels\nqos-level\nmtu-limit: 1500B\n", "3:12: error: mtu-limit: '1500B' is not a number"),
        ("qos-levels\nqos-level\nmtu-limit: 6\n", "3:12: error: mtu-limit: 6 is not an MTU code; expected a code"),
        ("qos-levels\nqos-level\nrate-limit: 1\n", "3:13: error: rate-limit: 1 is not a rate code; expected a code"),
    ],
)  # fmt: skip
def test_mistakes_in_block_text(text: str, message: str) -> None:
    assert any(message in error for error in errors(text, BLOCK)), errors(text, BLOCK)


# XML


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "1:1: error: there is no policy in the file; expected <qos-policy>"),
        ("<policy></policy>", "1:1: error: the file starts with <policy>; expected <qos-policy>"),
        ("<qos-policy>", "<qos-policy> of line 1 is not closed before the end of the file"),
        (in_xml("") + "<a></a>", "<a> after the end of the policy; expected nothing"),
        (in_xml("hello"), "1:13: error: text 'hello' in <qos-policy>; expected one of <port-groups>"),
        (in_xml("</sl>"), "1:13: error: </sl> closes nothing; expected </qos-policy>"),
        (in_xml("<qos-levles></qos-levles>"), "<qos-levles> is no element of <qos-policy>; expected <qos-levels>"),
        (in_xml(LEVEL + LEVEL), "a second <qos-levels> in <qos-policy>; expected one <qos-levels>"),
        (level("<sl>4</sl>"), "2:1: error: a second <sl> in <qos-level>; expected one <sl>"),
        (level("<tclass a='b'>4</tclass>"), "2:8: error: <tclass> has \"a='b'\"; expected no attributes"),
        (level("<tclass><sl>4</sl></tclass>"), "2:9: error: <sl> inside <tclass>; expected text and </tclass>"),
        (level("<tclass></tclass>"), "2:1: error: tclass: '' is not a number; expected 0 to 255, decimal or 0x"),
        (level("<tclass>256</tclass>"), "2:9: error: tclass: 256 is too large; expected 0 to 255"),
        (level("<path_bits>128</path_bits>"), "path_bits: 128 is too large; expected 0 to 127"),
        (level("<packet-life>64</packet-life>"), "packet_life: 64 is too large; expected 0 to 63"),
        (level("<mtu_limit>6</mtu_limit>"), "mtu_limit: 6 is neither an MTU code nor an MTU; expected a code from 1"),
        (level("<mtu_limit>64B</mtu_limit>"), "mtu_limit: '64B' is too small for a path"),
        (level("<mtu_limit>big</mtu_limit>"), "mtu_limit: 'big' is not an MTU"),
        (level("<rate_limit>0</rate_limit>"), "rate_limit: 0 lets nothing through; expected width x speed"),
        (level("<rate_limit>fast</rate_limit>"), "rate_limit: 'fast' is not a rate; expected width x speed"),
        (level("<pkey>0x8000-0x8001</pkey>"), "pkey: 0x0000 is not a P_Key"),
        (level("<pkey>1-0x9000</pkey>"), "goes over the membership bit; expected one side of 0x8000"),
        (level("<name>x</name>"), "<qos-level> has both <sn> and <name>; expected one of them"),
        (in_xml("<qos-levels><qos-level><sl>1</sl></qos-level></qos-levels>"), "<qos-level> has no <sn>"),
        (in_xml("<qos-levels><qos-level><sn>1</sn></qos-level></qos-levels>"), "<qos-level> has no <sl>; expected"),
        (rule("<service>9-7</service>"), "2:10: error: service: the range '9-7' ends below its begin; expected 7-9"),
        (rule("<service>0x10000000000000000</service>"), "is too large; expected 0 to 0xffffffffffffffff"),
        (rule("<service>7,,8</service>"), "2:12: error: service: '' is not a number"),
        (rule("<service-id>7</service-id>"), "2:1: error: <service-id> is spelled <service> here"),
        (rule("<qos_class>4096</qos_class>"), "qos_class: 4096 is too large; expected 0 to 0xfff"),
        (rule("<source>Unknown</source>"), "there is no port group 'Unknown'; expected a port group of this policy"),
        (in_xml("<default-level>9</default-level>" + LEVEL), "1:13: error: there is no level '9'; expected one of '1'"),
        (in_xml("<port-groups><port-group><name>a,b</name></port-group></port-groups>"), "name: 'a,b' has a comma"),
        (in_xml("<port-groups><port-group><name>a</name><port-name>a/1</port-name></port-group></port-groups>"),
         "port-name: 'a/1' is not a port name; expected node description/P and a number: vs1/HCA-1/P1"),
        (in_xml("<port-groups><port-group><name>a</name><node-type>HUB</node-type></port-group></port-groups>"),
         "node-type: 'HUB' is not a node type; expected one of CA, SWITCH, ROUTER, SELF, ALL, HCA"),
        (in_xml("<port-groups>" + "<port-group><name>a</name></port-group>\n" * 2 + "</port-groups>"),
         "2:1: error: a second port group 'a'; the first is in line 1; expected another name"),
        (in_xml("<qos-setup><vlarb-tables><vlarb-scope></vlarb-scope></vlarb-tables></qos-setup>"),
         "vlarb-scope applies to nothing; expected group or across"),
        (in_xml("<qos-setup><vlarb-tables><vlarb-scope><vlarb-low>15:3</vlarb-low></vlarb-scope></vlarb-tables></qos-setup>"),
         "vlarb-low: VL 15 is never arbitrated; expected a VL from 0 to 14"),
        (in_xml("<qos-setup><vlarb-tables><vlarb-scope><vlarb-low>1:256</vlarb-low></vlarb-scope></vlarb-tables></qos-setup>"),
         "vlarb-low: 256 is too large; expected 0 to 255"),
        (in_xml("<qos-setup><vlarb-tables><vlarb-scope><vlarb-low>7</vlarb-low></vlarb-scope></vlarb-tables></qos-setup>"),
         "vlarb-low: '7' is not an entry; expected VL:weight, such as 0:255"),
        ("<?xml version='1.0' encoding='koi8-r'?>" + in_xml(""), "1:31: error: unknown encoding koi8-r; expected"),
        ("<?xml version='2.0'?>" + in_xml(""), "1:1: error: the XML declaration cannot be read"),
        (in_xml("<?php ?>"), "1:13: error: a processing instruction is not read; expected nothing"),
        (in_xml("<![CDATA[ <sl> ]]>"), "a CDATA section is not read; expected &lt; and &amp; in text"),
        (in_xml("<!-- never closed"), "1:13: error: a comment is not closed; expected -->"),
        (in_xml("< sl>"), "1:13: error: '< sl></qos-p' is not a tag; expected an element, or &lt; in text"),
        (level("<use>a &b; c</use>"), "2:8: error: '&b;' is not a reference that is read here"),
        (level("<use>&#x0;</use>"), "'&#x0;' is not a reference that is read here"),
    ],
)  # fmt: skip
def test_mistakes_in_xml(text: str, message: str) -> None:
    assert any(message in error for error in errors(text, XML)), errors(text, XML)


def test_many_mistakes_are_reported_in_one_pass_each_with_its_place() -> None:
    text = level("<tclass>x</tclass>\n<mtu_limit>6</mtu_limit>\n<rate_limit>0</rate_limit>\n<foo>1</foo>\n")
    assert [error.partition(" ")[0] for error in errors(text)] == ["2:9:", "3:12:", "4:13:", "5:1:"]


def test_after_a_hundred_errors_the_rest_is_counted() -> None:
    reading = read(in_xml("<bad></bad>" * 250).encode())
    assert (len(reading.problems.errors), reading.problems.left_out) == (100, 150)  # and there it ends at 1000 more
    assert read(in_xml("<bad></bad>" * 5000).encode()).problems.left_out == 1000
    with pytest.raises(PolicyError, match=r"policy\.xml: and 150 more"):
        load(in_xml("<bad></bad>" * 250).encode(), "policy.xml")


def test_hyphen_and_underscore_count_as_equal_in_xml() -> None:
    assert read(level("<mtu-limit>1</mtu-limit><path-bits>2</path-bits>").encode()).problems.errors == []


def test_text_may_have_a_stray_angle_references_and_a_comment() -> None:
    policy = load(level("<use>7-9 or 11> &lt;&amp;&#65;&#x42; a<!-- no -->b</use>").encode(), "p")
    assert policy.levels[0].use == "7-9 or 11> <&AB a b"


def test_latin_1_is_read_where_it_is_declared_and_an_error_where_not() -> None:
    text = level("<use>caf\u00e9</use>")
    declared = "<?xml version='1.0' encoding='ISO-8859-1'?>" + text
    assert load(declared.encode("latin-1"), "p").levels[0].use == "caf\u00e9"
    assert "2:9: error: byte 0xe9 is not utf-8" in errors(text.encode("latin-1"))[0]


def test_mtu_and_rate_limits_are_codes_lanes_or_values_with_units() -> None:
    for text, size in (("1", 256), ("5", 4096), ("1500", 1500), ("1500B", 1500), ("9kB", 9000)):
        assert load(level(f"<mtu_limit>{text}</mtu_limit>").encode(), "p").levels[0].mtu_limit == size
    for text, bps in (("1", 2_500_000_000), ("4", 10**10), ("25Gb/s", 25 * 10**9)):
        assert load(level(f"<rate_limit>{text}</rate_limit>").encode(), "p").levels[0].rate_limit == bps


def test_both_spellings_of_an_adapter_are_the_same_type() -> None:
    text = in_xml("<port-groups><port-group><name>a</name><node-type>hca,CA</node-type></port-group></port-groups>")
    assert load(text.encode(), "p").port_groups[0].node_types == (NodeType.CA,)


# Warnings


def test_doubts_are_warnings() -> None:
    text = in_xml(
        "<port-groups><port-group><name>lonely</name></port-group></port-groups>"
        "<qos-levels><qos-level><sn>1</sn><sl>3</sl></qos-level><qos-level><sn>2</sn><sl>3</sl></qos-level></qos-levels>"
        "<qos_match_rules>"
        "<qos_match_rule><sn>2</sn><service>1-9</service><match-level>1</match-level></qos_match_rule>\n"
        "<qos_match_rule><sn>1</sn><service>3</service><tclass>1</tclass><match-level>1</match-level></qos_match_rule>"
        "</qos_match_rules>"
    )
    assert errors(text) == []
    found = "\n".join(warnings(text))
    for part in (
        "port group 'lonely' is used nowhere",
        "port group 'lonely' names no ports",
        "level '2' is never reached",
        "this rule is never reached: that of line 1 matches whatever it matches",
        "rule 1 stands after rule 2",
    ):
        assert part in found
    without_default = b"qos-levels\nqos-level\nname: a\nsl: 1\nend-qos-level\nend-qos-levels"
    assert "OpenSM refuses such a policy" in warnings(without_default)[-1] + warnings(without_default)[0]


# Attacks


def test_entities_are_never_expanded() -> None:
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10 if n else "ha"}">' for n in range(10))
    text = f'<?xml version="1.0"?><!DOCTYPE qos-policy [{laughs}]>' + level("<use>&l9;</use>")
    found = errors(text)
    assert "a document type declaration is not read" in found[0]
    assert any("'&l9;' is not a reference" in error for error in found)
    outside = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>' + level("<use>&x;</use>")
    assert "root:" not in read(outside.encode()).policy.levels[0].use


@pytest.mark.slow
@pytest.mark.parametrize(
    "content",
    [
        b"<qos-policy>" + b"<a>" * 300_000,
        b"<qos-policy>" + b"<qos-levels>" * 300_000,
        b"<qos-policy><qos-levels><qos-level>" + b"<pkey>1</pkey>" * 20_000 + b"<sn>1</sn>" * 20_000,
        b"<!x" * 700_000,
        b"<qos-policy><![CDATA[" * 100_000,
        b"<!DOCTYPE [" * 200_000,
        b"<a b" * 100_000,
        b"&" * 200_000,
        b"<qos-policy>" + b"&x" * 50_000,
        b"qos-ulps\nsdp, port-num" + b" " * 2_000_000,
        b'qos-ulps\nsdp "#' + b'"#' * 200_000,
        b"port-groups\n" * 300_000,
        b"x\n" * 20_000,
        b"qos-levels\nqos-level\npkey: " + b"1," * 20_000,
        b"<" * 200_000,
    ],
    ids=range(15),
)
def test_hostile_files_take_time_and_memory_in_proportion(content: bytes) -> None:
    """Check that reading ends: work with the square of the files' length would take a day."""
    tracemalloc.start()
    try:
        reading = read(content)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000 + 400 * len(content)
    finally:
        tracemalloc.stop()
    assert reading.problems.errors


def test_files_are_limited_in_size_and_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    assert errors(b" " * (LARGEST + 1)) == [f"1:1: error: the file has {LARGEST + 1} bytes; expected at most {LARGEST}"]
    for module in (rfc_xml, block_text):
        monkeypatch.setattr(module, "MOST_ELEMENTS", 100)
    many = in_xml("<port-groups><port-group><name>a</name>" + "<pkey>1</pkey>" * 100 + "</port-group></port-groups>")
    assert "more than 100 elements; expected a smaller policy" in errors(many)[0]
    lines = errors("port-groups\nport-group\nname: a\n" + "pkey: 1\n" * 100)
    assert lines[0].endswith("101:1: error: more than 100 lines; expected a smaller policy")


def test_utf_16_and_control_characters_are_refused() -> None:
    assert errors(in_xml("").encode("utf-16")) == [
        "1:1: error: the file is in UTF-16; expected UTF-8, ISO-8859-1 or US-ASCII"
    ]
    assert "2:7: error: control character U+0000; expected text" in errors(level("<use>a\0</use>"))


# Round trips


def written(policy: Policy, syntax: Syntax) -> bytes:
    text = write(policy, syntax, problems := Problems())
    assert problems.errors == []
    return text.encode()


@given(st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_what_is_written_in_xml_is_read_back_as_the_same_policy(seed: int) -> None:
    policy = random_policy(random.Random(seed))
    assert load(written(policy, XML), "p") == policy


@given(st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_a_policy_goes_through_both_syntaxes_unchanged(seed: int) -> None:
    policy = random_policy(random.Random(seed), syntax_block=True)
    as_block = written(policy, BLOCK)
    assert load(as_block, "p") == policy
    assert load(written(load(as_block, "p"), XML), "p") == policy


def test_the_block_sample_survives_a_way_through_xml() -> None:
    policy = load(BLOCK_SAMPLE, "p")
    assert load(written(policy, XML), "p") == policy
    assert load(written(policy, BLOCK), "p") == policy


def test_what_block_text_lacks_is_an_error_or_the_nearest() -> None:
    policy = load(EXAMPLE.read_bytes(), "p")
    write(policy, BLOCK, problems := Problems())
    lost = [problem.message for problem in problems.errors]
    assert lost == [
        "level '2': OpenSM's levels have no TClass; 7 is left out",
        "level '3': OpenSM's levels have no TClass; 32 is left out",
        "OpenSM's rules have no TClass; 7-9,11 is written as qos-class",
    ]
    text = write(policy, BLOCK, problems := Problems(), approximate=True)
    assert problems.errors == [] and len(problems.warnings) == 3
    nearest = load(text.encode(), "p")
    assert nearest.rules[0].qos_classes == policy.rules[0].tclasses
    default = nearest.level("default")
    assert default is not None and default.sl == 15
    limited = load(level("<mtu_limit>1500</mtu_limit><rate_limit>3Gb/s</rate_limit>").encode(), "p")
    nearest = load(write(limited, BLOCK, Problems(), approximate=True).encode(), "p")
    assert (nearest.levels[0].mtu_limit, nearest.levels[0].rate_limit) == (1024, 2_500_000_000)


# Mutated files; 200 000 of them are in bench/policy.py


@pytest.mark.parametrize("sample", ["xml", "rfc", "block"])
def test_mutated_files_never_fail_otherwise_than_by_errors_with_a_place(sample: str) -> None:
    content = {"xml": EXAMPLE.read_bytes(), "rfc": RFC_SAMPLE.read_bytes(), "block": BLOCK_SAMPLE}[sample]
    rng = random.Random(sample)
    for _ in range(150):
        check_reading(read(mutated(content, rng)))


def check_reading(reading: ReadPolicy) -> None:
    """Check the properties that reading has for every file."""
    for problem in (*reading.problems.errors, *reading.problems.warnings):
        assert problem.place.line >= 1 and problem.place.column >= 1 and problem.message
        assert problem.expected or problem.severity is Severity.WARNING, problem
    if reading.ok:
        for syntax in (XML, BLOCK):
            text = write(reading.policy, syntax, problems := Problems(), approximate=True)
            if not problems.errors:
                again = read(text.encode())
                assert again.ok, (again.problems.errors, text)
                if syntax is XML:
                    assert again.policy == reading.policy


def test_the_samples_are_there() -> None:
    assert Path(EXAMPLE).exists() and Path(RFC_SAMPLE).exists()


@pytest.mark.parametrize(
    "hostile",
    [
        b"<qos-policy><" + b"a" * 32_000,
        b"<qos-policy><" + b"a" * 32_000 + b" /",
        b"<qos-policy><port-groups><port-group><name>" + b"a<!---->" * 250_000 + b"</name>",
        b"qos-ulps\n  sdp, " + b"a" * 32_000 + b"\n",
        b"qos-ulps\n  sdp, a" + b" " * 32_000 + b"x\n",
        b"a" * 32_000 + b" " * 32_000 + b"x\n",
    ],
    ids=["tag", "attribute", "comments", "selector", "blanks", "word"],
)
def test_what_is_long_takes_no_quadratic_time_and_gives_no_long_message(hostile: bytes) -> None:
    begin = time.process_time()
    problems = read(hostile).problems
    assert time.process_time() - begin < 4  # with the square of the length some ten seconds
    assert problems.errors
    assert max(len(problem.message) for problem in problems.errors) < 200
