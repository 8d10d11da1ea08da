"""L01: a PFC storm on one lossless priority."""

from experiments.conformance._case import Bench, Control, case, without_pfc
from experiments.conformance._storm import GOODPUT, storm_of


@case(control=Control("no PFC", without_pfc, fails=[GOODPUT]))
def l01_storm(bench: Bench) -> None:
    """A storm on one priority: it gets nothing through, and the other seven an eighth of the line each."""
    storm_of(bench, priorities=1)
