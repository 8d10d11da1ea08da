"""The same policies and path record queries for OpenSM and for Xoff: found or not, SL, MTU and rate have to be equal.

It needs opensm, ibsim-utils and infiniband-diags, no lab and no InfiniBand; each run is in a network namespace of its
own. Where the two differ on purpose is decision 0179, and a test here.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys

import pytest

from testbed.subjects.qos.model import (
    MatchRule,
    NodeType,
    Policy,
    PortGroup,
    QosLevel,
    Sl2VlScope,
    Ulp,
    UlpKey,
    UlpRule,
)
from testbed.subjects.qos.numbers import MTU_CODES, RATE_CODES, Ranges, mtu_code, rate_code
from testbed.subjects.qos.records import Found, PathRecords
from testbed.subjects.qos.setup import setup
from testbed.subjects.qos.syntax.check import load, read
from testbed.subjects.qos.syntax.grammar import BLOCK
from testbed.subjects.qos.syntax.source import Problems
from testbed.subjects.qos.syntax.write import write

from .. import opensm_peer
from ..opensm_peer import HOSTS, Query

pytestmark = pytest.mark.skipif(opensm_peer.missing() is not None, reason=f"OpenSM: {opensm_peer.missing()}")

Seen = tuple[int, int, int] | None
"""SL, MTU code and rate code, or not found."""

LEVELS = """
qos-levels
    qos-level
        name: DEFAULT
        sl: 0
    end-qos-level
    qos-level
        name: Limited
        sl: 3
        mtu-limit: 2
        rate-limit: 2
    end-qos-level
    qos-level
        name: fast
        sl: 5
        rate-limit: 5
        packet-life: 9
        pkey: 0x7fff
    end-qos-level
end-qos-levels
"""
BY_HAND = (
    LEVELS
    + """
port-groups
    port-group
        name: Storage
        use: "targets"
        port-guid: 0x100001, 0x100007-0x100008
    end-port-group
    port-group
        name: Part
        partition: Part1
    end-port-group
    port-group
        name: Manager
        node-type: SELF
    end-port-group
    port-group
        name: Named
        port-name: h2/P1, h4/P1
    end-port-group
end-port-groups
qos-match-rules
    qos-match-rule
        use: "both ends"
        source: Named
        destination: storage, Manager
        service-id: 1-5, 0x1000000000005
        qos-level-name: LIMITED
    end-qos-match-rule
    qos-match-rule
        qos-class: 7-9,11
        qos-level-name: fast
    end-qos-match-rule
    qos-match-rule
        source: Part
        pkey: 0x8001
        qos-level-name: Limited
    end-qos-match-rule
    qos-match-rule
        destination: Part
        service-id: 3-9
        qos-level-name: fast
    end-qos-match-rule
end-qos-match-rules
qos-ulps
    sdp, port-num 10000-20000 : 2
    sdp : 1
    rds : 4
    iser : 6
    any, service-id 0x6234 : 7
    srp, target-port-guid 0x100004 : 8
    any, source-port-guid 0x10000a : 9
