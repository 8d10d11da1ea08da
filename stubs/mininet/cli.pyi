from cmd import Cmd
from typing import Any

class CLI(Cmd):
    mn: Any
    def __init__(self, mininet: Any, stdin: Any = ..., script: str | None = None, **kwargs: Any) -> None: ...
    def do_sh(self, line: str) -> None: ...
