"""The URL and the token of a controller, from options or from the environment (docs/controller.md)."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from testbed.errors import UsageError
from testbed.rest.client import DEFAULT_URL, Client

URL, TOKEN, TOKEN_FILE = "XOFF_SR_URL", "XOFF_SR_TOKEN", "XOFF_SR_TOKEN_FILE"


def options() -> argparse.ArgumentParser:
    """Return a parser with the options of every request to the controller."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--url", default=None, help=f"the controller's address (default ${URL}, else {DEFAULT_URL})")
    common.add_argument(
        "--token-file", type=Path, help=f"a file with the token (default ${TOKEN_FILE}, or ${TOKEN} itself)"
    )
    common.add_argument("--ca-file", type=Path, help="a PEM file with the authorities to trust for HTTPS")
    common.add_argument("--json", action="store_true", help="print the answer unchanged, for scripts")
    return common


def client(chosen: argparse.Namespace) -> Client:
    """Return a client with the URL, the token and the certificates of these options."""
    return Client(chosen.url or os.environ.get(URL) or DEFAULT_URL, _token(chosen.token_file), chosen.ca_file)


def _token(file: Path | None) -> str:
    if file is None and os.environ.get(TOKEN):
        return os.environ[TOKEN]
    name = file or (Path(os.environ[TOKEN_FILE]) if os.environ.get(TOKEN_FILE) else None)
    if name is None:
        raise UsageError(f"the controller asks for a token: name its file with --token-file or in ${TOKEN_FILE}")
    try:
        token = name.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"the token in {name} cannot be read: {why}") from None
    if not token.isascii() or not token.isprintable() or not token:
        raise UsageError(f"{name} holds no token; it is one line of printable ASCII")
    return token
