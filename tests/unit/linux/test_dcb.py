"""DCB settings of a NIC, with the stand-in for a driver that lldpad works with in the tests with the lab."""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable

import pytest

from testbed.frames import Mac
from testbed.frames.dcbx.values import AppEntry, DcbxVersion, Ets, Selector, Tsa, mask
from testbed.linux.netlink.dcb import DcbError, DcbNic, NicSettings, NoDcb, in_classes
from testbed.linux.netlink.messages import NetlinkError
from testbed.subjects.dcbx.daemon.nic import Nic
from testbed.subjects.dcbx.negotiation import Peer, negotiate
from testbed.subjects.dcbx.settings import ApplicationAdmin, DcbxSettings, EtsAdmin, PfcAdmin
from testbed.subjects.dcbx.tlvs import DcbxTlvs, Pfc
from tests.dcb_driver import Driver

ADMINISTRATORS = AppEntry(1, Selector.TCP, 80)
"""The setting that the administrator had made before."""
OURS = (AppEntry(3, Selector.ETHERTYPE, 0x8906), AppEntry(5, Selector.DSCP, 46))
TABLE = Ets((0, 0, 0, 1, 0, 0, 0, 2), (60, 40, 0, 0, 0, 0, 0, 0), (2, 2, 0, 2, 2, 2, 2, 2))
MAC = Mac.parse("02:00:00:00:00:0a")


