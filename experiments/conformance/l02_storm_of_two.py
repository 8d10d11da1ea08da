"""L02: a PFC storm on two lossless priorities at once."""

from experiments.conformance._case import Bench, Control, case, without_pfc
from experiments.conformance._storm import GOODPUT, storm_of


@case(control=Control("no PFC", without_pfc, fails=[GOODPUT]))
def l02_storm_of_two(bench: Bench) -> None:
    """A storm on both lossless priorities: they get nothing through, and the other six an eighth of the line each."""
    storm_of(bench, priorities=2)
