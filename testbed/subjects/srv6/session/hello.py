"""The hello of a control session, and the keys that follow from both hellos.

Each router shares a key of its own with the controller. Each direction of a session has a key: HMAC-SHA-256, with the
shared key, over the direction's name and both hellos, the agent's first. So a frame of another session or direction
does not authenticate, and neither does a frame after a hello that was changed on the way.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from testbed.subjects.srv6.protocol.domain import RouterName
from testbed.typed_json.codec import CODEC
from testbed.typed_json.meta import Meta, message

PROTOCOL: Literal["xoff-srv6"] = "xoff-srv6"
VERSIONS = (2,)
"""The versions of the protocol, newest first. Version 1 had another name for intents."""
NONCE_OCTETS = 32
SHORTEST_KEY = 16
LENGTH = struct.Struct("!I")
HASH = hashlib.sha256().name


class Role(enum.StrEnum):
    AGENT = "agent"
    CONTROLLER = "controller"

    @property
    def peer(self) -> Role:
        return Role.CONTROLLER if self is Role.AGENT else Role.AGENT


@message(open=True)  # a later version may have more members
@dataclass(frozen=True)
class Hello:
    """The first frame of each side, in the clear."""

    protocol: Literal["xoff-srv6"]
    versions: Annotated[tuple[Annotated[int, Meta(ge=1, le=255)], ...], Meta(min_length=1, max_length=16)]
    role: Role
    name: RouterName
    nonce: Annotated[str, Meta(pattern=f"^[0-9a-f]{{{2 * NONCE_OCTETS}}}$")]

    def encode(self) -> bytes:
        return json.dumps(CODEC.encode(self)).encode()


def router_key(key: bytes, router: str, issue: int = 1) -> bytes:
    """Return a router's own key, made of the controller's. Each issue is another key; it is text, for a key file."""
    return hmac.digest(key, f"xoff-srv6 router {issue} {router}".encode(), HASH).hex().encode()


def direction_keys(key: bytes, hellos: Mapping[Role, bytes]) -> dict[Role, bytes]:
    """Return the key for the frames of each sender."""
    transcript = b"".join(LENGTH.pack(len(hellos[role])) + hellos[role] for role in Role)
    return {role: hmac.digest(key, f"{role}:".encode() + transcript, HASH) for role in Role}
