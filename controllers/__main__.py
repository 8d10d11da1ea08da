"""Start the controller: python3 -m controllers. It runs under os-ken or Ryu, as asked for or as installed."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import logging
import os
import resource
import signal
import socket
import sys
import traceback
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from controllers import library, settings
from controllers.settings import Address, Settings
from testbed.errors import UsageError, XoffError

DEFAULT_OPENFLOW = "127.0.0.1:6653"
_SWITCH_S = 0.0005
"""The longest time that the library's threads for switches may keep the thread of the service waiting."""
_DESCRIPTORS = 4096
"""The number of file descriptors that is enough for all agents, clients of REST and switches."""
_ECHO_S = 2.0
"""The time between two echo requests to a switch. It may leave one of them unanswered."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m controllers", description="The SR policy controller.")
    parser.add_argument(
        "--library",
        default=os.environ.get("XOFF_SR_LIBRARY"),
        help="os-ken or ryu; by default the first of them that is there",
    )
    for option, variable, default, what in (
        ("--key-file", settings.KEY_FILE, None, "the key that routers' keys are made of"),
        ("--token-file", settings.TOKEN_FILE, None, "the token that users of REST show"),
        ("--agents", settings.AGENTS, settings.DEFAULT_AGENTS, "where agents connect; unix:PATH is possible"),
        ("--rest", settings.REST, settings.DEFAULT_REST, "where REST is"),
        ("--name", settings.NAME, settings.DEFAULT_NAME, "the controller's own"),
        ("--routers", settings.ROUTERS, None, "TOML: the routers there are, and their locators; read again on SIGHUP"),
        ("--igp", settings.IGP, None, "JSON: what the routers' IGP says of them and their SIDs; read again on SIGHUP"),
        ("--rest-names", settings.REST_NAMES, None, "host names of REST beside localhost, with commas between"),
        ("--ways-seed", settings.WAYS_SEED, "0", "the seed of which each switch's own is made, for its choice of ways"),
        ("--tls-certificate", settings.TLS_CERTIFICATE, None, "of REST, in PEM; then it is HTTPS"),
        ("--tls-key", settings.TLS_KEY, None, "the certificate's key, in PEM"),
    ):
        shown = f" (default {default})" if default else ""
        parser.add_argument(option, dest=variable, help=f"{what}{shown}; or ${variable}")
    where = "where switches connect; unix:PATH is possible (default %(default)s)"
    parser.add_argument("--openflow", default=DEFAULT_OPENFLOW, help=where)
    effect = "let addresses beside loopback listen without TLS"
    parser.add_argument(
        "--open-to-network",
        dest=settings.OPEN,
        action="store_const",
        const="1",
        help=f"{effect}; or ${settings.OPEN}=1",
    )
    parser.add_argument("--router-key", metavar="NAME", help="print the key of this router, for its key file, and end")
    parser.add_argument("--make-secrets", type=Path, metavar="FOLDER", help="make a key and a token, and end")
    parser.add_argument("--openapi", action="store_true", help="print the OpenAPI document of REST, and end")
    options = parser.parse_args()
    try:
        if options.openapi:
            from controllers.services import description

            print(json.dumps(description(), indent=1))
            return 0
        if options.make_secrets:
            for path in settings.make_secrets(options.make_secrets):
                print(path)
            return 0
        os.environ |= {
            name: value for name, value in vars(options).items() if name.startswith("XOFF_") and value is not None
        }
        if options.router_key:
            print(Settings.read().key_of(options.router_key).decode())
            return 0
        openflow = Address.parse(options.openflow)
        if not openflow.port and not openflow.path.startswith("/"):
            hint = "write 127.0.0.1:6653, or unix: and an absolute path"
            raise UsageError(f"{options.openflow!r} is not a place for switches to connect to; {hint}")
        _run(options.library, openflow)
    except XoffError as error:
        print(f"controllers: {error}", file=sys.stderr)
        return error.exit_code


def _run(name: str | None, openflow: Address) -> NoReturn:
    Settings.read()  # what is wrong with them is said before anything starts
    openflow.check_open("switches", os.environ)
    _allow_descriptors()
    sys.setswitchinterval(_SWITCH_S)
    package = library.choose(name)
    _check_free(openflow)
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s", stream=sys.stderr)
    logging.getLogger(package).setLevel(logging.WARNING)
    for quiet in (f"{package}.controller", "OFPHandler"):
        logging.getLogger(quiet).setLevel(logging.CRITICAL)  # `switches` has a line for what fails there
    try:
        code = _serve(package, openflow)
    except XoffError as error:
        print(f"controllers: {error}", file=sys.stderr)
        code = error.exit_code
    except Exception:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    # The library's own threads wait for switches and never end, so an exception alone would leave the process running.
    os._exit(code)


def _serve(package: str, openflow: Address) -> int:
    """Run the controller until it is stopped."""
    app = _start(package, openflow)
    hub = importlib.import_module(f"{package}.lib.hub")

    def end(number: int, frame: FrameType | None) -> None:
        app.io_loop.stop()

    def reload(number: int, frame: FrameType | None) -> None:
        app.io_loop.reload()

    signal.signal(signal.SIGHUP, reload)
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    io_loop = app.io_loop
    print(f"agents {io_loop.agents_at}, REST {io_loop.rest_at}, OpenFlow {openflow}, {app.library}", flush=True)
    hub.joinall([app.serving])
    print("ended" if io_loop.defect is None else "ended by a defect", flush=True)
    if openflow.path:
        Path(openflow.path).unlink(missing_ok=True)
    return 0 if io_loop.defect is None else 1


def _start(package: str, openflow: Address) -> Any:
    """Start the application as os-ken's and Ryu's own launchers do, which have the same parts."""
    if package == "ryu":
        library.load_ryu()
    app_manager = importlib.import_module(f"{package}.base.app_manager")
    importlib.import_module(f"{package}.controller.controller")  # declares the options that follow
    if openflow.path:
        os.umask(0o177)  # a socket for our user only
    # With a path the port means nothing, but without any the library listens at its own two.
    arguments = ["--ofp-listen-host", openflow.path or openflow.host, "--ofp-tcp-listen-port", str(openflow.port or 1)]
    configuration = importlib.import_module(f"{package}.cfg")
    configuration.CONF(arguments, project=package, version="xoff", default_config_files=[])
    # Asked for a sign of life every so often; os-ken notices in no other way that a switch has gone.
    configuration.CONF.set_override("echo_request_interval", _ECHO_S)
    configuration.CONF.set_override("maximum_unreplied_echo_requests", 1)
    manager = app_manager.AppManager.get_instance()
    manager.load_apps(["controllers.xoff_controller", f"{package}.controller.ofp_handler"])
    manager.instantiate_apps(**manager.create_contexts())
    return app_manager.lookup_service_brick("XoffController")


def _allow_descriptors() -> None:
    """Raise the limit of file descriptors to the number that all connections may need, if the machine allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < _DESCRIPTORS and soft != resource.RLIM_INFINITY:
        with contextlib.suppress(OSError, ValueError):
            most = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _check_free(address: Address) -> None:
    """Raise an error if the address for switches is taken; the library would only log that."""
    family = socket.AF_UNIX if address.path else socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            if address.path:
                address.clear()
                probe.bind(address.path)
                Path(address.path).unlink()
            else:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((address.host, address.port))
        except OSError as error:
            why = f"cannot listen at {address} for switches: {error.strerror}; choose another with --openflow"
            raise UsageError(why) from None


if __name__ == "__main__":
    sys.exit(main())
