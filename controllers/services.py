"""The services of the controller's REST interface. A new service is one line here (see `testbed/rest/service.py`)."""

from __future__ import annotations

from typing import Any

from testbed.rest.openapi import document
from testbed.rest.server import SHORTEST_TOKEN, RestServer
from testbed.rest.service import Service
from testbed.subjects.qos.rest.service import QosService
from testbed.subjects.srv6.controller.manager import Manager
from testbed.subjects.srv6.controller.southbound import Southbound
from testbed.subjects.srv6.rest.service import SrPolicyService


def services(manager: Manager, southbound: Southbound | None = None) -> list[Service]:
    """Return all services; those that write events use `manager.history`."""
    return [
        SrPolicyService(manager, remove=southbound.remove if southbound else None),
        QosService(manager.history.add),
    ]


def description() -> dict[str, Any]:
    """Return the OpenAPI document."""
    manager = Manager()
    return document(RestServer(services(manager), "-" * SHORTEST_TOKEN, manager.history).services)
