"""`xoff help`: all commands, more about one of them, or about a topic."""

from __future__ import annotations

import argparse
from typing import NamedTuple

import testbed
from testbed.cli import build_parser, commands
from testbed.cli.arguments import hint
from testbed.errors import UsageError
from testbed.lab.results.result import Exit

EXIT_CODES = """\
  0    fine
  1    a claim or a test did not hold
  2    the command line is wrong (a typo, a bad value)
  3    this machine: something is missing, no room, the lab broke down
  4    the experiment raised an error
  5    the experiment reached a limit of time, memory or processes
  6    the run is fine, but the lab did not keep its fidelity bounds (--allow-degraded)
  7    a defect of xoff itself, with a traceback
  130  interrupted; 143 after SIGTERM, 129 when the terminal has gone
"""


class Topic(NamedTuple):
    """A subject that several commands have in common, explained in a few lines."""

    summary: str
    text: str
    pages: tuple[str, ...] = ()
    """Pages of the documentation that say more."""


TOPICS = {
    "experiments": Topic(
        "names, files, parameters, and experiments of your own",
        """\
An experiment is a Python function with @experiment: a network, traffic, and what has to come out.

  xoff list                           those that come with Xoff, with parameters and their ranges
  xoff run incast --set frames=1000   one of them, with another value of a parameter; --set may be repeated
  xoff new experiment mine            a file of your own that works, mine.py
  xoff run mine.py                    all of a file that is an experiment; mine.py:NAME is one of several

Quantities have units: 10Gb/s, 50km, 5us, 1MB. A FILE.py is imported on this machine too, as you.
Every random choice follows --seed N; two runs with the same code, parameters and seed have the same digest.
""",
        ("docs/howto/own-experiment.md", "docs/start/tutorial.md"),
    ),
    "results": Topic(
        "what a run leaves behind, and what can be made of it",
        """\
Each run leaves a folder, results/NAME-001 and so on; --out DIR puts it elsewhere.

  result.json     figures, claims, parameters, seed, versions, fidelity, and a digest of all that must repeat
  events.jsonl    the event log: pauses, drops, DCBX, in virtual time
  flows.jsonl     each flow that ended: size, completion time, losses
  output.log      what the experiment printed
  captures/       all cables, with xoff run --capture

  xoff report results/NAME-001                 one HTML page; several folders are shown side by side
  xoff serve results/NAME-001                  the run as a replay in the browser
  xoff export results/NAME-001 --csv           a table; also --perfetto, --parquet, --pcapng, --ladder
  xoff plot cdf results/NAME-001               a figure for a paper; xoff help plots has the kinds
  xoff compare results/NAME-001 results/NAME-002
  xoff decode results/NAME-001 --kind pfc      frames of the captures in words
""",
        ("docs/lab.md", "docs/reports.md", "docs/captures.md"),
    ),
    "plots": Topic(
        "figures of results for papers and slides",
        """\
  cdf        distribution of a value of flows (--of completion, slowdown, delay, goodput, size)
  slowdown   slowdown by flow size: median, 95th and 99th percentile
  rate       rates over time (--of flows, total, links)
  queue      queues over time
  buffer     shared buffer over time
  heat       load of each link over time, as a heat map
  links      mean load of each link of a fabric, a cell for each (--of fabric, hosts, all)
  pauses     pauses over time, by port and priority
  drops      frames dropped over time
  claims     claims beside their bounds
  sweep      a sweep's figures over a parameter, with 95 % intervals (--of a figure's name, or a pattern)

  xoff plot cdf results/a results/b --out cdf.pdf    two results in one figure, with a legend of what differs
  xoff plot heat results/a --size page            the width of a page; column, slide and 85x55 (mm) are others
  xoff plot rate results/a --case 'with*' --only 'h1 to *' --to 200us

Rates, queues, and links over time need a run with --series 10us. A figure's file has the digests of its results.
""",
        ("docs/plots.md",),
    ),
    "fabrics": Topic(
        "topologies of data centres, and which way a flow takes in them",
        """\
  leaf-spine,4,2,8      4 leaves on 2 spines, 8 hosts at each leaf
  fat-tree,4            pods of switches with 4 ports
  clos,2,2,4,2          2 pods of 2 leaves with 4 hosts and half as many uplinks
  rail,4,8,4            4 servers of 8 GPUs, a leaf for each rail, 4 spines
  dragonfly,9,4,2       9 groups of 4 switches

  xoff shell clos,2,2,4,2                      a prompt in one of them
  xoff workload --topo rail,4,8,4              a load of flows
  xoff path h1 h9 --topo fat-tree,4            which way a flow takes, and why
  xoff path h1 h9 --topo fat-tree,4,ways=spray

Switches hash each flow to one of their equal ways; ways=RULE chooses another rule, for all of these names.
""",
        ("docs/fabrics.md", "docs/network.md"),
    ),
    "engines": Topic(
        "the machines that an experiment can run in",
        """\
  --engine um         User-Mode Linux in virtual time, the default; the CPU's work takes no time in it
  --engine vm         Debian's kernel in QEMU in virtual time; an instruction takes a nanosecond
  --engine realtime   the same virtual machine in real time
  --engine host       this machine itself, as root

On um and vm two runs come out the same to the byte, on every machine. xoff doctor --engine E shows what this
machine lacks for an engine; the first run builds what it needs.
""",
        ("docs/lab.md", "docs/engines.md"),
    ),
    "fidelity": Topic(
        "when to believe a run",
        """\
In virtual time a lab that is short of CPU is not slow, it is wrong. So each run has a verdict: did the lab have
idle CPU left, and were its timers and agents on time? A run that is degraded ends with exit code 6;
--allow-degraded takes it all the same. --fidelity idle=5% and --fidelity timer=200us change the bounds.
""",
        ("docs/lab.md",),
    ),
    "exit-codes": Topic("what the exit code of a command means", EXIT_CODES),
    "environment": Topic(
        "environment variables",
        """\
  XOFF_LAB             a prebuilt lab to take in place of building one: a file, a folder or an address (docs/lab.md);
                       none: ask no package index for one
  XOFF_CACHE           where Xoff keeps images, kernels and Python environments (default ~/.cache/xoff)
  XOFF_YES=1           install Debian packages that are missing without asking, as --yes does
  XOFF_SR_URL          the controller's address for xoff controller
  XOFF_SR_TOKEN        its token; XOFF_SR_TOKEN_FILE names a file with it
""",
        ("docs/lab.md", "docs/controller.md"),
    ),
    "completion": Topic(
        "have the shell complete commands, experiments and options",
        """\
  eval "$(xoff --completion bash)"             in ~/.bashrc; zsh likewise
  xoff --completion fish | source              in ~/.config/fish/config.fish
""",
    ),
    "pfc": Topic(
        "pauses, buffers and headroom",
        """\
  xoff run incast --report                     two senders and one receiver, with and without PFC
  xoff serve incast,4                          a network in the browser, with controls
  xoff switch headroom --rate 100Gb/s --length 300m
  xoff lesson start 1                          the guided lab
""",
        ("docs/pfc.md", "docs/headroom.md", "docs/concepts/pause.md"),
    ),
    "sonic": Topic(
        "a switch that has a config_db.json",
        """\
  xoff switch check FILE                       what is wrong or risky in it
  xoff switch run FILE --workload incast,8     traffic over such a switch
  xoff switch conformance FILE                 SONiC's test plans on it
""",
        ("docs/sonic.md", "docs/conformance.md"),
    ),
}


