"""VPNs and policies in a router's kernel: in whatever order they come and go, and whatever the kernel refuses."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from ipaddress import IPv6Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import UsageError
from testbed.linux.netlink.messages import Message, NetlinkError
from testbed.subjects.srv6.agent import kernel_sr
from testbed.subjects.srv6.agent.kernel_sr import KernelSr
from testbed.subjects.srv6.protocol import behaviours
from testbed.subjects.srv6.session.intents import Key, PolicyIntent, Site, VpnIntent
from testbed.subjects.srv6.session.messages import Item, ItemKey, PolicyItem, VpnItem
from tests.unit.subjects.srv6.srv6_kernel import DELETE_LINK, DELETE_ROUTE, NEW_LINK, Bound, Encap, Kernel, wanted

INTERFACES = {"eth0": 11, "eth1": 12, "eth2": 13, "eth3": 14, "wan": 15, "wan2": 16}
OUT = INTERFACES["wan"]
WAYS = (OUT, INTERFACES["wan2"])
TO_R3 = Key("R1", 100, "R3")
SEGMENTS = tuple(IPv6Address(f"fd00:a:{n}:1::") for n in range(1, 4))
SID = {"red": IPv6Address("fd00:a:1:d1::"), "blue": IPv6Address("fd00:a:1:d2::")}
BINDING = IPv6Address("fd00:a:1:b1::")


@dataclass
class Router:
    """The router R1: its kernel, and the items that are installed, as an agent keeps them."""

    kernel: Kernel = field(default_factory=lambda: Kernel(INTERFACES))
    installed: dict[ItemKey, Item] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sr = KernelSr("R1", INTERFACES, WAYS, self.kernel.send)

    def install(self, *items: PolicyItem | VpnItem) -> None:
        for item in items:
            self.sr.install(item, self.installed)
            self.installed[item.identity] = item

    def remove(self, *items: PolicyItem | VpnItem) -> None:
        for item in items:
            self.sr.remove(item, self.installed)
            self.installed.pop(item.identity, None)

    def check(self) -> None:
        assert self.kernel.state() == wanted("R1", INTERFACES, WAYS, self.installed)
        assert set(self.sr.tables) == {vpn.intent.name for vpn in self.installed.values() if isinstance(vpn, VpnItem)}


def vpn(name: str = "red", *interfaces: str, prefixes: tuple[str, ...] = ("10.3.0.0/16",), **more: object) -> VpnItem:
    sid = more.pop("sid", SID.get(name, IPv6Address("fd00:a:1:d9::")))
    sites = (
        Site("R1", interfaces, (ip_network("10.1.0.0/16"),), sid),  # type: ignore[arg-type]
        Site("R3", ("x",), tuple(map(ip_network, prefixes)), IPv6Address("fd00:a:3:d1::")),
        Site("R4", ("x",), (ip_network("10.4.0.0/16"), ip_network("fd00:4::/32")), IPv6Address("fd00:a:4:d1::")),
    )
    return VpnItem(VpnIntent(name, **{"colour": 100, "sites": sites, **more}), "R1")  # type: ignore[arg-type]


def policy(
    key: Key = TO_R3,
    segments: tuple[IPv6Address, ...] = SEGMENTS,
    name: str | None = None,
    binding: IPv6Address | None = None,
) -> PolicyItem:
    return PolicyItem(PolicyIntent(key, vpn=name, binding_sid=binding), segments)


def test_a_vpn_is_a_vrf_and_its_routes_go_by_the_policies_of_its_colour() -> None:
    router = Router()
    router.install(vpn("red", "eth0", "eth1"), policy())
    assert router.kernel.state() == {
        "red": {
            "members": {11, 12},
            "routes": {
                "10.3.0.0/16": Encap(SEGMENTS, OUT),
                "10.4.0.0/16": None,
                "fd00:4::/32": None,
                "fd00:4::/32 metric 1025": None,
            },
            "last": {"0.0.0.0/0", "::/0"},
        },
        "fd00:a:1:d1::": ("End.DT46", "red"),
    }


def test_ipv6_of_a_vpn_goes_into_the_list_by_each_interface_to_another_router() -> None:
    """The kernel passes over a route of IPv6 whose interface has no carrier; IPv4's it does not."""
    router = Router()
    router.install(vpn("red", "eth0"), policy(Key("R1", 100, "R4")))
    assert router.kernel.state()["red"]["routes"] == {
        "10.3.0.0/16": None,
        "10.4.0.0/16": Encap(SEGMENTS, WAYS[0]),
        "fd00:4::/32": Encap(SEGMENTS, WAYS[0]),
        "fd00:4::/32 metric 1025": Encap(SEGMENTS, WAYS[1]),
    }


