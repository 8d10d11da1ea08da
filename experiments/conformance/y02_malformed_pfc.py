"""Y02: PFC frames with a wrong opcode, with reserved bits, and cut short."""

from experiments.conformance._case import Bench, Control, case
from experiments.conformance._ignored import SLOWEST, ignores
from xoff import LONGEST_PAUSE, Mac, PfcFrame

_OPCODE, _RESERVED, _CUT = slice(14, 16), slice(16, 17), 30


@case(ports=3, control=Control("valid frames", fails=[SLOWEST]))
def y02_malformed_pfc(bench: Bench) -> None:
    """Malformed PFC frames: no priority pauses, and none of them is forwarded."""

    def frames(source: Mac) -> dict[str, bytes]:
        whole = PfcFrame.xoff(source, range(8)).encode()
        return {
            "unknown_opcode": whole[: _OPCODE.start] + b"\x01\x02" + whole[_OPCODE.stop :],
            "": _with_reserved_bits(source),
            "too_short": whole[:_CUT],
        }

    ignores(bench, frames)


def _with_reserved_bits(source: Mac) -> bytes:
    """Return a frame with times for all priorities, and enable bits in the upper octet alone, which no priority has."""
    plain = PfcFrame(source, 0, (LONGEST_PAUSE,) * 8).encode()
    return plain[: _RESERVED.start] + b"\xff" + plain[_RESERVED.stop :]