def options(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument("words", nargs="*", metavar="COMMAND or TOPIC", help=f"topics: {', '.join(TOPICS)}")
    what.completer = lambda **_: [*commands.by_name(), *TOPICS]  # type: ignore[attr-defined]


def help_(options: argparse.Namespace) -> int:
    """Show all commands and topics, the options of a command, or the explanation of a topic."""
    words: list[str] = options.words
    if not words:
        print(commands.overview())
        _print_topics()
        return Exit.OK
    if len(words) == 1 and (topic := TOPICS.get(words[0])) is not None:
        print(topic.text, end="")
        if topic.pages:
            where = "" if _has_pages() else " in the source"
            print(f"\nmore{where}: {', '.join(topic.pages)}")
        return Exit.OK
    if words[0] not in commands.by_name():
        offered = [*commands.by_name(), *TOPICS]
        raise UsageError(f"there is no command and no topic {words[0]}; {hint(words[0], offered)}")
    build_parser(*words).parse_args([*words, "--help"])
    raise AssertionError("argparse ends after --help")


def _print_topics() -> None:
    print("topics, for xoff help TOPIC:")
    width = max(map(len, TOPICS)) + 2
    for name, topic in TOPICS.items():
        print(f"  {name:<{width}}{topic.summary}")


def _has_pages() -> bool:
    from pathlib import Path

    return (Path(testbed.__path__[0]).parent / "docs").is_dir()