def test_a_policy_that_has_no_path_leaves_its_routes_unreachable() -> None:
    router = Router()
    router.install(policy(), vpn("red", "eth0"), policy(segments=()))
    assert router.kernel.state()["red"]["routes"]["10.3.0.0/16"] is None


def test_a_policy_of_one_vpn_carries_no_other_of_its_colour() -> None:
    router = Router()
    router.install(vpn("red", "eth0"), vpn("blue", "eth1"), policy(name="blue"))
    state = router.kernel.state()
    assert state["red"]["routes"]["10.3.0.0/16"] is None
    assert state["blue"]["routes"]["10.3.0.0/16"] == Encap(SEGMENTS, OUT)


def test_a_binding_sid_follows_its_policy_and_drops_while_there_is_no_path() -> None:
    """There is a route by each interface to another router: while one has no carrier, the kernel passes its routes
    over.
    """
    router = Router()
    for segments in (SEGMENTS, SEGMENTS[:1], (), SEGMENTS):
        router.install(policy(segments=segments, binding=BINDING))
        bound = {1024: Bound(segments, 15), 1025: Bound(segments, 16)} if segments else {1024: None, 1025: None}
        assert router.kernel.state() == {str(BINDING): bound}
    other = IPv6Address("fd00:a:1:b2::")
    router.install(policy(binding=other))
    assert list(router.kernel.state()) == [str(other)]
    router.remove(policy(binding=other))
    assert router.kernel.routes == {}


def test_a_binding_sid_that_another_policy_or_vpn_has_by_now_stays_with_it() -> None:
    """A controller may install the one before it removes the other."""
    for later in (policy(Key("R1", 200, "R4"), SEGMENTS[1:], binding=BINDING), vpn("red", "eth0", sid=BINDING)):
        router, first = Router(), policy(binding=BINDING)
        router.install(first, later)
        router.check()
        router.remove(first)
        router.check()
        router.install(first)
        router.remove(later)
        router.check()


@pytest.mark.parametrize("segments", [SEGMENTS[1:], SEGMENTS[:1], ()])
def test_a_binding_sid_that_the_kernel_refuses_leaves_the_one_before(segments: tuple[IPv6Address, ...]) -> None:
    router, refused = Router(), list[str]()
    router.install(policy(binding=BINDING))

    def refuses(message: Message) -> bool:
        if not refused and str(BINDING) in message.what:
            refused.append(message.what)
            return True
        return False

    router.kernel.refuses = refuses
    with pytest.raises(NetlinkError) as error:
        router.install(policy(segments=segments, binding=BINDING))
    assert str(error.value) == f"{refused[0]}: Operation not permitted"
    router.check()
    refused.clear()
    with pytest.raises(NetlinkError, match=f"removing the route to {BINDING}/128: Operation not permitted"):
        router.remove(policy(binding=BINDING))
    router.check()


def test_a_table_that_is_used_again_has_no_route_of_its_last_vpn() -> None:
    router = Router()
    router.install(vpn("red", "eth0", prefixes=("10.3.0.0/16", "10.33.0.0/16")), policy())
    before = dict(router.sr.tables)
    router.remove(vpn("red", "eth0"))
    assert router.kernel.routes == {} and router.kernel.masters == {} and router.kernel.vrfs == {}
    router.install(vpn("blue", "eth0"))
    assert list(router.sr.tables.values()) == list(before.values())
    router.check()


