"""The repository's digests beside those of this machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from testbed.errors import UsageError
from testbed.experiment.fidelity import Fidelity, Thresholds, Verdict
from testbed.lab.job import job
from testbed.lab.results.result import Claim, Provenance, Result, Status, Times
from testbed.lab.studies import references
from testbed.lab.studies.references import Outcome, Reference
from tools import digests

HERE = Provenance("um", "none", "i1", "7.3", "k1", "", "1", "c", "d")
FIDELITY = Fidelity(Verdict.KEPT, (), 1, None, None, None, Thresholds())
GOOD = Result("incast", Status.OK, "", {}, 1, (), (), FIDELITY, HERE, Times(1, 1.0, None), {})


def test_an_equal_digest_is_the_same() -> None:
    known = Reference("i1", "k1", {"incast": GOOD.digest})
    assert references.compare(GOOD, known).outcome is Outcome.SAME


def test_another_digest_is_different() -> None:
    known = Reference("i1", "k1", {"incast": replace(GOOD, seed=2).digest})
    assert references.compare(GOOD, known).outcome is Outcome.DIFFERENT


@pytest.mark.parametrize("known", [None, Reference("i1", "k1", {"other": GOOD.digest})])
def test_an_experiment_without_a_digest_is_unknown(known: Reference | None) -> None:
    assert references.compare(GOOD, known).outcome is Outcome.UNKNOWN


def test_a_failed_claim_is_no_match_even_if_its_digest_is_known() -> None:
    bad = replace(GOOD, claims=(Claim("lost", {"equals": 0}, 3, False),))
    comparison = references.compare(bad, Reference("i1", "k1", {"incast": bad.digest}))
    assert (comparison.outcome, comparison.reason) == (Outcome.FAILED, "not as claimed: lost")


def test_a_degraded_run_counts_by_its_digest_whatever_became_of_its_claims() -> None:
    short_of_cpu = replace(FIDELITY, verdict=Verdict.DEGRADED)
    bad = replace(GOOD, claims=(Claim("lost", {"equals": 0}, 3, False),), fidelity=short_of_cpu)
    assert references.compare(bad, Reference("i1", "k1", {"incast": bad.digest})).outcome is Outcome.SAME
    assert digests.updated(None, [bad]).digests == {"incast": bad.digest}
    raised = replace(bad, status=Status.ERROR)
    assert references.compare(raised, Reference("i1", "k1", {"incast": raised.digest})).outcome is Outcome.FAILED
    assert digests.updated(None, [raised]).digests == {}


def test_digests_of_vm_are_bound_to_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    on_vm = replace(GOOD, provenance=replace(HERE, engine="vm", qemu="7.2.22"))
    other = replace(on_vm, experiment="wan", provenance=replace(on_vm.provenance, code="of another job"))
    known = digests.updated(None, [on_vm])
    assert known.code == job.code_digest() and digests.updated(None, [GOOD]).code == ""
    assert known.differences(other.provenance) == []
    assert set(digests.updated(known, [other]).digests) == {"incast", "wan"}
    monkeypatch.setattr(references, "_code", lambda: "e" * 64)
    (difference,) = known.differences(on_vm.provenance)
    assert "Xoff's code here is eeeeeeeeeeeeeeee" in difference
    assert set(digests.updated(known, [other]).digests) == {"wan"}


def test_with_other_code_on_vm_claims_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    on_vm = replace(GOOD, provenance=replace(HERE, engine="vm", qemu="7.2.22"))
    known = digests.updated(None, [replace(on_vm, seed=2)])
    assert references.compare(on_vm, known).outcome is Outcome.DIFFERENT
    monkeypatch.setattr(references, "_code", lambda: "e" * 64)
    assert references.compare(on_vm, known).outcome is Outcome.CLAIMED
    bad = replace(on_vm, claims=(Claim("lost", {"equals": 0}, 3, False),))
    assert references.compare(bad, known).outcome is Outcome.FAILED
    short_of_cpu = replace(FIDELITY, verdict=Verdict.DEGRADED)
    assert references.compare(replace(bad, fidelity=short_of_cpu), known).outcome is Outcome.NOT_JUDGED


def test_another_kernel_and_image_are_named() -> None:
    assert len(Reference("i2", "k2").differences(HERE)) == 2
    assert Reference("i1", "k1").differences(HERE) == []


def test_digests_HERE_another_kernel_are_not_kept() -> None:
    of_same, of_other = (Reference("i1", kernel, {"wan": "1"}) for kernel in ("k1", "k2"))
    assert digests.updated(of_same, [GOOD]).digests == {"incast": GOOD.digest, "wan": "1"}
    assert digests.updated(of_other, [GOOD]).digests == {"incast": GOOD.digest}


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    (tmp_path / references.FILE).parent.mkdir()
    content = {
        "um": Reference("i1", "k1", {"incast": "1"}),
        "vm QEMU 7.2.22": Reference("i1", "", {"incast": "2"}, "c1"),
    }
    digests.write(tmp_path, content)
    assert references.read(tmp_path) == content


def test_without_the_file_nothing_is_known(tmp_path: Path) -> None:
    assert references.read(tmp_path) == {}


@pytest.mark.parametrize("text", ["{", "[]", '{"um": 1}', '{"um": {"image": "", "kernel": ""}}'])
def test_a_damaged_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / references.FILE).parent.mkdir()
    (tmp_path / references.FILE).write_text(text)
    with pytest.raises(UsageError, match="damaged"):
        references.read(tmp_path)


def test_results_of_vm_belong_to_a_version_of_qemu() -> None:
    assert references.edition(replace(HERE, engine="vm", qemu="7.2.22")) == "vm QEMU 7.2.22"
    assert references.edition(replace(HERE, engine="um", qemu="")) == "um"
