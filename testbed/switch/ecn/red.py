"""Parameters of Linux RED that give the marking of an `EcnCurve` on the wire (decision 0139).

The kernel's part, as net/sched/sch_red.c and include/net/red.h of 6.12 have it:

- It has one slope: a whole number s of 2^-32 per byte, max_P / (qth_max - qth_min) rounded down, at least 1. With d
  bytes of queue above qth_min it draws qR once, evenly from 0 to 2^32 / s, and picks the n-th packet since then as soon
  as n x d >= qR. So the distance to the next pick is even over 1 to 1/p, with p = s x d / 2^32: (1/p + 1) / 2 packets
  in the mean. At a constant queue the share picked is 2p / (1 + p), near to twice the configured p.
- That is a bent line. No slope makes it the straight one of the curve; `red_parameters` takes the slope whose largest
  distance from it, above or below, is least. `RedParameters.expected_fraction` is what then comes out, exactly.
- Wlog 0 makes the average the queue itself: the kernel's check admits it, the tc command does not offer it.
- When RED's child gives nothing to a dequeue the kernel takes the queue for idle, and the next packet meets the last
  average, aged by a table (stab), instead of the queue. `FORGET` ages it to zero at once: right where nothing means
  empty. But a child that is plugged, which is how we pause, gives nothing either, while packets go on to arrive. So
  RED's parent is a tbf: it dequeues only what a peek has shown, RED passes a peek on to its child, and is never idle
  (decision 0305). `HOLD` is for what is left, a plug without netem before it in kernels before 7: it keeps the last
  average, and packets are picked by the queue at the pause's beginning.
- Flags: ECN, and NODROP for keep_not_ect; never HARDDROP, which drops above qth_max instead of marking. NODROP does
  not go into tc_red_qopt.flags, so all of them travel in an attribute of their own.
- The limit makes RED create a FIFO of its own. With a plug below RED the plug has to enforce it and RED has to have
  0: any other number puts a new FIFO in the plug's place with each change of RED's settings.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from testbed.switch.ecn.curve import LONGEST_QUEUE, EcnCurve, EcnError
from testbed.units import Size

# linux/pkt_sched.h
TCA_RED_PARMS, TCA_RED_STAB, TCA_RED_MAX_P, TCA_RED_FLAGS = 1, 2, 3, 4
TC_RED_ECN, TC_RED_HARDDROP, TC_RED_ADAPTATIVE, TC_RED_NODROP = 1, 2, 4, 8
_QOPT = struct.Struct("=IIIBBBB")  # struct tc_red_qopt
_ALL_FLAGS = TC_RED_ECN | TC_RED_HARDDROP | TC_RED_ADAPTATIVE | TC_RED_NODROP

FORGET = bytes([31]) * 256
"""The stab that makes any average 0: 31 is the largest shift that the kernel admits."""
HOLD = bytes(1) + FORGET[1:]
"""The stab that wears an average down evenly, to half in half a cell of idle time, and clears it after a whole one."""
HOLD_SCELL_LOG = 23
"""The logarithm of a cell of 8.4 s, so that a pause of 335 ms, the longest at 100 Mb/s, wears off 4 %."""

_ONE = 2**32  # of max_P, and of the kernel's random numbers
_POINTS = 64
# The slope is a whole number; from here on rounding moves the marking by a tenth at most.
_LEAST_SLOPE = 5


@dataclass(frozen=True)
class RedParameters:
    """One RED qdisc's settings as the kernel takes them; sizes in bytes."""

    limit: int  # 0: the plug below has a limit of its own
    qth_min: int
    qth_max: int
    max_p: int  # in 2^-32
    flags: int = TC_RED_ECN
    wlog: int = 0
    scell_log: int = 0
    stab: bytes = FORGET

    def __post_init__(self) -> None:
        """Refuse what the kernel answers with a bare EINVAL, or takes for something else."""
        for name in ("qth_min", "qth_max"):
            value = getattr(self, name)
            if value < 0 or value.bit_length() + self.wlog > 31:
                raise EcnError(f"{name} is {value} with Wlog {self.wlog}; Linux takes up to {2**31 - 1} >> Wlog")
        if self.qth_min > self.qth_max:
            raise EcnError(f"qth_min is {self.qth_min} and qth_max {self.qth_max}; qth_min cannot be the larger")
        if not 0 <= self.limit <= LONGEST_QUEUE.bytes:
            raise EcnError(f"limit is {self.limit}; it is 0 (the plug below has one) to {LONGEST_QUEUE.bytes}")
        if not 1 <= self.max_p < _ONE:
            raise EcnError(f"max_P is {self.max_p}; it is 1 to {_ONE - 1}, and 0 would mean that Plog is used")
        if not 0 <= self.flags <= _ALL_FLAGS or self.flags & (TC_RED_ECN | TC_RED_NODROP) == TC_RED_NODROP:
            raise EcnError(f"flags are {self.flags}; they are sums of 1, 2, 4 and 8, and NODROP (8) needs ECN (1)")
        if not 0 <= self.scell_log <= 31 or len(self.stab) != 256 or max(self.stab) > 31:
            raise EcnError("Scell_log and the 256 numbers of stab are 0 to 31")

    @property
    def slope(self) -> int:
        """The kernel's s: the probability that one more byte of queue adds, in 2^-32."""
        return max(1, self.max_p // max(1, self.qth_max - self.qth_min))

    @property
    def plog(self) -> int:
        """The slope as a power of two, rounded; the kernel stores it, shows it, and goes by max_P."""
        return 32 - self.slope.bit_length()

    def expected_fraction(self, queue: int) -> Fraction:
        """Return the share of packets that RED picks in the long run while so many bytes wait: exact."""
        if queue < self.qth_min:
            return Fraction(0)
        if queue >= self.qth_max:
            return Fraction(1)
        return _picked(self.slope, queue - self.qth_min)

    def qopt(self) -> bytes:
        """Return struct tc_red_qopt, in this machine's byte order as netlink has it; flags are in their attribute."""
        return _QOPT.pack(self.limit, self.qth_min, self.qth_max, self.wlog, self.plog, self.scell_log, 0)

    def attributes(self) -> tuple[tuple[int, bytes], ...]:
        """Return the content of TCA_OPTIONS: each attribute's type and content. Flags not named in it are cleared."""
        return (
            (TCA_RED_PARMS, self.qopt()),
            (TCA_RED_STAB, self.stab),
            (TCA_RED_MAX_P, struct.pack("=I", self.max_p)),
            (TCA_RED_FLAGS, struct.pack("=II", self.flags, _ALL_FLAGS)),
        )


def red_parameters(curve: EcnCurve, *, plug_below: bool = False, arriving: Size = Size("0B")) -> RedParameters:
    """Return the parameters that make Linux follow the curve.

    With `plug_below` the caller puts a plug below RED, gives it the curve's limit, and has a tbf above.
    Linux measures the queue before the arriving packet is added. A curve that is meant for the queue with it needs the
    size of that packet: `arriving` is taken off both thresholds, which is exact for packets of this size.
    """
    if arriving > curve.kmin:
        raise EcnError(
            f"kmin is {curve.kmin} with the arriving packet counted, and that packet has {arriving}: "
            f"Linux does not count it and has no threshold below 0; set kmin to {arriving} or more"
        )
    kmin, kmax = (curve.kmin - arriving).bytes, (curve.kmax - arriving).bytes
    max_p = _slope(curve, kmax - kmin) * max(1, kmax - kmin)
    flags = TC_RED_ECN | (TC_RED_NODROP if curve.keep_not_ect else 0)
    if plug_below:
        return RedParameters(0, kmin, kmax, max_p, flags, scell_log=HOLD_SCELL_LOG, stab=HOLD)
    return RedParameters((curve.limit or LONGEST_QUEUE).bytes, kmin, kmax, max_p, flags)


@lru_cache(maxsize=256)
def _slope(curve: EcnCurve, width: int) -> int:
    """Return the slope whose largest distance from the curve is least, judged at 64 lengths of the queue."""
    if width <= 1:
        return 1  # no length is above the lower limit and below the upper one
    lengths = sorted({max(1, width * point // _POINTS) for point in range(1, _POINTS)} | {width - 1})
    wanted = {above: curve.pmax * Fraction(above, width) for above in lengths}

    def too_much(slope: int) -> Fraction:
        return max(_picked(slope, above) - share for above, share in wanted.items())

    def too_little(slope: int) -> Fraction:
        return max(share - _picked(slope, above) for above, share in wanted.items())

    # A steeper slope picks more at every length: the best is where "too much" overtakes "too little", or one before.
    low, high = 1, (_ONE - 1) // width
    while low < high:
        middle = (low + high) // 2
        if too_much(middle) < too_little(middle):
            low = middle + 1
        else:
            high = middle
    best = min((max(1, low - 1), low), key=lambda slope: max(too_much(slope), too_little(slope)))
    if best < _LEAST_SLOPE:
        widest = Size.from_bytes(int(curve.pmax * _ONE) // (2 * _LEAST_SLOPE))
        raise EcnError(
            f"pmax is {curve.pmax} from kmin {curve.kmin} to kmax {curve.kmax}: Linux RED cannot rise so slowly with "
            f"the queue; raise pmax, or bring kmax to at most {widest} above kmin"
        )
    return best


def _picked(slope: int, above: int) -> Fraction:
    """Return one over the mean distance between picks.

    The distance exceeds n if the random number r of 32 bits has r // slope > n x above; summed over n, that is the
    mean. `last` is the largest n for which it can.
    """
    if above == 0:
        return Fraction(0)  # a drawn 0 is picked at once; any other number waits for ever
    last = ((_ONE - 1) // slope - 1) // above
    total = _ONE + last * (_ONE - slope) - slope * above * (last * (last + 1) // 2)
    return Fraction(_ONE, total)