@pytest.mark.slow
def test_tables_of_the_kernels_own_are_never_taken() -> None:
    router = Router()
    for number in range(300):
        router.install(vpn(f"v{number}", sid=IPv6Address(f"fd00:a:1:{0x1000 + number:x}::")))
    assert not {0, 253, 254, 255} & set(router.sr.tables.values())
    assert len(set(router.sr.tables.values())) == 300


def test_an_interface_and_a_sid_that_another_vpn_has_by_now_stay_with_it() -> None:
    """A controller may install the one before it removes the other."""
    router, red, blue = Router(), vpn("red", "eth0", "eth1"), vpn("blue", "eth0", "eth2", sid=SID["red"])
    router.install(red, blue)
    router.remove(red)
    router.check()
    other = Router()
    other.install(red, blue, vpn("red", "eth1", sid=IPv6Address("fd00:a:1:d5::")))
    other.check()


def test_what_another_vpn_would_have_taken_over_goes_back_if_it_is_refused() -> None:
    router, red = Router(), vpn("red", "eth0", "eth1")
    router.install(red)
    router.kernel.refuses = lambda message: message.what == "moving interface 13 to VRF 11001"
    with pytest.raises(NetlinkError):
        router.install(vpn("blue", "eth0", "eth2", sid=SID["red"]))
    router.check()


def test_a_successor_goes_on_with_the_tables_of_its_predecessor() -> None:
    router = Router()
    router.install(vpn("red", "eth0"), vpn("blue", "eth1"))
    router.sr = KernelSr("R1", INTERFACES, WAYS, router.kernel.send, router.sr.tables)
    router.install(policy())
    router.remove(vpn("red", "eth0"))
    router.install(vpn("blue", "eth1", "eth2"), vpn("green", "eth3"))
    router.check()


def test_a_vrf_of_a_predecessor_that_died_before_it_noted_it_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    router = Router()
    router.install(vpn("blue", "eth0"))
    router.sr.install(vpn("red", "eth1"), router.installed)
    red = next(index for index, (name, _) in router.kernel.vrfs.items() if name == "red")
    router.sr = KernelSr("R1", INTERFACES, WAYS, router.kernel.send, {"blue": router.sr.tables["blue"]})
    monkeypatch.setattr(kernel_sr, "_interface", lambda name: red if name == "red" else 0)
    router.install(vpn("red", "eth2"))
    router.check()


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (
            lambda: vpn("a-name-of-16-cha", "eth0"),
            "VPN a-name-of-16-cha is too long for the name of a VRF in Linux; at most 15 characters",
        ),
        (lambda: vpn("lo", "eth0"), "VPN lo cannot be a VRF of R1, which has an interface of that name"),
        (lambda: vpn("red", "eth9"), "R1 has no interface eth9; it has eth0, eth1, eth2, eth3, wan, wan2"),
        (lambda: vpn("red", "eth0", sid=None), "VPN red has no SID at R1"),
    ],
    ids=["long name", "taken name", "unknown interface", "no SID"],
)
def test_what_cannot_be_is_refused_in_one_line_and_changes_nothing(wrong: Callable[[], VpnItem], text: str) -> None:
    router = Router()
    with pytest.raises(UsageError) as refused:
        router.install(wrong())
    assert str(refused.value) == text
    assert (router.kernel.said, router.sr.tables) == ([], {})


def test_a_vpn_whose_new_form_is_refused_keeps_the_old_one() -> None:
    router = Router()
    router.install(vpn("red", "eth0"))
    count = len(router.kernel.said)
    with pytest.raises(UsageError, match="R1 has no interface eth9"):
        router.install(vpn("red", "eth0", "eth9"))
    assert len(router.kernel.said) == count
    router.check()


