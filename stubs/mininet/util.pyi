from typing import Any

def waitListening(
    client: Any = None, server: Any = "127.0.0.1", port: int = 80, timeout: float | None = None
) -> bool: ...
