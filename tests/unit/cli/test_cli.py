"""The command line where no lab is needed: help, typos, and what a script gets."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import testbed
from testbed import cli
from testbed.cli import commands, index, main
from testbed.cli.house import help
from testbed.lab.results.result import Exit

ROOT = Path(__file__).parents[3]


def said(capsys: pytest.CaptureFixture[str]) -> str:
    """Return standard error as one line, however wide the terminal is."""
    return " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rnu"], "there is no command rnu; did you mean run?"),
        (
            ["fly"],
            "there is no command fly; there are demo, list, run, report, serve, new, lesson, shell, path, nics, ",
        ),
        (["run"], "the following arguments are required: EXPERIMENT; see xoff run --help"),
        (["run", "helo"], "there is no experiment helo; did you mean hello?"),
        (["run", "nowhere.py"], "there is no experiment file nowhere.py"),
        (["run", "hello", "--set", "host=3"], "hello has no parameter host; did you mean hosts?"),
        (["run", "hello", "--set", "hosts"], "--set hosts: NAME=VALUE is expected, as in --set hosts=8"),
        (["run", "hello", "--set", "hosts=many"], "hosts=many: a whole number is expected"),
        (["run", "hello", "--set", "rate=fast"], "rate: "),
        (
            ["run", "hello", "--engine", "kvm"],
            "argument --engine: there is no engine 'kvm'; did you mean vm?",
        ),
        (
            ["run", "hello", "--engine", "warp"],
            "argument --engine: there is no engine 'warp'; there are um, vm, realtime, host; see xoff run --help",
        ),
        (["shell", "star", "--engine", "vm"], "there is no engine 'vm'; there are um, realtime, host"),
        (
            ["run", "hello", "--timeout", "30"],
            "argument --timeout: '30' is not a duration: it has no unit (ps, ns, us, ms, s); write for example '30s'",
        ),
        (["run", "hello", "--wall-timeout", "0s"], "argument --wall-timeout: '0s' is nothing; write for example '30s'"),
        (["run", "hello", "--seed", "abc"], "argument --seed: 'abc' is not a whole number from 0 up, such as 7"),
        (["run", "hello", "--seed", "-1"], "argument --seed: '-1' is not a whole number from 0 up, such as 7"),
        (["run", "hello", "--memory", "-5"], "argument --memory: '-5' is not a whole number from 1 up, such as 500"),
        (["run", "hello", "--processes", "0"], "argument --processes: '0' is not a whole number from 1 up"),
        (
            ["switch", "headroom", "--rate", "1Gb/s", "--length", "-5m"],
            "--length: '-5m' is not a length: it is negative",
        ),
        (["run", "hello", "--fidelity", "speed=1"], "--fidelity speed=1: there are idle=5%, timer=200us"),
        (["run", "hello", "-j", "0"], "argument -j: '0' is not a whole number from 1 up, such as 2"),
        (["shell", "stra"], "there is no topology stra; did you mean star?"),
        (["image", "shine"], "there is no image command 'shine'; there are build, info, export, import, clean, lock; "),
        (
            ["switch"],
            "required: WHAT, one of check, run, conformance, incident, counters, diff, fit, headroom, credits, "
            "replay, thresholds, ecn; see xoff switch "
            "--help",
        ),
        (["image", "claen"], "there is no image command 'claen'; did you mean clean?"),
        (["switch", "chekc", "f"], "there is no switch command 'chekc'; did you mean check?"),
        (["controller", "sr", "topologie"], "there is no controller sr command 'topologie'; did you mean topology?"),
        (["lesson", "chekc"], "there is no lesson command 'chekc'; did you mean check?"),
        (["headrom"], "there is no command headrom; did you mean switch headroom?"),
        (["help", "engnes"], "there is no command and no topic engnes; did you mean engines?"),
        (
            ["switch", "run", "f", "--worklaod=x"],
            "xoff switch run does not take --worklaod=x; did you mean --workload?",
        ),
        (["doctor", "--engine", "kvm"], "there is no engine 'kvm'; did you mean vm?"),
        (["test", "--unti"], "xoff test does not take --unti; did you mean --unit?"),
        (["test", "--al"], "xoff test does not take --al; did you mean --all?"),
        (["run", "hello", "--timeoutt=3s"], "xoff run does not take --timeoutt=3s; did you mean --timeout?"),
        (["image", "clean", "up"], "xoff image clean does not take up; see xoff image clean --help"),
        (["--verbose"], "xoff does not take --verbose; did you mean --version?"),
        (["--completion", "tcsh"], "argument --completion: invalid choice: 'tcsh'"),
    ],
)
def test_a_mistake_gets_one_line_that_names_it_and_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    text = said(capsys)
    assert text.startswith("xoff: ")
    assert message in text
    assert "Traceback" not in text


def test_an_experiment_that_cannot_be_read_is_named_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = {
        "import mininet.net\n": "which is not here; if the lab has it (Mininet, for one), import it inside",
        "def broken(:\n": "cannot be read: SyntaxError",
        "x = 1\n": "holds no function marked with @experiment",
        "from testbed.lab import experiment\n@experiment()\ndef e(run, n): ...\n": "the parameter n needs a default",
    }
    for number, (text, message) in enumerate(cases.items()):
        file = tmp_path / f"mine{number}.py"
        file.write_text(text)
        assert main(["run", str(file)]) == 2
        assert message in said(capsys)


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    text = capsys.readouterr().out
    for command in commands.by_name():
        assert re.search(rf"^  {command}\b", text, re.MULTILINE)
    assert "exit-codes" in text


def test_the_first_group_of_commands_is_in_the_readme() -> None:
    first = next(iter(commands.groups().values()))
    named = re.findall(r"(?:`|^    )\./xoff (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert set(first) <= set(named)


def test_every_topic_has_a_text_and_pages_that_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help"]) == 0
    overview = capsys.readouterr().out
    for name, topic in help.TOPICS.items():
        assert re.search(rf"^  {name} ", overview, re.MULTILINE)
        assert main(["help", name]) == 0
        assert topic.text in capsys.readouterr().out
        assert all((ROOT / page).is_file() for page in topic.pages), name


@pytest.mark.parametrize("name", help.TOPICS)
def test_command_lines_of_a_topic_are_those_that_xoff_takes(name: str) -> None:
    lines = re.findall(r"^  xoff (\w.*?)(?:  .*|\|.*)?$", help.TOPICS[name].text, re.MULTILINE)
    for words in map(shlex.split, lines):
        cli.build_parser(*words).parse_args(words)


@pytest.mark.parametrize("words", [["run"], ["switch"], ["switch", "check"], ["plot"]])
def test_help_of_a_command_is_what_its_option_shows(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for call in (["help", *words], [*words, "--help"]):
        with pytest.raises(SystemExit) as end:
            main(call)
        assert end.value.code == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]
    assert shown[0].startswith("usage: xoff ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_printed_for_each_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--completion", shell])
    assert end.value.code == 0
    assert "xoff" in capsys.readouterr().out


def test_list_gives_scripts_every_experiment_with_its_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    hello = next(e for e in content["experiments"] if e["name"] == "hello")
    assert hello["parameters"]["rate"] == "100Mb/s"
    assert {"name": "star", "summary": "Hosts around one switch: star,N"} in content["topologies"]


@pytest.mark.slow
def test_completion_offers_commands_and_experiments() -> None:
    def complete(line: str) -> list[str]:
        environment = {
            **os.environ, "_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)),
            "_ARGCOMPLETE_STDOUT_FILENAME": "/dev/stdout", "_ARGCOMPLETE_IFS": "\n", "PYTHONPATH": str(ROOT),
        }  # fmt: skip
        command = [sys.executable, "-m", "testbed"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return [word.strip() for word in done.stdout.split("\n") if word.strip()]

    assert complete("xoff dem") == ["demo"]
    assert complete("xoff run hel") == ["hello"]
    assert complete("xoff shell st") == ["star"]
    assert complete("xoff switch headroom --medium fi") == ["fibre"]
    assert complete("xoff switch con") == ["conformance"]
    assert complete("xoff help eng") == ["engines"]
    assert complete("xoff plo") == ["plot"]


def test_the_front_door_sends_an_old_python_away_with_the_way_out() -> None:
    program = "import sys; sys.version_info = (3, 9, 2); exec(open('xoff').read())"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("xoff: Python 3.11 or newer is needed, this is 3.9")
    assert done.stderr.rstrip().endswith("vagrant up")


def test_another_system_is_told_what_works_there(monkeypatch: pytest.MonkeyPatch) -> None:
    from testbed.cli import machine
    from testbed.lab.host.distribution import PlatformError

    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(PlatformError, match=r"or in a box \(vagrant up\); here work xoff list, report, "):
        machine.check_platform()


def test_a_debian_without_apt_is_not_sent_to_debian(monkeypatch: pytest.MonkeyPatch) -> None:
    from testbed.cli import machine
    from testbed.lab.host import distribution
    from testbed.lab.host.prerequisites import Package

    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(distribution, "name", lambda: "Debian GNU/Linux 12 (bookworm)")
    monkeypatch.setattr(distribution, "remedy", lambda _: "REMEDY")
    said = (
        r"this Debian GNU/Linux 12 \(bookworm\) lacks qemu-imaginary; Xoff installs with apt-get alone, and there is "
        r"none in PATH\. As root: REMEDY\. Or bring the lab from another machine: \./xoff image export FILE there, "
        r"\./xoff image import FILE here, for which Python is enough; or run it in a box: vagrant up && vagrant ssh$"
    )
    with pytest.raises(machine.MachineError, match=said):
        machine.require([Package("qemu-imaginary", "runs the lab", program="no-such-program")], print)


@pytest.mark.parametrize(("user", "wanted"), [(0, False), (1000, True)])
def test_the_doctor_asks_root_for_no_mapping_of_user_ids(
    user: int, wanted: bool, monkeypatch: pytest.MonkeyPatch, xoff_cache: Path
) -> None:
    from testbed.lab.engines.table import ENGINES

    monkeypatch.setattr(os, "geteuid", lambda: user)
    for checks in (ENGINES["vm"].checks(), ENGINES["um"].checks()):
        assert ("uidmap" in {check.what for check in checks}) is wanted
        assert ("user ids for building the image" in {check.what for check in checks}) is wanted


# Every call waits for these imports, so what they cost counts; bench/cli.py measures it.
HEAVY = ("rich", "asyncio", "multiprocessing", "ssl", "http", "urllib.request", "scapy", "mininet")
FOR_RUNS = (
    "testbed.lab.engines.table",
    "testbed.lab.vm.snapshot",
    "testbed.lab.runs.api",
    "testbed.subjects.srv6.protocol",
    "testbed.agent",
    "tomllib",
)
NOT_FOR_LISTS = (
    "asyncio",
    "scapy",
    "mininet",
    "testbed.lab.engines.table",
    "testbed.lab.vm.snapshot",
    "testbed.lab.runs.api",
    "testbed.experiment.definition",
    "testbed.net.traffic",
    "experiments.hello",
)
"""Modules that a list is made without, once there is an index of what is listed."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "unwanted"),
    [
        ("from testbed.cli import main; main([])", (*HEAVY, *FOR_RUNS, "dataclasses", "testbed.units")),
        ("from testbed.cli import main; main(['list'])", (*NOT_FOR_LISTS, "rich.progress", "rich.live")),
        ("import testbed.cli.bootstrap", (*HEAVY, *FOR_RUNS, "dataclasses", "testbed.units", "subprocess")),
    ],
    ids=["help", "list", "front door"],
)
def test_what_a_call_does_not_need_is_not_imported(program: str, unwanted: tuple[str, ...], xoff_cache: Path) -> None:
    index.shipped()
    program += "; import sys; print(sorted(sys.modules), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], cwd=ROOT, capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    imported = set(ast.literal_eval(done.stderr.splitlines()[-1]))
    assert sorted(imported.intersection(unwanted)) == []


