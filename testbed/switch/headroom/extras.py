"""The parts of a link beside cable and interfaces: FEC, MACsec and optical modules, as terms of the headroom.

Each has two sizes, like the headroom itself. *Least* is what cannot be avoided:

- FEC: a receiver has a codeword only when its last bit is there. RS(528,514) and RS(544,514) of IEEE 802.3 clauses 91,
  108 and 134 carry 80 blocks of 64 bits in a codeword, the (2112,2080) code of clause 74 carries 32; clause 119
  interleaves two codewords (200 and 400 Gb/s), and 800 Gb/s has two such flows.
- MACsec: nothing; a station may work while bits pass.
- A module: what its data sheet says. No standard limits it. One without a DSP takes next to nothing, a coherent one
  microseconds; so there is no default but 0.

*Most* is what the standards allow: for FEC the delay constraints of clause 74 (10, 40 and 100 Gb/s) and of clause 91
(100 Gb/s), which are for TX + RX of one station. Those of 25GBASE-R are in Annex N's table (`annex_n.py`), and at 200
and 400 Gb/s FEC is a part of the PCS there. At other rates it is twice the least, a guess. For MACsec they are the
SecY's performance requirements (IEEE 802.1AE-2018, 10.10): to transmit, and to receive, it may take as long as the line
takes for a frame of the greatest length and four of 64 octets. Its SecTAG and ICV make each frame 32 octets longer.

PFC frames may pass MACsec in the clear. They are counted as if they did not, which is on the safe side.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from math import ceil

from testbed.switch.headroom.calculation import LINE_OVERHEAD_BYTES, HeadroomError, Term
from testbed.units import PFC_QUANTUM_BITS, Duration, Rate

MACSEC_BYTES = 32
"""The octets that SecTAG, with SCI, and ICV add to a frame."""
_NOTHING = Duration.from_ps(0)
_SHORT_BYTES, _SHORT_FRAMES = 64, 4
_BLOCK = 64
_TRAVERSALS = 4
"""The modules that PAUSE and the last frame before it pass: two each."""


class Fec(enum.StrEnum):
    """Forward error correction, by SONiC's words in PORT."""

    NONE = "none"
    RS = "rs"
    FC = "fc"


_CODEWORDS = {"200Gb/s": 2, "400Gb/s": 2, "800Gb/s": 4}
_MOST_QUANTA = {(Fec.FC, "10Gb/s"): 12, (Fec.FC, "40Gb/s"): 48, (Fec.FC, "100Gb/s"): 240, (Fec.RS, "100Gb/s"): 80}

_IN_THE_TABLE = ("25Gb/s", "200Gb/s", "400Gb/s")
"""The rates whose port type in Annex N's table has FEC in it."""


@dataclass(frozen=True)
class Extras:
    """The parts of a link beside cable and interfaces. `optics` is what one module takes in each direction."""

    fec: Fec = Fec.NONE
    macsec: bool = False
    optics: Duration = _NOTHING

    @property
    def is_nothing(self) -> bool:
        return self.fec is Fec.NONE and not self.macsec and not self.optics.ps

    def frame(self, octets: int) -> int:
        """Return the length that a frame has on the line, without preamble and gap."""
        return octets + (MACSEC_BYTES if self.macsec else 0)

    def least(self, rate: Rate, max_frame: int) -> list[Term]:
        """Return the terms that cannot be avoided, for both directions."""
        found = []
        if self.fec is not Fec.NONE:
            bits = self._codeword(rate)
            found.append(Term("FEC", 2 * bits, f"2 x {bits} bits until a codeword is there"))
        return [*found, *self._tags(), *self._modules(rate)]

    def most(self, rate: Rate, max_frame: int) -> list[Term]:
        """Return the terms that the standards allow, for both directions and both stations."""
        terms = []
        if self.fec is not Fec.NONE:
            quanta = _MOST_QUANTA.get((self.fec, str(rate)))
            if quanta is not None:
                clause = "91" if self.fec is Fec.RS else "74"
                terms.append(Term("FEC", 2 * quanta * PFC_QUANTUM_BITS, f"2 x {quanta} quanta, 802.3 clause {clause}"))
            elif str(rate) not in _IN_THE_TABLE:
                bits = self._codeword(rate)
                terms.append(Term("FEC", 4 * bits, f"4 x {bits} bits: twice the codewords, without a limit of 802.3"))
        if self.macsec:
            bits = (self.frame(max_frame) + LINE_OVERHEAD_BYTES) * 8
            bits += _SHORT_FRAMES * (_SHORT_BYTES + LINE_OVERHEAD_BYTES) * 8
            terms.append(Term("MACsec", 4 * bits, "2 x (TX + RX) of a SecY, 802.1AE 10.10"))
        return [*terms, *self._tags(), *self._modules(rate)]

    def _tags(self) -> list[Term]:
        if not self.macsec:
            return []
        return [Term("SecTAG and ICV", 3 * MACSEC_BYTES * 8, f"{MACSEC_BYTES} B more in each of 3 frames")]

    def _modules(self, rate: Rate) -> list[Term]:
        if not self.optics.ps:
            return []
        bits = ceil(rate.bits_in(self.optics) * _TRAVERSALS)
        return [Term("optics", bits, f"{_TRAVERSALS} x {self.optics}")]

    def _codeword(self, rate: Rate) -> int:
        blocks = 32 if self.fec is Fec.FC else 80
        return blocks * _BLOCK * (_CODEWORDS.get(str(rate), 1) if self.fec is Fec.RS else 1)


def read_fec(text: str) -> Fec:
    """Return the FEC of a word."""
    try:
        return Fec(text)
    except ValueError:
        raise HeadroomError(f"{text[:40]!r} is no FEC; there are {', '.join(Fec)}") from None
