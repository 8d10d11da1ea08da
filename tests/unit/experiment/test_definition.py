"""Definitions of experiments: they are found, their parameters are read, mistakes are named."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import UsageError
from testbed.experiment import definition, module_level
from testbed.experiment.definition import Experiment
from testbed.experiment.parameters import Between, ExperimentError, OneOf, Parameter
from testbed.experiment.run import Run, plain
from testbed.lab import experiment
from testbed.units import Duration, Length, Rate, Scale, Size

NO_RUN = cast(Run, SimpleNamespace(is_in_lab_time=False, write_rest=lambda: None))
Write = Callable[..., Path]


@experiment(timeout="5s")
def every_kind(  # type: ignore[no-untyped-def]
    run: Run,
    *,
    count: int = 4,
    share: float = 0.5,
    fast: bool = True,
    name: str = "a b",
    rate: Rate = Rate("25Gb/s"),
    cable: Length = Length("50km"),
    delay: Duration = Duration("1ms"),
    buffer: Size = Size("9216B"),
    scale: Scale = Scale(1000),
    guessed=7,
) -> None:
    """One parameter of each kind.

    More that is not the summary.
    """
    seen.append({name: value for name, value in locals().items() if name != "run"})


seen: list[dict[str, Any]] = []
DEFAULTS: dict[str, Any] = {
    "count": 4,
    "share": 0.5,
    "fast": True,
    "name": "a b",
    "rate": Rate("25Gb/s"),
    "cable": Length("50km"),
    "delay": Duration("1ms"),
    "buffer": Size("9216B"),
    "scale": Scale(1000),
    "guessed": 7,
}


def complaint(call: Callable[[], object]) -> str:
    with pytest.raises(ExperimentError) as caught:
        call()
    assert caught.value.exit_code == 2
    return str(caught.value)


# The decorator


def test_threads_that_load_one_file_all_find_what_is_in_it(experiment_file: Write) -> None:
    body = "import threading\nthreading.Event().wait(0.05)\n@experiment()\ndef late(run: Run) -> None: ...\n"
    path = experiment_file(body)
    with ThreadPoolExecutor(4) as pool:
        assert {found.name for found in pool.map(lambda _: definition.load_file(path, "late"), range(4))} == {"late"}


def test_an_experiment_has_its_name_summary_time_limit_and_file() -> None:
    assert isinstance(every_kind, Experiment)
    assert every_kind.name == "every_kind"
    assert every_kind.summary == "One parameter of each kind."
    assert every_kind.timeout == Duration("5s")
    assert every_kind.source == Path(__file__).resolve()
    assert every_kind.files == ()


def test_parameters_are_those_of_the_function_but_for_the_run() -> None:
    assert {p.name: p.default for p in every_kind.parameters} == DEFAULTS
    assert [p.kind for p in every_kind.parameters] == [
        int, float, bool, str, Rate, Length, Duration, Size, Scale, int,
    ]  # fmt: skip


def test_without_a_docstring_the_summary_is_empty() -> None:
    @experiment()
    def silent(run: Run) -> None: ...

    assert silent.summary == ""
    assert silent.timeout == Duration("60s")


def test_a_parameter_without_a_default_is_refused() -> None:
    def lacking(run: Run, hosts: int) -> None: ...

    assert complaint(lambda: experiment()(lacking)) == "lacking: the parameter hosts needs a default value"


def test_a_parameter_of_a_type_that_cannot_be_set_is_refused() -> None:
    def listing(run: Run, hosts: list = []) -> None: ...  # type: ignore[type-arg] # noqa: B006

    assert complaint(lambda: experiment()(listing)) == (
        "listing: the parameter hosts has the type <class 'list'>; "
        "int, float, bool, str, File and the types of testbed.units can be set"
    )


# Reading parameters


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (int, "8", 8),
        (int, "-3", -3),
        (float, "0.25", 0.25),
        (float, "1e-9", 1e-9),
        (str, "", ""),
        (str, "no", "no"),
        (Rate, "25gbit", Rate("25Gb/s")),
        (Length, "3 m", Length("3m")),
        (Duration, "3.3us", Duration("3.3us")),
        (Size, "1KiB", Size("1024B")),
        (Scale, "x10", Scale(10)),
        *[(bool, text, True) for text in ("yes", "true", "on", "1", "YES", "True")],
        *[(bool, text, False) for text in ("no", "false", "off", "0", "No", "False")],
    ],
)
def test_text_is_read_by_the_type(kind: type, text: str, value: object) -> None:
    found = Parameter("it", kind, None).read(text)
    assert found == value
    assert type(found) is kind


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (int, "many", "it=many: a whole number is expected"),
        (int, "1.5", "it=1.5: a whole number is expected"),
        (int, "", "it=: a whole number is expected"),
        (float, "half", "it=half: a number is expected"),
        (bool, "maybe", "it=maybe: yes or no is expected"),
        (bool, "", "it=: yes or no is expected"),
        (
            Rate,
            "25",
            "it: '25' is not a rate: it has no unit (b/s, kb/s, Mb/s, Gb/s, Tb/s, Pb/s); write for example '25Gb/s'",
        ),
        (Duration, "5m", "it: '5m' is not a duration: m is metres here, and minutes are min; did you mean '5min'?"),
        (Scale, "0", "it: '0' is not a scale: it must be a whole number from 1 to 1000000; write for example 'x1000'"),
    ],
)
def test_text_that_cannot_be_read_is_refused_with_what_is_expected(kind: type, text: str, message: str) -> None:
    assert complaint(lambda: Parameter("it", kind, None).read(text)) == message


def test_what_is_not_given_has_its_default() -> None:
    assert every_kind.read_parameters({}) == DEFAULTS
    assert every_kind.read_parameters({"count": "9", "rate": "1Mb/s"}) == DEFAULTS | {
        "count": 9,
        "rate": Rate("1Mb/s"),
    }


def test_values_may_be_given_as_text_or_as_what_they_are() -> None:
    assert every_kind.read_parameters(DEFAULTS) == DEFAULTS
    assert every_kind.read_parameters({"fast": False, "scale": Scale(2)})["fast"] is False


@given(
    st.fixed_dictionaries(
        {
            "count": st.integers(),
            "share": st.floats(allow_nan=False, allow_infinity=False),
            "fast": st.booleans(),
            "name": st.text(),
            "rate": st.integers(0, Rate.limit).map(Rate.from_bps),
            "cable": st.integers(0, Length.limit).map(Length.from_mm),
            "delay": st.integers(0, Duration.limit).map(Duration.from_ps),
            "buffer": st.integers(0, Size.limit).map(Size.from_bytes),
            "scale": st.integers(1, Scale.limit).map(Scale),
            "guessed": st.integers(),
        }
    )
)
def test_values_reach_the_function_exactly_though_they_travel_as_json(values: dict[str, Any]) -> None:
    seen.clear()
    travelling = {name: str(value) if isinstance(value, float) else plain(value) for name, value in values.items()}
    every_kind.perform(NO_RUN, travelling)
    assert seen == [values]


def test_an_unknown_parameter_is_refused_with_the_nearest_or_all() -> None:
    assert complaint(lambda: every_kind.read_parameters({"cont": "3"})) == (
        "every_kind has no parameter cont; did you mean count?"
    )
    assert complaint(lambda: every_kind.read_parameters({"zzz": "3"})) == (
        "every_kind has no parameter zzz; it has count, share, fast, name, rate, cable, delay, buffer, scale, guessed"
    )

    @experiment()
    def bare(run: Run) -> None: ...

    assert complaint(lambda: bare.read_parameters({"n": "3"})) == "bare has no parameter n; it has none"


# Files

ONE = """
@experiment()
def one(run: Run, hosts: int = 2) -> None:
    "The one."