def test_every_command_can_be_declared() -> None:
    for words in every_command(commands.by_name()):
        with pytest.raises(SystemExit):
            cli.build_parser(*words).parse_args([*words, "--help"])


def every_command(known: Mapping[str, commands.Command]) -> Iterator[tuple[str, ...]]:
    """Yield the words of each command, as image and image build."""
    for name, command in known.items():
        yield (name,)
        for words in every_command(command.parts):
            yield (name, *words)


def test_missing_packages_are_named_with_their_reason_before_anything_is_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from testbed.cli import machine
    from testbed.lab.host.prerequisites import Package

    said: list[str] = []
    monkeypatch.setattr(machine, "install", lambda names, report: said.append(f"INSTALL {names}"))
    absent = Package("qemu-imaginary", "runs the lab", program="no-such-program")
    present = Package("coreutils", "is there", program="ls")
    with pytest.raises(machine.MachineError, match="installed, but still not found: qemu-imaginary"):
        machine.require([absent, present], said.append)
    assert said == ["this machine needs:", "  qemu-imaginary  runs the lab", "INSTALL ['qemu-imaginary']"]
    machine.require([present], said.append)
    assert len(said) == 3


def test_a_python_package_that_is_missing_is_named_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "rich.table", None)
    assert main(["list"]) == Exit.MACHINE
    line = said(capsys)
    assert "has no Python package rich.table; ./xoff in the source has all that it takes" in line
    assert "Traceback" not in line


