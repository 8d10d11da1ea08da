"""The client's calls, carried out on the ports of a network in the lab. snappi imports this by its name."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

import snappi

import testbed
from snappi_xoff import results, ultra_ethernet
from snappi_xoff.older import older_calls
from testbed.errors import XoffError
from testbed.subjects.snappi import requests
from testbed.subjects.snappi.lab.session import Session
from testbed.subjects.snappi.reading import OtgError

_BAD_REQUEST, _INTERNAL = 400, 500
ultra_ethernet.add_to(sys.modules[snappi.Config.__module__])


class Api(snappi.Api):
    """Xoff's implementation of snappi's API. Location and transport have no meaning here: there is no server."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._session = Session()
        older_calls(self)

    def set_config(self, payload: Any) -> Any:
        warning = self._changed(self._session.set_config, payload)
        warning.warnings = list(self._session.plan.warnings)
        return warning

    def get_config(self) -> Any:
        return self.config().deserialize(json.dumps(self._session.config))

    def append_config(self, payload: Any) -> Any:
        return self._each(payload, "config_append_list", self._session.append_flows)

    def delete_config(self, payload: Any) -> Any:
        return self._each(payload, "config_delete_list", self._session.delete_flows)

    def update_config(self, payload: Any) -> Any:
        def update(request: Mapping[str, Any]) -> None:
            if request.get("choice") != "flows":
                raise OtgError([f"{request.get('choice')}: Xoff does not support it"])
            self._session.update_flows(request["flows"]["property_names"], request["flows"]["flows"])

        return self._changed(update, payload)

    def set_control_state(self, payload: Any) -> Any:
        return self._changed(
            lambda request: self._session.control(requests.read_control(request, self._session.plan)), payload
        )

    def set_control_action(self, payload: Any) -> Any:
        choice = _plain(payload).get("choice")
        return self._changed(lambda _: _refuse(f"{choice}: Xoff does not support actions"), payload)

    def get_metrics(self, payload: Any) -> Any:
        def read(request: Mapping[str, Any]) -> Any:
            wanted = requests.read_metrics(request, self._session.plan)
            return results.metrics(self._session, wanted)

        return self.metrics_response().deserialize(json.dumps(self._done(read, payload)))

    def get_states(self, payload: Any) -> Any:
        def read(request: Mapping[str, Any]) -> Any:
            return results.states(self._session.running, requests.read_states(request, self._session.plan))

        return self.states_response().deserialize(json.dumps(self._done(read, payload)))

    def get_capture(self, payload: Any) -> Any:
        def read(request: Mapping[str, Any]) -> Any:
            return self._session.capture(requests.read_capture(request, self._session.plan))

        return io.BytesIO(self._done(read, payload))

    def get_version(self) -> Any:
        version = self.version()
        version.api_spec_version = version.sdk_version = self._version_meta.api_spec_version
        version.app_version = testbed.__version__
        return version

    def close(self) -> None:
        self._session.close()

    def _each(self, payload: Any, name: str, change: Callable[[Any], None]) -> Any:
        def all_of(request: Mapping[str, Any]) -> None:
            for number, one in enumerate(request.get(name, ())):
                if one.get("choice") != "flows":
                    raise OtgError([f"{name}[{number}].{one.get('choice')}: Xoff does not support it"])
                change(one["flows"])

        return self._changed(all_of, payload)

    def _changed(self, change: Callable[[Mapping[str, Any]], None], payload: Any) -> Any:
        self._done(change, payload)
        warning = self.warning()
        warning.warnings = []  # snappi's own default is None, and scripts take its length
        return warning

    def _done(self, do: Callable[[Mapping[str, Any]], Any], payload: Any) -> Any:
        """Return the result of a call. A refusal becomes snappi's own exception around an `Error`."""
        try:
            return do(_plain(payload))
        except OtgError as refused:
            raise Exception(self._error(_BAD_REQUEST, "validation", refused.errors)) from None
        except XoffError as failed:
            raise Exception(self._error(_INTERNAL, "internal", [str(failed)])) from failed

    def _error(self, code: int, kind: str, errors: list[str]) -> Any:
        error = self.error()
        error.code, error.kind, error.errors = code, kind, errors
        return error


def _refuse(what: str) -> None:
    raise OtgError([what])


def _plain(payload: Any) -> dict[str, Any]:
    """Return the data of a payload: snappi's object, or its JSON or YAML."""
    if isinstance(payload, str):
        import yaml

        found = yaml.safe_load(payload)
    else:
        found = payload.serialize(payload.DICT)
    if not isinstance(found, dict):
        raise OtgError(["it is no object"])
    return found
