"""Write the digests of the repository, for `xoff verify --update`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from testbed.lab.engines import table
from testbed.lab.job.job import code_digest
from testbed.lab.results.result import Result
from testbed.lab.studies.references import FILE, Reference, counts


def updated(known: Reference | None, results: Sequence[Result]) -> Reference:
    """Return the reference with these results in it. Digests made with another image or kernel are left out."""
    here = results[0].provenance
    kept = known.digests if known and not known.differences(here) else {}
    digests = dict(kept) | {result.experiment: result.digest for result in results if counts(result)}
    code = code_digest() if table.find(here.engine).cpu_takes_time else ""
    return Reference(here.image, here.kernel_digest, dict(sorted(digests.items())), code)


def write(root: Path, references: Mapping[str, Reference]) -> None:
    """Write the references of all engines into a checkout."""
    content = {name: asdict(reference) for name, reference in sorted(references.items())}
    (root / FILE).write_text(json.dumps(content, indent=1) + "\n")
