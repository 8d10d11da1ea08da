"""`xoff switch fit`: whether a cable of some length fits a port of a SONiC switch, and the configuration that makes it
fit. It needs no lab."""

from __future__ import annotations

import argparse
import json

from testbed.cli.arguments import above_zero, whole_number
from testbed.errors import UsageError
from testbed.lab.results.result import Exit
from testbed.subjects.sonic.check import CELL
from testbed.subjects.sonic.fit import Fit, Verdict, chosen, in_metres
from testbed.subjects.sonic.fit import fit as of_port
from testbed.subjects.sonic.headroom import fec_of
from testbed.subjects.sonic.lab.settings import read_octets
from testbed.subjects.sonic.read import read
from testbed.subjects.sonic.tables import Tables
from testbed.switch.headroom.extras import Extras, Fec, read_fec
from testbed.units import Duration, Length


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="config_db.json of the switch")
    parser.add_argument("--port", required=True, metavar="PORT", help="a port or a port channel, as in Ethernet0")
    parser.add_argument(
        "--length", type=above_zero(Length, "50km"), metavar="L", help="length of the cable (default: CABLE_LENGTH's)"
    )
    extra_options(parser, "default: that of the port in the file")
    parser.add_argument(
        "--cell", type=whole_number(1, CELL), default=CELL, metavar="N", help=f"bytes of a buffer cell (default {CELL})"
    )


def extra_options(parser: argparse.ArgumentParser, default: str) -> None:
    """Add the options for what a link has beside its cable."""
    parser.add_argument("--fec", choices=list(Fec), help=f"forward error correction ({default})")
    parser.add_argument("--macsec", action="store_true", help="the link has MACsec (802.1AE)")
    parser.add_argument(
        "--optics", metavar="T", default="0s",
        help="what one optical module takes in each direction, by its data sheet, as in 5us for a coherent one",
    )  # fmt: skip


def extras(options: argparse.Namespace, fec: Fec) -> Extras:
    """Return what the options say of the link; `fec` is that without an option."""
    chosen_fec = fec if options.fec is None else read_fec(options.fec)
    try:
        optics = Duration(options.optics)
    except UsageError as error:
        raise UsageError(f"--optics: {error}") from None
    return Extras(chosen_fec, options.macsec, optics)


def fit(options: argparse.Namespace) -> int:
    """Say in a sentence whether a cable fits a port of a SONiC switch, with the configuration that makes it fit. The
    exit code is 0 if it fits as it is."""
    tables = read(read_octets(options.file)).require(options.file)
    fits = []
    for port in chosen(tables, options.port):
        length = options.length or _length(tables, port)
        fits.append(of_port(tables, port, length, options.cell, extras(options, fec_of(tables, port))))
    if options.json:
        print(json.dumps([_as_json(one) for one in fits], indent=1))
    else:
        for one in fits:
            print(one.sentence)
            if one.patch:
                print(json.dumps(one.patch))
    return Exit.OK if all(one.verdict is Verdict.FITS for one in fits) else Exit.FAILED


def _length(tables: Tables, port: str) -> Length:
    if port not in tables.cables:
        raise UsageError(f"CABLE_LENGTH has no length for {port}; --length 50km gives one")
    return Length(in_metres(Length(tables.cables[port])))


def _as_json(one: Fit) -> dict[str, object]:
    return {
        "port": one.port,
        "verdict": str(one.verdict),
        "sentence": one.sentence,
        "needed_least": one.need.least,
        "needed_most": one.need.most,
        "has": one.has,
        "config": one.patch,
    }