class Kernel:
    """`netlink.Socket.ask` in front of a driver; `refuses` and `codes` have an error for each command."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.refuses: dict[int, int] = {}  # command: error of the request itself
        self.codes: dict[int, int] = {}  # command: what the driver returns
        self.asked: list[int] = []

    def ask(self, kind: int, body: bytes, what: str) -> bytes:
        command = body[1]
        self.asked.append(command)
        if command in self.refuses:
            raise NetlinkError(f"{what}: refused", self.refuses[command])
        if code := self.codes.get(command, 0):
            return body[:4] + _octet(13, 256 - code)
        answer = self.driver.request(struct.pack("=IHHII", 16 + len(body), kind, 1, 1, 0) + body)
        assert answer is not None, "a request that the driver does not know"
        return answer[16:] if answer else body[:4] + _octet(13, 0)


def _octet(kind: int, value: int) -> bytes:
    return struct.pack("=HHBxxx", 5, kind, value)


@pytest.fixture
def driver() -> Driver:
    made = Driver()
    made.ets = bytes([1, 8, 0]) + bytes(range(8)) * 7
    made.pfc = bytes([8, 0b1000_0000, 1, 0]) + bytes(range(132))
    made.applications = {(2, 1, 80)}
    return made


@pytest.fixture
def kernel(driver: Driver) -> Kernel:
    return Kernel(driver)


def everything(driver: Driver) -> tuple[bytes, bytes, set[tuple[int, int, int]]]:
    return driver.ets, driver.pfc, set(driver.applications)


def test_what_a_card_is_set_to_is_read(kernel: Kernel, driver: Driver) -> None:
    assert DcbNic("eth0", kernel.ask).state == NicSettings(driver.ets, driver.pfc, frozenset({ADMINISTRATORS}))


def test_only_what_dcbx_negotiates_is_written(kernel: Kernel, driver: Driver) -> None:
    ets, pfc, _ = everything(driver)
    card = DcbNic("eth0", kernel.ask)
    card.set_ets(TABLE)
    card.set_pfc(mask([3, 4]))
    card.set_applications(OURS)
    bandwidth = bytes(TABLE.bandwidth)
    assert driver.ets == ets[:3] + bandwidth * 2 + bytes(TABLE.tsa or ()) + bytes(TABLE.assignment) + ets[35:]
    assert driver.pfc == pfc[:1] + bytes([0x18]) + pfc[2:]
    assert driver.applications == {(2, 1, 80), (1, 3, 0x8906), (5, 5, 46)}


def test_what_is_there_already_is_not_written_again(kernel: Kernel) -> None:
    card = DcbNic("eth0", kernel.ask)
    for _ in range(2):
        card.set_ets(TABLE)
        card.set_pfc(8)
        card.set_applications(OURS)
    assert kernel.asked.count(20) == 3


def test_an_application_of_ours_takes_the_place_of_one_that_was_there_and_gives_it_back(
    kernel: Kernel, driver: Driver
) -> None:
    card = DcbNic("eth0", kernel.ask)
    card.set_applications((AppEntry(6, ADMINISTRATORS.selector, ADMINISTRATORS.protocol),))
    assert driver.applications == {(2, 6, 80)}
    card.set_applications(())
    assert driver.applications == {(2, 1, 80)}


def test_restoring_leaves_the_card_as_it_was(kernel: Kernel, driver: Driver) -> None:
    before = everything(driver)
    card = DcbNic("eth0", kernel.ask)
    card.set_ets(TABLE)
    card.set_pfc(8)
    card.set_applications(OURS)
    assert everything(driver) != before
    card.restore()
    assert everything(driver) == before


def test_one_part_can_be_as_before_while_others_are_ours(kernel: Kernel, driver: Driver) -> None:
    ets, pfc, _ = everything(driver)
    card = DcbNic("eth0", kernel.ask)
    card.set_ets(TABLE)
    card.set_pfc(8)
    card.set_ets(None)
    assert (driver.ets, driver.pfc_enabled) == (ets, 8)
    card.set_pfc(None)
    assert driver.pfc == pfc


def test_a_driver_without_dcb_is_reported(kernel: Kernel) -> None:
    kernel.refuses = {22: errno.EOPNOTSUPP, 21: errno.EOPNOTSUPP}
    with pytest.raises(NoDcb, match=r"^the driver of eth0 takes no DCB settings$"):
        DcbNic("eth0", kernel.ask)


def test_a_driver_that_has_settings_but_no_modes_will_do(kernel: Kernel, driver: Driver) -> None:
    kernel.refuses = {22: errno.EOPNOTSUPP}
    DcbNic("eth0", kernel.ask).set_pfc(4)
    assert driver.pfc_enabled == 4


def test_a_refusal_names_what_was_refused_and_changes_nothing(kernel: Kernel, driver: Driver) -> None:
    card = DcbNic("eth0", kernel.ask)
    kernel.codes = {20: errno.EINVAL}
    with pytest.raises(DcbError, match=r"^setting PFC of eth0: Invalid argument$"):
        card.set_pfc(4)
    kernel.codes = {}
    card.set_pfc(4)  # is tried again
    assert driver.pfc_enabled == 4


class Modes(Kernel):
    """A NIC whose DCBX mode can be read and set."""

    def __init__(self, driver: Driver, mode: int, can_be_set: bool) -> None:
        super().__init__(driver)
        self.mode, self._can_be_set = mode, can_be_set

    def ask(self, kind: int, body: bytes, what: str) -> bytes:
        if body[1] == 22:
            return body[:4] + _octet(14, self.mode)
        if body[1] == 23:
            if self._can_be_set:
                self.mode = body[-4]
            return body[:4] + _octet(14, not self._can_be_set)
        return super().ask(kind, body, what)


def test_dcbx_is_taken_over_from_firmware_and_given_back(driver: Driver) -> None:
    kernel = Modes(driver, 0x0A, can_be_set=True)
    card = DcbNic("eth0", kernel.ask)
    assert kernel.mode == 0x09
    card.restore()
    assert kernel.mode == 0x0A


def test_firmware_that_keeps_dcbx_is_left_alone(driver: Driver) -> None:
    with pytest.raises(NoDcb, match=r"^the firmware of eth0 runs DCBX itself, and does not hand it over$"):
        DcbNic("eth0", Modes(driver, 0x0A, can_be_set=False).ask)


@pytest.mark.parametrize(
    ("assignment", "bandwidth", "classes", "tsa"),
    [
        ((0, 1, 0, 1, 0, 1, 0, 15), (50, 50), (0, 1, 0, 1, 0, 1, 0, 7), {7: Tsa.STRICT}),
        (
            (0, 15, 13, 14, 0, 1, 0, 15),
            (50, 50),
            (0, 7, 5, 6, 0, 1, 0, 7),
            {7: Tsa.STRICT, 6: Tsa.CBS, 5: Tsa.CBS},
        ),
        ((0, 0, 0, 0, 0, 0, 0, 0), (100,), (0,) * 8, {}),
    ],
)
def test_a_drafts_table_gets_classes_for_what_is_in_no_group(
    assignment: tuple[int, ...], bandwidth: tuple[int, ...], classes: tuple[int, ...], tsa: dict[int, Tsa]
) -> None:
    shares = (*bandwidth, *[0] * (8 - len(bandwidth)))
    made = in_classes(Ets(assignment, shares))
    assert made == Ets(classes, shares, tuple(int(tsa.get(number, Tsa.ETS)) for number in range(8)))


def test_a_drafts_table_without_a_free_class_is_not_applied() -> None:
    assert in_classes(Ets((0, 1, 2, 3, 4, 5, 6, 15), (20, 20, 10, 10, 10, 10, 10, 10))) is None


# The agent's card


def card(kernel: Kernel) -> tuple[Nic, list[str]]:
    said: list[str] = []
    return Nic("eth0", kernel.ask, said.append), said


def state(settings: DcbxSettings, peer: DcbxTlvs | None = None):  # type: ignore[no-untyped-def]
    return negotiate(settings, MAC, None if peer is None else Peer(Mac.parse("02:00:00:00:00:0b"), peer))


def test_the_card_does_what_is_operational_and_what_is_not_run_stays(kernel: Kernel, driver: Driver) -> None:
    ets, _, applications = everything(driver)
    made, said = card(kernel)
    made.apply(state(DcbxSettings(pfc=PfcAdmin(4, willing=True)), DcbxTlvs(pfc=Pfc(8))))
    assert (driver.ets, driver.pfc_enabled, driver.applications) == (ets, 8, applications)
    made.apply(state(DcbxSettings(ets=EtsAdmin(TABLE), applications=ApplicationAdmin(OURS))))
    assert driver.pfc_enabled == 0x80, "a feature that is no longer run is as it was before"
    assert driver.ets_tables["bandwidth"] == list(TABLE.bandwidth)
    assert driver.applications == {(2, 1, 80), (1, 3, 0x8906), (5, 5, 46)}
    assert made.restore()
    assert (driver.ets, driver.applications, said) == (ets, applications, [])


def test_what_a_nic_does_not_support_is_reported_once(kernel: Kernel) -> None:
    made, said = card(kernel)
    kernel.codes = {20: errno.EINVAL}
    full = Ets((0, 1, 2, 3, 4, 5, 6, 15), (20, 20, 10, 10, 10, 10, 10, 10))
    settings = DcbxSettings(
        DcbxVersion.DRAFT,
        ets=EtsAdmin(full),
        pfc=PfcAdmin(4, defense=True, hold=True),
        applications=ApplicationAdmin((AppEntry(1, Selector.OTHER_PORT, 9),)),
        buffer_by_classes=True,
    )
    for _ in range(2):
        made.apply(state(settings, DcbxTlvs(traffic_classes=2)))
    assert said == [
        "ETS is not applied to the NIC: it has no class left for strict priorities or AVB",
        "setting PFC of eth0: Invalid argument",
        "application entries for protocols beside TCP and UDP are not applied: NICs have no such setting",
        "defenses are announced but not applied: NICs have no setting for them",
        "hold is not applied: NICs have no setting that stops a priority",
        "buffer_by_classes is not applied: what a NIC reserves is its driver's",
    ]
    assert made.refusals == 2


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (lambda kernel: kernel.refuses.update({21: errno.EOPNOTSUPP}), "the driver of eth0 takes no DCB settings: "),
        (
            lambda kernel: kernel.refuses.update({21: errno.EPERM}),
            "reading DCB settings of eth0: refused: ",
        ),
    ],
)
def test_without_dcb_support_what_still_works_is_reported_at_once(
    kernel: Kernel, spoil: Callable[[Kernel], None], text: str
) -> None:
    kernel.refuses = {22: errno.EOPNOTSUPP}
    spoil(kernel)
    made, said = card(kernel)
    made.apply(state(DcbxSettings(pfc=PfcAdmin(4))))
    assert len(said) == 1
    assert said[0].startswith(text)
    assert said[0].endswith("negotiated settings are shown but not applied")
    assert not made.restore()