end-qos-ulps
"""
)


def random_policy(rng: random.Random) -> Policy:
    """Return a policy that both can read, over the hosts of the fabric."""
    guids = [opensm_peer.guid(name) for name in HOSTS]
    ways = [
        lambda: PortGroup("", port_guids=Ranges.of((g, g + rng.randrange(4)) for g in rng.sample(guids, 2))),
        lambda: PortGroup("", port_names=tuple(f"{name}/P1" for name in rng.sample(list(HOSTS), 2))),
        lambda: PortGroup("", partitions=("Part1",)),
        lambda: PortGroup("", node_types=(rng.choice(list(NodeType)),)),
    ]
    groups = [PortGroup(**{**rng.choice(ways)().__dict__, "name": f"group {number}"}) for number in range(4)]
    names = [group.name for group in groups]
    levels = [QosLevel("DEFAULT", rng.randrange(8))]
    for number in range(4):
        levels.append(
            QosLevel(
                f"level {number}",
                rng.randrange(8),
                mtu_limit=rng.choice((None, *MTU_CODES.values())),
                rate_limit=rng.choice((None, *(RATE_CODES[code] for code in range(2, 11)))),
                packet_life=rng.choice((None, 3, 20)),
                pkeys=rng.choice((Ranges(), Ranges(), Ranges(((1, 1),)), Ranges(((0x7FFF, 0x7FFF),)))),
            )
        )

    def some(odds: float) -> tuple[str, ...]:
        return tuple(rng.sample(names, rng.randrange(1, 3))) if rng.random() < odds else ()

    def ranges(odds: float, most: int) -> Ranges:
        if rng.random() >= odds:
            return Ranges()
        starts = [rng.randrange(most) for _ in range(rng.randrange(1, 4))]
        return Ranges.of((start, start + rng.randrange(3)) for start in starts)

    rules = [
        MatchRule(
            rng.choice(levels).name,
            sources=some(0.4),
            destinations=some(0.4),
            service_ids=ranges(0.6, 20),
            qos_classes=ranges(0.3, 8),
            pkeys=rng.choice((Ranges(), Ranges(), Ranges(((1, 1),)), Ranges(((0x7FFF, 0x7FFF),)))),
        )
        for _ in range(8)
    ]
    ulps = (
        UlpRule(Ulp.ANY, rng.randrange(8), UlpKey.SERVICE_ID, ranges(1, 20)),
        UlpRule(Ulp.SDP, rng.randrange(8), UlpKey.PORT_NUM, ranges(1, 20)),
        UlpRule(
            Ulp.ANY, rng.randrange(8), UlpKey.SOURCE_TARGET_PORT_GUID, Ranges.of((g, g) for g in rng.sample(guids, 2))
        ),
    )
    return Policy(tuple(groups), levels=tuple(levels), rules=tuple(rules), ulps=ulps, default_level="DEFAULT")


def random_query(rng: random.Random) -> Query:
    source, destination = rng.sample(list(HOSTS), 2)
    service_id = rng.choice((None, rng.randrange(24), rng.randrange(24), 0x10000 + rng.randrange(24)))
    return Query(
        source, destination, service_id, rng.choice((None, rng.randrange(10))),
        rng.choice((None, None, 0x8001, 0xFFFF)), rng.choice((None, None, None, rng.randrange(8))),
    )  # fmt: skip


def ours(policy: Policy, queries: list[Query]) -> list[Seen]:
    fabric = opensm_peer.fabric()
    records = PathRecords(policy, fabric)
    answers = [records.query(query.request(fabric)) for query in queries]
    return [(a.sl, mtu_code(a.mtu), rate_code(a.rate)) if isinstance(a, Found) else None for a in answers]


def theirs(answers: opensm_peer.Answers) -> list[Seen]:
    assert answers.taken, "OpenSM refused the policy"
    code = 0x3F  # below it the selector's two bits
    return [
        None if a is None else (int(a["sl"], 16), int(a["mtu"], 16) & code, int(a["rate"], 16) & code)
        for a in answers.found
    ]


def assert_equal(policies: list[str], queries: list[list[Query]]) -> None:
    asked = opensm_peer.ask(list(zip(policies, queries, strict=True)))
    for policy, some, answers in zip(policies, queries, asked, strict=True):
        expected = theirs(answers)
        for query, one, other in zip(some, ours(load(policy.encode(), "policy"), some), expected, strict=True):
            assert one == other, (query, policy)
        assert len({*expected}) > 1  # queries that all get one answer would compare nothing


def test_a_policy_by_hand_gives_the_same_answers() -> None:
    pairs = [(one, other) for one in HOSTS for other in HOSTS if one != other]
    queries = [Query(one, other, service_id=3) for one, other in pairs]
    queries += [Query(one, other, pkey=0x8001) for one, other in pairs]
    queries += [Query("h2", "h1", 0x1000000000005), Query("h2", "h4", qos_class=8), Query("h2", "h4", qos_class=10)]
    queries += [
        Query("h2", "h4", service_id) for service_id in (0x10000 + 15000, 0x10001, 0x10648CA, 0x1060CBC, 0x6234)
    ]
    queries += [Query("h1", "h2"), Query("h4", "h1"), Query("h1", "h4", sl=0), Query("h1", "h4", sl=3)]
    queries += [Query("h2", "h4", qos_class=8, pkey=0x8001)]
    assert_equal([BY_HAND], [queries])


def test_random_policies_give_the_same_answers() -> None:
    rng = random.Random(17)
    policies = [write(random_policy(rng), BLOCK, Problems()) for _ in range(4)]
    assert_equal(policies, [[random_query(rng) for _ in range(40)] for _ in policies])


def test_an_sl_that_is_mapped_to_vl15_is_found_by_neither() -> None:
    vls = (0, 1, 2, 15, 4, 5, 6, 7, *range(7), 0)
    table = ",".join(map(str, vls))
    options = f"qos_max_vls 15\nqos_sl2vl {table}\n"
    queries = [Query("h2", "h1", service_id=number) for number in range(2, 5)]
    levels = "".join(f"qos-level\nname: l{n}\nsl: {n}\nend-qos-level\n" for n in range(2, 5))
    rules = "".join(f"qos-match-rule\nservice-id: {n}\nqos-level-name: l{n}\nend-qos-match-rule\n" for n in range(2, 5))
    text = f"{LEVELS}qos-levels\n{levels}end-qos-levels\nqos-match-rules\n{rules}end-qos-match-rules\n"
    (answers,) = opensm_peer.ask([(text, queries)], options)
    policy = load(text.encode(), "policy")
    everything = PortGroup("all", node_types=(NodeType.ALL,))
    ported = Policy(
        (everything,), (Sl2VlScope(vls, ("all",)),), (), policy.levels, policy.rules, (), policy.default_level
    )
    expected = [(2, 4, 2), None, (4, 4, 2)]
    assert ours(ported, queries) == expected
    assert theirs(answers) == expected


def one_rule(criterion: str, level: str = "fast", before: str = "") -> str:
    rule = f"qos-match-rule\n{criterion}\nqos-level-name: {level}\nend-qos-match-rule\n"
    return f"{before}{LEVELS}qos-match-rules\n{rule}end-qos-match-rules\n"


REFUSED = {  # by Xoff; whether OpenSM refuses it, too
    "SL 16": (LEVELS.replace("sl: 3", "sl: 16"), False),
    "no such level": (one_rule("service-id: 1", "nothing"), True),
    "MTU code 6": (LEVELS.replace("mtu-limit: 2", "mtu-limit: 6"), True),
    "not ended": (LEVELS.replace("end-qos-levels", ""), True),
    "reversed range": (one_rule("service-id: 5-1"), False),
    "QoS class of 13 bits": (one_rule("qos-class: 0x1008"), False),
}


@pytest.mark.parametrize(("text", "both"), REFUSED.values(), ids=REFUSED)
def test_what_xoff_refuses_opensm_refuses_but_for_some_numbers(text: str, both: bool) -> None:
    assert not read(text.encode()).ok
    (answers,) = opensm_peer.ask([(text, [])])
    assert answers.taken is not both


def test_opensm_swaps_the_ends_of_a_range_and_takes_classes_that_no_request_can_have() -> None:
    queries = [Query("h2", "h1", 3), Query("h2", "h1", 6)]
    reversed_range, wide_class = opensm_peer.ask(
        [(one_rule("service-id: 5-1"), queries), (one_rule("qos-class: 0x1008"), [Query("h2", "h1", qos_class=8)])]
    )
    assert [found and found[0] for found in theirs(reversed_range)] == [5, 0]
    assert [found and found[0] for found in theirs(wide_class)] == [0]


@pytest.mark.parametrize("section", ["qos-ulps", "port-groups"])
def test_opensm_refuses_an_empty_section_that_xoff_warns_of(section: str) -> None:
    text = f"{LEVELS}{section}\nend-{section}\n"
    reading = read(text.encode())
    assert reading.ok
    assert f"{section} is empty, and OpenSM refuses such a policy" in [one.message for one in reading.problems.warnings]
    (answers,) = opensm_peer.ask([(text, [])])
    assert not answers.taken


def test_a_port_name_that_nothing_has_is_a_warning_here_and_nothing_to_opensm() -> None:
    group = "port-groups\nport-group\nname: x\nport-name: h9/P1\nend-port-group\nend-port-groups\n"
    text = one_rule("source: x", before=group)
    policy, queries = load(text.encode(), "policy"), [Query("h2", "h1", 3)]
    assert "port group 'x' names port name 'h9/P1'; the fabric has no such port" in [
        finding.message for finding in setup(policy, opensm_peer.fabric()).findings
    ]
    (answers,) = opensm_peer.ask([(text, queries)])
    assert answers.taken and theirs(answers) == ours(policy, queries) == [(0, 4, 2)]


def test_without_a_p_key_in_the_query_opensm_answers_the_lowest_common_one_and_xoff_the_default_partition() -> None:
    policy, fabric = load(LEVELS.encode(), "policy"), opensm_peer.fabric()
    queries = [Query("h2", "h1"), Query("h2", "h4")]  # the first pair has partition 1 in common, too
    (answers,) = opensm_peer.ask([(LEVELS, queries)])
    assert [int(found["pkey"], 16) for found in answers.found if found] == [0x8001, 0xFFFF]
    records = PathRecords(policy, fabric)
    answered = [records.query(query.request(fabric)) for query in queries]
    assert [isinstance(one, Found) and one.pkey for one in answered] == [0xFFFF, 0xFFFF]


STOPPED = """
import json, os, signal, sys, tempfile, threading
from pathlib import Path
import opensm_driver
job = json.load(sys.stdin)
((policy, (query,)),) = [(case["policy"], case["queries"]) for case in job["cases"]]
with tempfile.TemporaryDirectory() as folder, opensm_driver.Opensm(Path(folder), job) as opensm:
    opensm.load(policy)
    child = opensm._children["opensm"]
    os.kill(child.pid, signal.SIGSTOP)
    if sys.argv[1] == "goes on":
        threading.Timer(1.3, child.send_signal, [signal.SIGCONT]).start()  # after the first time-out of saquery
    elif sys.argv[1] == "ends":
        child.kill()
        child.wait()
    else:
        opensm_driver.PATIENCE_S = 0.5
    try:
        found = [opensm.query(query), opensm.query([*query, "--pkey=0x8777"])]
    finally:
        if child.poll() is None:
            os.kill(child.pid, signal.SIGCONT)
print(json.dumps([found[0] and found[0]["sl"], found[1]]))
"""


def stopped(what: str) -> subprocess.CompletedProcess[str]:
    """Make two queries while OpenSM does not answer: one that it would find, and one that it would not."""
    job = opensm_peer.job([(LEVELS, [Query("h2", "h1")])])
    return subprocess.run(
        [*opensm_peer.namespace(), sys.executable, "-c", STOPPED, what], cwd=opensm_peer.DRIVER.parent,
        input=json.dumps(job), capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


def test_a_query_without_an_answer_is_repeated_and_never_taken_for_no_path() -> None:
    done = stopped("goes on")
    assert (done.stdout.strip(), done.returncode) == ('["0x0", null]', 0), done.stderr


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("stays stopped", r"OpenSM did not answer 1 times in 0.5 s: --sgid=\S+ --dgid=\S+: "),
        ("ends", "opensm has ended with -9: "),
    ],
)
def test_opensm_that_never_answers_ends_the_driver_with_its_reason(what: str, reason: str) -> None:
    done = stopped(what)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.search(reason, done.stderr), done.stderr