"""
TWO = f"{ONE}\n@experiment()\ndef two(run: Run) -> None: ...\n"


def test_the_experiment_of_a_file_is_found(experiment_file: Write) -> None:
    path = experiment_file(ONE)
    found = definition.load_file(path)
    assert (found.name, found.summary, found.source) == ("one", "The one.", path.resolve())
    assert definition.load_file(path, "one").name == "one"
    assert definition.find(str(path)).name == "one"
    assert definition.find(f"{path}:one").name == "one"


def test_a_file_is_found_by_a_relative_path(experiment_file: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = experiment_file(ONE)
    monkeypatch.chdir(path.parent)
    assert definition.find("mine.py").source == path.resolve()


def test_annotations_may_be_postponed(tmp_path: Path, experiment_file: Write) -> None:
    path = experiment_file("")
    path.write_text(f"from __future__ import annotations\nfrom testbed.lab import Run, experiment\n{ONE}")
    assert [p.kind for p in definition.load_file(path).parameters] == [int]


def test_of_several_experiments_one_is_named(experiment_file: Write) -> None:
    path = experiment_file(TWO)
    assert definition.find(f"{path}:two").name == "two"
    assert complaint(lambda: definition.find(str(path))) == (
        f"{path} holds several experiments; name one, as in {path}:one"
    )
    assert complaint(lambda: definition.find(f"{path}:three")) == f"{path} has no experiment three; it has one, two"


def test_an_experiment_that_a_file_only_imports_is_not_its_own(experiment_file: Write) -> None:
    path = experiment_file(f"from experiments.hello import hello\n{ONE}")
    assert definition.load_file(path).name == "one"


def test_two_files_of_one_name_are_two_files(experiment_file: Write) -> None:
    first, second = experiment_file(ONE, "a/same.py"), experiment_file(TWO, "b/same.py")
    assert definition.load_file(first).source == first.resolve()
    assert definition.load_file(second, "two").source == second.resolve()
    assert definition.load_file(first).source == first.resolve()


def test_a_file_that_is_not_there_or_holds_none_is_refused(experiment_file: Write, tmp_path: Path) -> None:
    assert complaint(lambda: definition.find("nowhere.py")) == "there is no experiment file nowhere.py"
    assert complaint(lambda: definition.load_file(tmp_path)) == f"there is no experiment file {tmp_path}"
    path = experiment_file("def plain(run: Run) -> None: ...")
    assert complaint(lambda: definition.load_file(path)) == (
        f"{path} holds no function marked with @experiment, and as a script it would do nothing"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import mininet_of_the_lab.net", "{} imports mininet_of_the_lab, which is not here; if the lab has it "
         "(Mininet, for one), import it inside the experiment's function"),
        ("1 / 0", "{} cannot be read: ZeroDivisionError: division by zero"),
        ("def (", "{} cannot be read: SyntaxError: "),
        ("@experiment()\ndef bad(run: Run, hosts: int) -> None: ...",
         "{}: bad: the parameter hosts needs a default value"),
        ("@experiment(timeout='soon')\ndef bad(run: Run) -> None: ...",
         "{}: 'soon' is not a duration: it does not start with a number; write for example '3.3us'"),
        ("@experiment()\ndef bad(run: Run, rate: 'Speed' = 1) -> None: ...",
         "{} cannot be read: NameError: name 'Speed' is not defined"),
    ],
    ids=["import", "raises", "syntax", "parameter", "timeout", "annotation"],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_named_with_the_reason(text: str, message: str, experiment_file: Write) -> None:
    path = experiment_file(text)
    assert complaint(lambda: definition.load_file(path)).startswith(message.format(path))
    assert f"xoff_experiment_{path.stem}" not in sys.modules
    path.write_text(f"from testbed.lab import Run, experiment\n{ONE}\n# mended")
    assert definition.load_file(path).name == "one"


def test_a_file_may_import_what_lies_beside_it(experiment_file: Write) -> None:
    experiment_file("HOSTS = 12", "lab_beside_a.py")
    path = experiment_file(
        "from lab_beside_a import HOSTS\n@experiment()\ndef one(run: Run, hosts: int = HOSTS) -> None: ..."
    )
    before = list(sys.path)
    assert definition.load_file(path).parameters[0].default == 12
    assert sys.path == before


def test_an_experiment_may_import_what_lies_beside_it_when_it_runs(experiment_file: Write) -> None:
    """As it must, when the other file imports what only the lab has."""
    experiment_file("seen = []", "lab_beside_b.py")
    path = experiment_file("@experiment()\ndef one(run: Run) -> None:\n    import lab_beside_b")
    definition.load_file(path).perform(NO_RUN, {})
    assert "lab_beside_b" in sys.modules


# Experiments that come with Xoff


def test_shipped_experiments_are_found_by_name_in_order() -> None:
    names = [e.name for e in definition.shipped()]
    assert "hello" in names
    assert names == sorted(set(names))
    assert definition.find("hello").name == "hello"


def test_every_shipped_experiment_has_a_summary_of_one_line() -> None:
    assert [e.name for e in definition.shipped() if not 10 <= len(e.summary) <= 110] == []


def test_an_unknown_name_is_refused_with_the_nearest_and_the_way_to_the_list() -> None:
    assert complaint(lambda: definition.find("helo")) == (
        "there is no experiment helo; did you mean hello? `xoff list` shows what there is, and FILE.py runs your own"
    )
    assert complaint(lambda: definition.find("quux")) == (
        "there is no experiment quux; `xoff list` shows what there is, and FILE.py runs your own"
    )


# Ranges


def test_a_value_outside_the_range_is_refused_with_the_range() -> None:
    @experiment()
    def ranged(
        run: Run,
        frames: Annotated[int, Between(200, 2000)] = 600,
        wan: Annotated[Length, Between("1km", "100km")] = Length("10km"),
        library: Annotated[str, OneOf("os-ken", "ryu")] = "os-ken",
    ) -> None: ...

    for name, texts in {"frames": ("200", "2000"), "wan": ("1000m", "100km"), "library": ("ryu",)}.items():
        for text in texts:
            assert str(ranged.read_parameters({name: text})[name]) == text.replace("1000m", "1km")
    assert complaint(lambda: ranged.read_parameters({"frames": "199"})) == (
        "frames is 199; what the experiment claims holds for 200 to 2000"
    )
    assert complaint(lambda: ranged.read_parameters({"wan": "101km"})) == (
        "wan is 101km; what the experiment claims holds for 1km to 100km"
    )
    assert complaint(lambda: ranged.read_parameters({"library": "nox"})) == (
        "library is nox; what the experiment claims holds for os-ken or ryu"
    )
    assert [str(one) for one in ranged.parameters] == [
        "frames=600 (200 to 2000)",
        "wan=10km (1km to 100km)",
        "library=os-ken (os-ken or ryu)",
    ]


def test_a_default_outside_its_range_is_refused() -> None:
    def wrong(run: Run, frames: Annotated[int, Between(200, 2000)] = 100) -> None: ...

    assert complaint(lambda: experiment()(wrong)) == "wrong: frames is 100 by default, which is not 200 to 2000"


def test_every_parameter_of_a_shipped_experiment_has_a_range() -> None:
    without = [
        f"{one.name} {parameter.name}"
        for one in definition.shipped()
        for parameter in one.parameters
        if parameter.kind is not bool and parameter.limits is None and parameter.default is not None
    ]
    assert without == []


# The decorator


def test_the_decorator_needs_no_parentheses() -> None:
    @experiment
    def bare(run: Run, hosts: int = 4) -> None:
        """No options."""

    assert (bare.name, bare.summary, str(bare.timeout), bare.packages) == ("bare", "No options.", "60s", ())
    assert bare.read_parameters({"hosts": "3"}) == {"hosts": 3}


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: experiment("30s"), "@experiment('30s'): options have names, as in @experiment(timeout='30s')"),  # type: ignore[call-overload]
        (lambda: experiment(files="data.csv"), "files='data.csv': a list is expected, as in files=['data.csv']"),
        (lambda: experiment(packages="numpy"), "packages='numpy': a list is expected, as in packages=['numpy']"),
    ],
)
def test_options_in_a_wrong_form_are_refused(use: Any, message: str) -> None:
    with pytest.raises(ExperimentError) as caught:
        use()
    assert str(caught.value) == message


def test_networks_find_the_run_of_the_experiment_at_work() -> None:
    found: list[Any] = []

    @experiment
    def asks(run: Run) -> None:
        found.append(Run.current())

    run: Any = SimpleNamespace(is_in_lab_time=False, write_rest=lambda: None)
    asks.perform(run, {})
    assert found == [run]
    assert Run.current() is None


def test_an_experiment_and_each_part_of_it_has_its_own_meaning_of_times() -> None:
    seen: list[bool] = []

    @experiment(_in_lab_time=True)
    def by_the_lab(run: Run) -> None:
        seen.append(run.is_in_lab_time)

    @experiment
    def by_the_hardware(run: Run) -> None:
        seen.append(run.is_in_lab_time)
        by_the_lab(run)
        seen.append(run.is_in_lab_time)

    run: Any = SimpleNamespace(is_in_lab_time=False, write_rest=lambda: None)
    by_the_hardware.perform(run, {})
    assert seen == [False, True, False]
    by_the_lab.perform(run, {})
    assert seen[3:] == [True]
    assert run.is_in_lab_time is False


@pytest.mark.parametrize(
    ("text", "waiting", "limit"),
    [
        ("def loop():\n    while True:\n        pass\nloop()", 10**6, "0.3 s of CPU time"),
        ("import time\ndef loop():\n    time.sleep(3600)\nloop()", 10, "3 s"),
    ],
    ids=["endless", "asleep"],
)
def test_a_file_that_never_ends_is_named_with_the_line_and_the_way_out(
    text: str, waiting: int, limit: str, experiment_file: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module_level, "WAITING", waiting)
    path = experiment_file(text)
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(UsageError) as raised:
        definition.load_file(path, within_s=0.3)
    found = re.fullmatch(
        rf"{re.escape(str(path))} did not come to the end of its module level within {re.escape(limit)}; "
        rf"it was in loop, at line (\d+) of {re.escape(str(path))}\. "
        r"This machine reads the file too, for its parameters: "
        r"what takes longer belongs into the experiment's function",
        str(raised.value),
    )
    assert found is not None, raised.value
    assert "def loop" in "".join(path.read_text().splitlines(True)[: int(found[1])])
    assert signal.getsignal(signal.SIGALRM) == before and signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    path.write_text("from testbed.lab import experiment\n\n\n@experiment\ndef ends(run):\n    pass\n")
    assert definition.load_file(path, within_s=0.3).name == "ends", "nothing is left of the half that was read"


def test_a_file_that_only_waits_for_the_cpu_is_read(experiment_file: Write) -> None:
    """On a busy machine the clock goes on, and the file takes no CPU time."""
    text = (
        "import time\ntime.sleep(0.2)\nfrom testbed.lab import experiment\n\n\n@experiment\ndef ends(run):\n    pass\n"
    )
    assert definition.load_file(experiment_file(text), within_s=0.1).name == "ends"


def test_a_limit_for_a_file_leaves_the_timer_of_its_caller_as_it_is(experiment_file: Write) -> None:
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 3600)
    try:
        definition.load_file(experiment_file("@experiment\ndef ends(run):\n    pass\n"), within_s=30)
        assert 3500 < signal.getitimer(signal.ITIMER_REAL)[0] <= 3600
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_package_that_is_not_here_is_named_with_the_option_that_brings_it(experiment_file: Write) -> None:
    path = experiment_file("import no_such_package.linalg\n@experiment\ndef e(run): ...\n")
    with pytest.raises(
        ExperimentError, match=r"imports no_such_package, which is not here; .* with --with no_such_package"
    ):
        definition.load_file(path)


def test_interfaces_that_the_kernel_lacks_are_named_before_a_run(
    experiment_file: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "from testbed.lab import experiment\n\n\n@experiment\ndef ends(run):\n"
    text += "    cmd('ip link add wg0 type wireguard')\n"
    path = experiment_file(text + "    cmd('ip link add v0 type veth; ip link add x type  vxlan id 1')\n")
    definition.load_file(path, within_s=30)
    said = capsys.readouterr().err
    assert "warning: mine.py asks for vxlan, wireguard, and the kernel of the engine um has no WireGuard" in said
    definition.load_file(path)
    assert capsys.readouterr().err == "", "in the lab it is not said once more"
