"""The command `python3 -m controllers`: a defect at the start ends it, with any threads of the library."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from controllers.settings import make_secrets

ROOT = Path(__file__).parents[3]
LIBRARY = {
    "__init__": "",
    "cfg": """
class Conf:
    def __call__(self, *given, **more): pass
    def set_override(self, *given): pass
CONF = Conf()
""",
    "base/__init__": "",
    "base/app_manager": """
import threading, time
from testbed.errors import UsageError
class AppManager:
    get_instance = classmethod(lambda kind: kind())
    def load_apps(self, names):
        threading.Thread(target=time.sleep, args=(600,)).start()  # as os-ken's own threads, which wait for switches
    def create_contexts(self): return {}
    def instantiate_apps(self):
        raise {}
""",
    "controller/__init__": "",
    "controller/controller": "",
}
"""The parts of os-ken that the start uses."""


@pytest.mark.parametrize(
    ("raised", "code", "text"),
    [
        ("AttributeError('edited')", 1, "AttributeError: edited"),
        ("UsageError('cannot listen at 127.0.0.1:1')", 2, "controllers: cannot listen at 127.0.0.1:1"),
    ],
)
def test_an_error_after_the_library_has_begun_ends_the_controller(
    tmp_path: Path, raised: str, code: int, text: str
) -> None:
    for name, content in LIBRARY.items():
        file = tmp_path / "os_ken" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content.replace("raise {}", f"raise {raised}"))
    key, token = make_secrets(tmp_path)
    secrets = {"XOFF_SR_KEY_FILE": str(key), "XOFF_SR_TOKEN_FILE": str(token)}
    environment = {**os.environ, **secrets, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    command = [sys.executable, "-m", "controllers", "--library", "os-ken", "--openflow", f"unix:{tmp_path}/switches"]
    ended = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == code
    assert text in ended.stderr.splitlines()[-1]
