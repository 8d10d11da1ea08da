"""An experiment: a function with typed parameters, in a file of its own.

    @experiment(timeout="30s")
    def hello(run: Run, hosts: int = 4, rate: Rate = Rate("100Mb/s")) -> None:
        "Four hosts on one switch."

Its file is read on the user's machine (to list it and to check parameters) and again in the lab, where
it runs. So a package that only the lab has is imported inside the function; `xoff` has all else.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any, overload

from testbed import plugins, shipped_packages
from testbed.errors import UsageError
from testbed.experiment import script
from testbed.experiment.module_level import ending_within, importing_from_folder_of
from testbed.experiment.parameters import ExperimentError, Parameter, parameters_of
from testbed.experiment.run import Run, running
from testbed.experiment.script import ScriptKind
from testbed.plugins import Plugin
from testbed.units import Duration

_IMPORTING = threading.RLock()
DEBIAN = "deb:"
"""The beginning of a Debian package's name among those of packages of all kinds."""
READ_WITHIN_S = 30.0
"""The limit in seconds of CPU time for the module level of a user's file on this machine."""


@dataclass(frozen=True)
class Origin:
    """The command by which a user selected an experiment."""

    words: tuple[str, ...]
    """The words after `xoff`, as in ("run", "mine.py:two")."""
    files: tuple[str, ...] = ()
    """The user's files among them, as they were given."""
    takes_parameters: bool = True
    """True if parameters are given by --set; otherwise the words have them."""
    takes_options: bool = True
    """True if the command takes the options of a run, such as --seed."""


