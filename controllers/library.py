"""The choice between the two libraries that the controller runs under. Neither is imported before it has to be.

os-ken is Ryu's maintained fork. Ryu 4.34 needs to be prepared: it imports a name that a current eventlet no longer has,
and the standard library has to be made green before anything else is imported.
"""

from __future__ import annotations

import importlib.util
import sys

from testbed.errors import UsageError

PACKAGES = {"os-ken": "os_ken", "ryu": "ryu"}


def loaded() -> str | None:
    """Return the package that is running already, as under `ryu-manager`."""
    return next((package for package in PACKAGES.values() if f"{package}.base.app_manager" in sys.modules), None)


def choose(name: str | None = None) -> str:
    """Return the package of that name, or else the first that is there."""
    if name is not None and name not in PACKAGES:
        raise UsageError(f"there is no library {name} for controllers; there are {', '.join(PACKAGES)}")
    for package in (PACKAGES[name],) if name else PACKAGES.values():
        if importlib.util.find_spec(package) is not None:
            return package
    raise UsageError(
        f"{f'{name} is not' if name else 'neither os-ken nor Ryu is'} installed here; install os-ken 4.2.2, as Xoff's "
        "extra 'host' does, or run the controller in the lab, which has both"
    )


def load_ryu() -> None:
    """Prepare Ryu 4.34."""
    import eventlet.wsgi

    eventlet.wsgi.ALREADY_HANDLED = getattr(eventlet.wsgi, "ALREADY_HANDLED", object())
    from ryu.lib import hub

    hub.patch(thread=False)