def test_the_kernels_words_are_the_reason_also_when_nothing_can_be_put_back() -> None:
    router = Router()
    router.install(vpn("red", "eth0"))
    router.kernel.refuses = lambda message: "interface 12" in message.what
    with pytest.raises(NetlinkError) as refused:
        router.install(vpn("red", "eth0", "eth1"))
    assert str(refused.value) == (
        "moving interface 12 to VRF 11000: Operation not permitted; restoring the state before failed too: "
        "moving interface 12 to VRF 0: Operation not permitted"
    )


def test_what_the_name_of_an_interface_is_asked_of_the_system() -> None:
    assert kernel_sr._interface("lo") == socket.if_nametoindex("lo")
    assert kernel_sr._interface("no-such-thing") == 0


# Any order

_prefixes = st.sets(st.sampled_from(["10.3.0.0/16", "10.33.0.0/16", "0.0.0.0/0", "fd00:3::/32"]), min_size=1)
_segments = st.sampled_from([(), SEGMENTS[:1], SEGMENTS])


@st.composite
def _vpns(draw: st.DrawFn) -> VpnItem:
    name = draw(st.sampled_from(["red", "blue"]))
    own = ("eth0", "eth1") if name == "red" else ("eth2", "eth3")
    item = vpn(
        name,
        *sorted(draw(st.sets(st.sampled_from(own)))),
        prefixes=tuple(sorted(draw(_prefixes))),
        colour=draw(st.sampled_from([100, 200])),
        sid=draw(st.sampled_from([SID[name], IPv6Address(int(SID[name]) + (16 << 64))])),
    )
    v4 = all(prefix.version == 4 for prefix, _ in item.intent.routes("R1"))
    return (
        replace(item, intent=replace(item.intent, behaviour=behaviours.END_DT4)) if v4 and draw(st.booleans()) else item
    )


_policies = st.builds(
    policy,
    st.builds(Key, st.just("R1"), st.sampled_from([100, 200]), st.sampled_from(["R3", "R4"])),
    _segments,
    st.sampled_from([None, "red", "blue"]),
    st.sampled_from([None, BINDING, SID["red"]]),
)
_steps = st.lists(
    st.tuples(st.one_of(_vpns(), _policies), st.booleans(), st.one_of(st.none(), st.integers(0, 12))), max_size=12
)


@pytest.mark.slow
@given(_steps)
def test_in_any_order_and_whatever_is_refused_the_kernel_has_what_is_installed(
    steps: list[tuple[PolicyItem | VpnItem, bool, int | None]],
) -> None:
    router = Router()
    for item, installs, refused_at in steps:
        start = len(router.kernel.said)

        def refuses(message: Message, at: int | None = refused_at, start: int = start) -> bool:
            """Refuse one request: the kernel does not refuse to undo what it has just done."""
            return at is not None and len(router.kernel.said) == start + at + 1

        router.kernel.refuses = refuses
        before = router.kernel.state()
        try:
            (router.install if installs else router.remove)(item)
        except NetlinkError as error:
            assert refused_at is not None and "does not come back" not in str(error)
            assert router.kernel.state() == before
        router.check()


@pytest.mark.slow
@given(_steps)
def test_a_vpn_that_changes_keeps_what_stays(steps: list[tuple[PolicyItem | VpnItem, bool, int | None]]) -> None:
    """Nothing of a VPN that is replaced is taken away and put back: packets go on meanwhile."""
    router = Router()
    for item, _, _ in steps:
        old, start = router.installed.get(item.identity), len(router.kernel.said)
        router.install(item)
        if not isinstance(item, VpnItem) or not isinstance(old, VpnItem):
            continue
        said = router.kernel.said[start:]
        gone = {message.what for message in said if message.kind in (DELETE_LINK, DELETE_ROUTE)}
        kept = {f"removing the route to {prefix}" for prefix, _ in item.intent.routes("R1")}
        assert not gone & kept
        site, before = item.intent.site("R1"), old.intent.site("R1")
        assert site and before
        moved = {message.what for message in said if message.kind == NEW_LINK}
        assert len(moved) == len(set(site.interfaces) ^ set(before.interfaces))