@dataclass(frozen=True)
class Experiment:
    """An experiment, as `@experiment` makes it of a function."""

    name: str
    body: Callable[..., None]
    parameters: tuple[Parameter, ...]
    timeout: Duration
    files: tuple[str, ...]
    packages: tuple[str, ...]
    source: Path
    script: ScriptKind | None = None
    """The kind of script, if it is a whole file that is run as a program; None for a function."""
    origin: Origin | None = None
    """The command that selected the experiment; None if it was selected by its name."""
    in_lab_time: bool = False
    """True if its rates and times are values of the lab."""
    free_cpu: bool = False
    """True if its claims are for labs whose CPU work takes no time, as on `um`."""
    debs: tuple[str, ...] = ()
    """The Debian packages that the image lacks."""
    partitions: int = 1
    """The number of kernels that have each of its networks together."""

    @property
    def further(self) -> tuple[str, ...]:
        """The names of all packages that the image lacks."""
        return (*self.packages, *(f"{DEBIAN}{name}" for name in self.debs))

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        return (inspect.getdoc(self.body) or "").partition("\n")[0]

    def parameter(self, name: str) -> Parameter:
        """Return the parameter of this name."""
        known = {parameter.name: parameter for parameter in self.parameters}
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(known) or 'none'}"
            raise ExperimentError(f"{self.name} has no parameter {name}; {hint}")
        return known[name]

    def read_parameters(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the value of every parameter; text is read by its type."""
        for name in given:
            self.parameter(name)
        for parameter in self.parameters:
            if parameter.is_required and parameter.name not in given:
                raise ExperimentError(
                    f"{self.name} needs {parameter.name}, {parameter.noun} of yours: --set {parameter.name}=PATH"
                )
        return {
            one.name: one.read(one.written(given[one.name])) if one.name in given else one.default
            for one in self.parameters
        }

    def __call__(self, run: Run, **values: Any) -> None:
        """Run the experiment's function as a part of another experiment, with its own meaning of rates and times."""
        self._run(self.body, run, values)

    def perform(self, run: Run, parameters: Mapping[str, Any], body: Callable[..., None] | None = None) -> None:
        """Run the experiment's function here and now, or `body` in its place; the lab calls this."""
        values = self.read_parameters(parameters)
        with importing_from_folder_of(self.source), running(run):
            self._run(body or self.body, run, values)

    def _run(self, body: Callable[..., None], run: Run, values: Mapping[str, Any]) -> None:
        """Run a function with this experiment's meaning of rates and times, and then go on with the run's own."""
        before, run.is_in_lab_time = run.is_in_lab_time, self.in_lab_time
        try:
            body(run, **values)
        finally:
            run.is_in_lab_time = before


@overload
def experiment(body: Callable[..., None], /) -> Experiment: ...
@overload
def experiment(
    *,
    timeout: Duration | str = "60s",
    files: Sequence[str] = (),
    packages: Sequence[str] = (),
    debs: Sequence[str] = (),
    free_cpu: bool = False,
    partitions: int = 1,
    _in_lab_time: bool = False,
) -> Callable[[Callable[..., None]], Experiment]: ...
def experiment(
    body: Callable[..., None] | None = None,
    /,
    *,
    timeout: Duration | str = "60s",
    files: Sequence[str] = (),
    packages: Sequence[str] = (),
    debs: Sequence[str] = (),
    free_cpu: bool = False,
    partitions: int = 1,
    _in_lab_time: bool = False,
) -> Experiment | Callable[[Callable[..., None]], Experiment]:
    """Make an experiment of a function: `@experiment`, or `@experiment(timeout="30s")`.

    `timeout` is in virtual time. `files` are further files that it needs in the lab, named relative to its own; they
    are beside it there too. `packages` are Python packages that the image lacks (`testbed.lab.image.packages`), by
    name, or lock files, named as `files` are, and `debs` such packages of Debian (`testbed.lab.image.debs`). With
    `free_cpu` its claims are for labs whose CPU work takes no time, as on `um`: another engine says so before the run,
    and `xoff verify` leaves it out there. `partitions` is the number of kernels that have each of its networks together
    (docs/partitions.md).

    `_in_lab_time` is for tests of the lab itself: rates and times are values of the lab in all its networks, not of
    the modelled hardware.
    """
    for name, value in (("files", files), ("packages", packages), ("debs", debs)):
        if isinstance(value, str):
            raise ExperimentError(f"{name}={value!r}: a list is expected, as in {name}=[{value!r}]")

    if type(partitions) is not int or partitions < 1:
        raise ExperimentError(f"partitions={partitions!r}: a whole number of kernels is expected, as in partitions=2")

    def make(body: Callable[..., None]) -> Experiment:
        source = Path(inspect.getsourcefile(inspect.unwrap(body)) or "").resolve()
        return Experiment(
            name=body.__name__,
            body=body,
            parameters=parameters_of(body),
            timeout=Duration(timeout),
            files=tuple(files),
            packages=tuple(packages),
            source=source,
            in_lab_time=_in_lab_time,
            free_cpu=free_cpu,
            debs=tuple(debs),
            partitions=partitions,
        )

    if body is None:
        return make
    if not callable(body):
        raise ExperimentError(f"@experiment({body!r}): options have names, as in @experiment(timeout='30s')")
    return make(body)


def load_file(path: Path, name: str | None = None, within_s: float = 0.0) -> Experiment:
    """Return the experiment in a Python file, or the script that the file is; `name` chooses among several.

    The module level of the file may take `within_s` of CPU time at most, where that can be measured; with 0 any time.
    """
    if not path.is_file():
        raise ExperimentError(f"there is no experiment file {path}")
    if within_s:  # on the user's machine, and not in the lab once more
        script.warn_of_missing_interfaces(path)
    if (whole := script_in(path)) is not None:
        return whole
    with ending_within(within_s, path):
        experiments = experiments_in(_import(path))
    if not experiments:
        raise ExperimentError(f"{path} holds no function marked with @experiment, and as a script it would do nothing")
    if name is None and len(experiments) > 1:
        raise ExperimentError(f"{path} holds several experiments; name one, as in {path}:{experiments[0].name}")
    for candidate in experiments:
        if name in (None, candidate.name):
            reference = f"{path}:{candidate.name}" if len(experiments) > 1 else str(path)
            return replace(candidate, origin=Origin(("run", reference), (str(path),)))
    raise ExperimentError(f"{path} has no experiment {name}; it has {', '.join(e.name for e in experiments)}")


def script_in(path: Path) -> Experiment | None:
    """Return the script that a file is, by its text; None if it is none."""
    if script.is_marked(path):  # nearly all files are, and parsing takes longer
        return None
    origin = Origin(("run", str(path)), (str(path),))
    kind = next((one for one in script.kinds() if one.is_script(path)), None)
    return None if kind is None else _of_script(path.resolve(), kind, origin)


def _of_script(path: Path, kind: ScriptKind, origin: Origin) -> Experiment:
    """Return the experiment that a script is; the lab runs the file."""
    signature = kind.signature
    parameters, limit = parameters_of(signature), Duration(script.TIMEOUT)
    return Experiment(
        path.stem, signature, parameters, limit, script.files(path), kind.packages, path, script=kind, origin=origin
    )


def experiments_in(module: ModuleType) -> list[Experiment]:
    """Return the experiments that a module defines, in the order in which it defines them."""
    defined = [value for value in vars(module).values() if isinstance(value, Experiment)]
    return [value for value in defined if value.body.__module__ == module.__name__]


def find(reference: str) -> Experiment:
    """Return the experiment that a user means: `hello`, `my/file.py` or `my/file.py:name`."""
    path, _, name = reference.partition(":")
    if path.endswith(".py"):
        return load_file(Path(path), name or None, READ_WITHIN_S)
    if (ours := _shipped_as(reference)) is not None:
        return ours
    if (plugin := plugins.named(plugins.EXPERIMENTS, reference)) is not None:
        return _of_plugin(plugin, plugin.load())
    near = get_close_matches(reference, [*(e.name for e in shipped()), *_names_of_plugins()], 1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise ExperimentError(
        f"there is no experiment {reference}; {hint}`xoff list` shows what there is, and FILE.py runs your own"
    )


def added(report: Callable[[str], None]) -> list[Experiment]:
    """Return the experiments of other packages, by name; those that cannot be used are reported and left out."""
    usable = plugins.usable(plugins.EXPERIMENTS, _of_plugin, report)
    ours = {experiment.name for experiment in shipped()}
    for name in sorted(usable.keys() & ours):
        report(f"there is an experiment {name} of Xoff's own, which hides the one of a package of others")
    return [usable[name] for name in sorted(usable.keys() - ours)]


def in_module(module: str, name: str) -> Experiment:
    """Return the experiment of this name in a module that can be imported."""
    found = {one.name: one for one in experiments_in(importlib.import_module(module))}
    if name not in found:
        raise ExperimentError(f"{module} has no experiment {name}")
    return found[name]


def _names_of_plugins() -> list[str]:
    return [plugin.name for plugin in plugins.of_group(plugins.EXPERIMENTS)]


def _of_plugin(plugin: Plugin, loaded: Any) -> Experiment:
    if not isinstance(loaded, Experiment):
        raise plugin.error(f"it is {loaded!r}, and no function marked with @experiment")
    if loaded.name != plugin.name:
        raise plugin.error(f"its function is called {loaded.name}; the entry point has to have the same name")
    return loaded


def shipped() -> list[Experiment]:
    """Return the experiments that come with Xoff, by name; conformance cases and published results are among them."""
    return sorted(_in_package(shipped_packages.EXPERIMENTS) + conformance() + published(), key=lambda one: one.name)


def _shipped_as(name: str) -> Experiment | None:
    """Return the shipped experiment of this name, or None. A module of this name has it, or else all are imported."""
    for package in (shipped_packages.EXPERIMENTS, shipped_packages.CONFORMANCE, shipped_packages.PUBLISHED):
        if path := shipped_packages.files(package).get(name):
            for one in experiments_in(_import(path, shipped_packages.module(package, path))):
                if one.name == name:
                    return one
    return next((one for one in shipped() if one.name == name), None)


def is_shipped(experiment: Experiment) -> bool:
    """Return True if an experiment's file comes with Xoff."""
    return experiment.source.is_relative_to(shipped_packages.folder(shipped_packages.EXPERIMENTS).resolve())


def conformance() -> list[Experiment]:
    """Return the cases of `xoff switch conformance`, by name."""
    return _in_package(shipped_packages.CONFORMANCE)


def published() -> list[Experiment]:
    """Return the experiments that reproduce what others have published, by name."""
    return _in_package(shipped_packages.PUBLISHED)


def for_any_engine() -> list[Experiment]:
    """Return the shipped experiments that are for engines whose CPU work takes time, too."""
    others = {one.name for one in (*conformance(), *published())}
    return [one for one in shipped() if not one.free_cpu and one.name not in others]


def _in_package(package: str) -> list[Experiment]:
    by_name: dict[str, Experiment] = {}
    for path in shipped_packages.files(package).values():
        by_name |= {e.name: e for e in experiments_in(_import(path, shipped_packages.module(package, path)))}
    return [by_name[name] for name in sorted(by_name)]


def _import(path: Path, name: str | None = None) -> ModuleType:
    with _IMPORTING:  # or a thread would find the module that another one has only begun to read
        return _import_once(path, name)


def _package(module: str | None) -> str:
    """Return the name by which a package is asked for: that of the module as far as it is known."""
    return (module or "NAME").partition(".")[0]


def _import_once(path: Path, name: str | None) -> ModuleType:
    name = name or f"xoff_experiment_{path.stem}"
    if name in sys.modules and getattr(sys.modules[name], "__file__", None) == str(path):
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ExperimentError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with importing_from_folder_of(path):
            spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        del sys.modules[name]
        raise ExperimentError(
            f"{path} imports {error.name}, which is not here; if the lab has it (Mininet, for one), import it inside "
            f"the experiment's function; packages that the lab lacks come with --with {_package(error.name)}, and are "
            "imported there too"
        ) from None
    except UsageError as error:
        del sys.modules[name]
        raise ExperimentError(f"{path}: {error}") from None
    except Exception as error:
        del sys.modules[name]
        raise ExperimentError(f"{path} cannot be read: {type(error).__name__}: {error}") from error
    except BaseException:  # interrupted: half a module is none
        del sys.modules[name]
        raise
    return module
