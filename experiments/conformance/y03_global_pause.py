"""Y03: 802.3x PAUSE at a port with PFC."""

from experiments.conformance._case import Bench, Control, case
from experiments.conformance._ignored import SLOWEST, ignores
from xoff import LONGEST_PAUSE, PauseFrame


@case(ports=3, control=Control("PFC instead of PAUSE", fails=[SLOWEST]))
def y03_global_pause(bench: Bench) -> None:
    """PAUSE frames of the whole link: no priority pauses, and none of them is forwarded."""
    ignores(bench, lambda source: {"global_pause": PauseFrame(source, LONGEST_PAUSE).encode()})
