"""The patch of User-Mode Linux applies to the next kernel source of Debian, as soon as there is one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tools import um_patch

pytestmark = pytest.mark.long


def test_the_patch_applies_to_newer_sources_of_debian(tmp_path: Path) -> None:
    now, suite = um_patch.pinned()
    try:
        archive = um_patch.Archive(tmp_path / "apt", (suite, "sid"))
        newer = [source for source in archive.sources() if source.is_newer_than(now)]
        if not newer:
            pytest.skip(f"Debian has no source that is newer than {now}")
        found = list(um_patch.outcomes(newer[-1:], archive, tmp_path))
    except um_patch.UnavailableError as error:
        pytest.skip(str(error))
    assert [line for outcome in found for line in outcome.failed] == [], found[0].source


@pytest.mark.skipif(shutil.which("patch") is None, reason="this machine has no patch")
def test_a_hunk_that_does_not_apply_is_named(tmp_path: Path) -> None:
    (tmp_path / "memory.c").write_text("one\nanother\nthree\n")
    patch = tmp_path / "a.patch"
    patch.write_text("--- a/memory.c\n+++ b/memory.c\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n")
    outcome = um_patch.apply(um_patch.Source("linux-source-0.1", "0.1-1"), tmp_path, patch)
    assert len(outcome.failed) == 1 and outcome.failed[0].startswith("memory.c: Hunk #1 FAILED")
    assert (tmp_path / "memory.c").read_text() == "one\nanother\nthree\n"
