"""LR01: creation of a profile, and wrong parameters."""

from experiments.conformance._case import Bench, case
from experiments.conformance._retry import link, no_llr
from testbed.switch.link.retry import RetryError
from xoff import Duration, Llr

READ = "profile with the mandatory parameters, as read back"
_ALL = {
    "frames": 500, "octets": 60_000, "replay_timer": "9us", "replay_count": 7, "data_age": "50us",
    "init_action": "discard", "flush_action": "block", "re_init": False, "spacing": 4096,
}  # fmt: skip
_WRONG = ({"frames": 0}, {"octets": 0}, {"frames": (1 << 19) + 1}, {"octets": 1 << 31}, {"replay_timer": "66us"},
          {"spacing": 100}, {"init_action": "best"})  # fmt: skip


@case(control=no_llr(READ))
def lr01_profile(bench: Bench) -> None:
    """A profile has what it was given and defaults for the rest; parameters out of range are refused, each by name."""
    found = []
    for given in ({"frames": 1000, "octets": 50_000}, _ALL):
        with link(bench, Llr(**given)) as on:
            llr = on.fabric.port(on.dut).cable.llr
            found.append({name: getattr(llr, name, None) for name in given})
            state = on.report(on.dut).state
    bench.claim(READ, found[0], equals={"frames": 1000, "octets": 50_000})
    times = {"replay_timer": Duration("9us"), "data_age": Duration("50us")}
    bench.claim("profile with all parameters, as read back", found[1], equals=_ALL | times)
    bench.claim("state of a sender with it", state, equals="ADVANCE")
    refused = []
    for wrong in _WRONG:
        try:
            Llr(**wrong)
        except RetryError as error:
            refused.append(next(iter(wrong)) in str(error))
    bench.claim("wrong parameters that were refused by name", refused, equals=[True] * len(_WRONG))
    with link(bench, False) as on:
        bench.claim("after deletion: sender and receiver", on.states(on.dut, on.tester), equals=("OFF", "OFF"))
