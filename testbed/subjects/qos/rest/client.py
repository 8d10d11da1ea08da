"""A client, over REST, of a controller's subnet administration: for the RFC's clients and for subnet managers."""

from __future__ import annotations

from typing import Any

from testbed.frames.path_record import QOS_SUPPORTED, ClassPortInfo
from testbed.rest.client import Client
from testbed.subjects.qos.fabric import Fabric
from testbed.subjects.qos.records import NotFound, PathReason, PathRecordRequest, Selector, Wanted
from testbed.subjects.qos.rest.messages import FabricMessage, SweepReport
from testbed.subjects.qos.rfc_clients import AddressVector, BroadcastGroup
from testbed.typed_json.codec import CODEC

_GUID = (1 << 64) - 1


class RestSa:
    """A controller's subnet administration."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def ask(self, request: PathRecordRequest) -> AddressVector | NotFound:
        """Ask for a path record. The method is a `rfc_clients.Ask`."""
        answer = self._client.ask("POST", "/qos/path-record", query(request))
        if not answer["found"]:
            return NotFound(PathReason(answer["reason"]), answer["message"])
        path = answer["path"]
        return AddressVector(
            path["sl"], path["mtu"], path["rate"], path["tclass"], path["pkey"], path["dlid"]
        )  # fmt: skip

    def join(self, pkey: int) -> BroadcastGroup:
        """Ask for the broadcast group of a P_Key. The method is a `rfc_clients.Join`."""
        group = self._client.ask("GET", f"/qos/broadcast-groups/0x{pkey:04x}")
        return BroadcastGroup(group["pkey"], group["sl"], group["mtu"], group["rate"], group["tclass"])

    def class_port_info(self) -> ClassPortInfo:
        """Return the abilities of the SA."""
        has_qos: bool = self._client.ask("GET", "/qos/status")["qos"]
        return ClassPortInfo(capabilities2=QOS_SUPPORTED if has_qos else 0)

    # Of a subnet manager

    def policy(self) -> tuple[int, str]:
        """Return the revision and the text of the policy in force: 0 and an empty text if there is none."""
        if not (revision := self._client.ask("GET", "/qos/status")["revision"]):
            return 0, ""
        answer = self._client.ask("GET", "/qos/policy")
        return revision, answer["text"]

    def put_policy(self, content: bytes) -> int:
        """Put a policy in force, and return its revision."""
        revision: int = self._client.ask("PUT", "/qos/policy", content, "text/plain")["revision"]
        return revision

    def put_fabric(self, fabric: Fabric) -> None:
        self._client.ask("PUT", "/qos/fabric", CODEC.encode(FabricMessage.of(fabric), FabricMessage))

    def put_report(self, report: SweepReport) -> None:
        self._client.ask("PUT", "/qos/report", CODEC.encode(report, SweepReport))


def query(request: PathRecordRequest) -> dict[str, Any]:
    """Return a request as the body of POST /qos/path-record."""
    body: dict[str, Any] = {"from": _port(request.sgid, request.slid), "to": _port(request.dgid, request.dlid)}
    for name in ("tclass", "qos_class", "pkey", "sl"):
        body[name] = getattr(request, name)
    body["service_id"] = None if request.service_id is None else hex(request.service_id)
    for name in ("mtu", "rate"):
        wanted: Wanted | None = getattr(request, name)
        if wanted is not None:
            body |= {name: wanted.value, f"{name}_selector": Selector(wanted.selector).name.lower()}
    return {name: value for name, value in body.items() if value is not None}


def _port(gid: int | None, lid: int | None) -> str:
    return f"0x{gid & _GUID:x}" if gid is not None else str(lid)
