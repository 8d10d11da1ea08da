"""A client of the SR policy controller's REST (docs/controller.md): for `xoff controller sr`, and for experiments."""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from testbed.errors import UsageError, XoffError

DEFAULT_URL = "http://127.0.0.1:8181"
_TIMEOUT_S = 10


class ControllerError(XoffError):
    """The error of a controller that does not answer, or not as it should."""

    exit_code = 3


class Client:
    """A client of the controller's REST interface that has the token."""

    def __init__(self, url: str, token: str, ca_file: Path | None = None) -> None:
        """`ca_file` has the certificate authority of the controller, if this machine does not know it."""
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"--url {url}: a URL is expected, as in {DEFAULT_URL}")
        self._url, self._token = url.rstrip("/"), token
        # No proxy: the controller is on this machine or at an address that the operator gives.
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if url.startswith("https://"):
            try:
                context = ssl.create_default_context(cafile=ca_file)
            except OSError as error:  # ssl.SSLError is one
                raise UsageError(f"--ca-file {ca_file} cannot be used: {error.strerror or error}") from None
            handlers.append(urllib.request.HTTPSHandler(context=context))
        self._opener = urllib.request.build_opener(*handlers)

    def ask(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        """Return the answer as JSON, or None if it has none. A body of another type than JSON is octets."""
        with self._open(method, path, body, content_type=content_type) as answer:
            content = answer.read()
        try:
            return json.loads(content) if content else None
        except (ValueError, RecursionError):
            raise ControllerError(f"{self._url} answers with what is not JSON; is it the controller?") from None

    def lines(self, path: str) -> Iterator[str]:
        """Return a stream of events, line by line."""
        with self._open("GET", path, None, timeout_s=60) as answer:
            for line in answer:
                yield line.decode(errors="replace").rstrip("\r\n")

    @contextmanager
    def _open(
        self,
        method: str,
        path: str,
        body: Any,
        timeout_s: float = _TIMEOUT_S,
        content_type: str = "application/json",
    ) -> Iterator[Any]:
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._token}"}
        headers |= {"Content-Type": content_type} if data is not None else {}
        try:
            request = urllib.request.Request(self._url + path, data, headers, method=method)
            with self._opener.open(request, timeout=timeout_s) as answer:
                yield answer
        except urllib.error.HTTPError as error:
            raise _refusal(self._url, error) from None
        except urllib.error.URLError as error:
            raise self._silence(error.reason) from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise self._silence(error) from None

    def _silence(self, why: object) -> ControllerError:
        text = getattr(why, "strerror", None) or str(why)
        return ControllerError(
            f"no controller answers at {self._url}: {text}; start it with 'python3 -m controllers', or name its --url"
        )


def _refusal(url: str, error: urllib.error.HTTPError) -> XoffError:
    """Return the error of a refused request."""
    try:
        said = json.loads(error.read())
        detail = str(said["detail"])
        errors = [f"{one['line']}:{one['column']}: {one['message']}" for one in said.get("errors", ())[1:]]
    except (ValueError, KeyError, TypeError, OSError):
        return ControllerError(f"{url} answers {error.code} {error.reason}; is it the controller?")
    return UsageError(f"the controller refuses: {chr(10).join([detail, *errors])}")
