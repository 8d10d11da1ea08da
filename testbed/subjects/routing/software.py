"""What routing software has in common, whoever wrote it: `addRouter("r1", routing=Frr(Bgp()))`.

A class of it turns what a router is to speak (`protocols.py`) and what the router has (`router.py`) into the text of
its configuration. `testbed/subjects/routing/lab` runs it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

from testbed.errors import UsageError
from testbed.subjects.routing.protocols import Bgp, chosen
from testbed.subjects.routing.router import Router


class Software:
    """Routing software with the protocols that it is to speak, or with a configuration of the user's own.

    `config` is the text of a configuration or, as a `Path`, the file that has it.
    """

    package: str
    """The Debian package that has it."""
    speaks: ClassVar[tuple[type, ...]]

    def __init__(self, *protocols: Any, config: str | Path = "") -> None:
        self.protocols: Mapping[type, Any] = chosen(type(self).__name__, protocols, self.speaks)
        self.config = config
        if bool(protocols) == bool(config):
            name = type(self).__name__
            raise UsageError(
                f"{name}: give it what it is to speak, as in {name}(Bgp()), or a configuration, "
                f'{name}(config=Path("r1.conf")){", and not both" if protocols else ""}'
            )

    def text(self, router: Router) -> str:
        """Return the configuration of a router: the user's, or the one that is made of the topology."""
        if not self.config:
            return self.made(router)
        if isinstance(self.config, str):
            return self.config
        try:
            return self.config.read_text()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no text"
            raise UsageError(
                f"router {router.name}: its configuration {self.config} cannot be read: {why}; name it in "
                '@experiment(files=[...]) and take Path(__file__).with_name("r1.conf")'
            ) from None

    def made(self, router: Router) -> str:
        """Return the configuration that is made of the topology."""
        raise NotImplementedError

    def with_asn(self, asn: int) -> Self:
        """Return the same software for a router of this AS, if its BGP was given none."""
        bgp: Bgp | None = self.protocols.get(Bgp)
        if bgp is None or bgp.asn is not None:
            return self
        made = copy.copy(self)
        made.protocols = {**self.protocols, Bgp: replace(bgp, asn=asn)}
        return made

    def asn(self, router: Router) -> int:
        """Return the AS of a router."""
        bgp: Bgp | None = self.protocols.get(Bgp)
        return router.asn if bgp is None or bgp.asn is None else bgp.asn


def same_for_all(all_software: Iterable[Software]) -> frozenset[type] | None:
    """Return the protocols of all routers if they are the same and made of the topology, else None."""
    kinds = {frozenset(one.protocols) if one.protocols else None for one in all_software}
    return kinds.pop() if len(kinds) == 1 else None
