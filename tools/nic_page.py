"""Write docs/reference/nics.md: what is public of NICs, by product.

    python -m tools.nic_page

A unit test compares the page with what this would write.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from testbed.roce.products.model import NicModel
from testbed.roce.products.table import NIC_MODELS, SOURCES

PAGE = Path(__file__).parents[1] / "docs/reference/nics.md"
_HEAD = """\
# NICs by product

`Roce(nic="connectx-5")` gives both NICs of a flow what is public of this product, and `target_nic=` another one at the
target. [The NIC model](../nic.md#nics-by-product) has an example. A setting that the flow has itself, other than its
default, goes before the product's. What has no public source is in no set, and keeps its default.

This page is made of the table in `testbed/roce/products/table.py` by `python -m tools.nic_page`.
`xoff nics` has the same.

| name | product | settings, and their source |
|---|---|---|
"""
_REMARKS = """
## Remarks

"""


def page() -> str:
    """Return the text of the page."""
    rows = "".join(f"| `{one.name}` | {one.title} | {_settings(one)} |\n" for one in NIC_MODELS.values())
    remarks: dict[str, list[str]] = {}
    for model in NIC_MODELS.values():
        for remark in model.remarks:
            remarks.setdefault(remark, []).append(f"`{model.name}`")
    said = "".join(f"- {', '.join(names)}: {remark}\n" for remark, names in remarks.items())
    sources = "".join(f"| {key} | {text} |\n" for key, text in SOURCES.items())
    return f"{_HEAD}{rows}{_REMARKS}{said}\n## Sources\n\n| | |\n|---|---|\n{sources}"


def _settings(model: NicModel) -> str:
    return "; ".join(
        f"{', '.join(f'`{one.setting}` {one.value}' for one in known)} ({source})"
        for source, known in model.by_source().items()
    )


if __name__ == "__main__":
    PAGE.write_text(page())