def test_an_unexpected_exception_is_no_failed_claim(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def break_down() -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr(index, "shipped", break_down)
    assert main(["list"]) == Exit.DEFECT
    line = said(capsys)
    assert "RecursionError: too deep" in line
    assert "this is a defect of xoff" in line


class Terminal:
    """A standard input at which a user types."""

    def __init__(self, line: str) -> None:
        self.line = line

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        return self.line


@pytest.mark.parametrize(
    ("line", "arguments", "variable", "installs"),
    [
        ("\n", [], "", True),
        ("y\n", [], "", True),
        ("YES\n", [], "", True),
        ("n\n", [], "", False),
        ("", [], "", False),
        ("what?\n", [], "", False),
        ("n\n", ["run", "--yes"], "", True),
        ("n\n", [], "1", True),
    ],
)
def test_at_a_terminal_nothing_is_installed_without_a_yes(  # noqa: PLR0917
    line: str,
    arguments: list[str],
    variable: str,
    installs: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from testbed.cli import machine
    from testbed.lab.host.prerequisites import Package

    done: list[str] = []
    monkeypatch.setattr(machine, "install", lambda names, report: done.extend(names))
    monkeypatch.setattr(sys, "stdin", Terminal(line))
    monkeypatch.setattr(sys, "argv", ["xoff", *arguments])
    monkeypatch.setenv("XOFF_YES", variable)
    absent = Package("qemu-imaginary", "runs the lab", program="no-such-program")
    with pytest.raises(machine.MachineError) as caught:
        machine.require([absent], lambda _: None)
    if installs:
        assert (done, str(caught.value).partition(";")[0]) == (
            ["qemu-imaginary"],
            "installed, but still not found: qemu-imaginary",
        )
    else:
        assert done == []
        assert str(caught.value) == (
            "nothing was installed; `apt-get install qemu-imaginary` does it, and --yes here does not ask"
        )
    asked = "install them with apt-get?" in capsys.readouterr().err
    assert asked is not bool(arguments or variable)


def test_every_command_that_installs_packages_takes_yes() -> None:
    for line in (
        "demo --yes", "doctor --yes", "image build --yes", "run --yes hello", "shell --yes star", "test --yes",
        "switch run --yes f", "switch conformance --yes",
    ):  # fmt: skip
        words = line.split()
        assert cli.build_parser(*words).parse_args(words).yes


def test_the_version_is_the_packages_own(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"xoff {testbed.__version__}\n"


def test_the_host_engines_python_parts_are_those_of_the_image_and_of_pip() -> None:
    from testbed.lab.host import prerequisites
    from testbed.lab.image import recipe

    parts = {part["name"]: part["version"] for part in prerequisites.table()["host"]["python"]}
    assert parts.items() <= recipe.locked_versions().items()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["optional-dependencies"]["host"] == [f"{name}=={version}" for name, version in parts.items()]


@pytest.mark.parametrize("word", ["--out", "-o", "--output"])
@pytest.mark.parametrize(
    "words",
    [["report", "r"], ["plot", "cdf", "r"], ["export", "r", "--csv"], ["artifact", "r"], ["run", "hello"], ["verify"],
     ["benchmark"], ["sweep", "hello"], ["switch", "conformance"], ["docs"], ["demo"], ["shell", "star"]],
    ids=lambda words: words[0],
)  # fmt: skip
def test_what_a_command_writes_has_one_option_and_its_other_spellings_are_understood(
    words: list[str], word: str
) -> None:
    assert cli.build_parser(*words).parse_args([*words, word, "there"]).out == Path("there")


def test_the_other_spellings_are_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.build_parser("report").parse_args(["report", "--help"])
    shown = capsys.readouterr().out
    assert "--out FILE" in shown and "--output" not in shown and "-o" not in shown.split()
