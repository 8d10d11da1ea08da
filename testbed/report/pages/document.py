"""The parts that reports and the live view share: assets, digests for the content security policy,
and data for scripts.
"""

from __future__ import annotations

import base64
import hashlib
import json
from importlib import resources
from typing import Any

from testbed.report.pages.markup import Html


def asset(package: str, name: str) -> Html:
    """Return the text of an asset of a package."""
    return Html((resources.files(package) / "assets" / name).read_text(encoding="utf-8"))


def digest(content: str) -> str:
    """Return the name of a script or style in a content security policy, which is its digest."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def script_json(data: Any) -> str:
    """Return JSON that no reader of HTML takes for the end of a script, or for markup."""
    plain = json.dumps(data, separators=(",", ":"), ensure_ascii=True)
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
