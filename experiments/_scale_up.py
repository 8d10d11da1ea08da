"""A case of SONiC's Scale-Up Test Standard in the lab; `xoff switch conformance --plan scale-up` runs it."""

from testbed.subjects.link.lab.scale_up.cbfc_cases import CBFC_CASES
from testbed.subjects.link.lab.scale_up.cbfc_cases import SCALE as CBFC_SCALE
from testbed.subjects.link.lab.scale_up.llr_cases import LLR_CASES
from testbed.subjects.link.lab.scale_up.llr_cases import SCALE as LLR_SCALE
from testbed.subjects.link.lab.scale_up.measured import Measured
from xoff import Run, experiment


@experiment(timeout="2000s")
def scale_up(run: Run, case: str = "LLR-01") -> None:
    """Run one case of the standard."""
    is_llr = case in LLR_CASES
    to = Measured(run, case, LLR_SCALE if is_llr else CBFC_SCALE)
    (LLR_CASES if is_llr else CBFC_CASES)[case](to)
    to.end()
