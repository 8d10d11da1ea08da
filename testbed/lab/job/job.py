"""Jobs, and the code that they need, as tars: the same inputs give the same bytes."""

from __future__ import annotations

import hashlib
import json
import re
import stat
import tarfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import testbed
from testbed import plugins
from testbed.errors import UsageError, XoffError
from testbed.experiment.definition import Experiment
from testbed.experiment.fidelity import Thresholds
from testbed.experiment.parameters import LARGEST_FILE, ExperimentError, File, Parameter
from testbed.experiment.run import plain
from testbed.lab.host import cache, sources
from testbed.lab.image.packages import Packages
from testbed.linux.parts_device import MOST_PARTS

DIGESTS, FIGURES, COSTS = (f"experiments/{name}.json" for name in ("digests", "figures", "costs"))
"""The files of `references.py` and `tools/` about results. They travel with no job, or new results would change the
next ones."""
_LEFT_HERE = {DIGESTS, FIGURES, COSTS}
PACKAGES = "packages"
"""The folder of further Python packages, below that of the code."""
DEBIAN = "debian"
"""The folder of unpacked Debian packages in a virtual machine, beside that of the code."""
HELD = ("testbed", "topologies", "controllers", "snappi_xoff", "xoff.py")
"""The packages and the module that users do not change from run to run."""
OURS = (*HELD, "experiments")
_OURS = Path(testbed.__path__[0]).parent
_DIGEST = re.compile("[0-9a-f]{64}")
_KEPT_DIGESTS = 16
"""The number of digests of code that are kept: one for each checkout, and some of before."""
LARGEST = (32 << 20) - 8
USER_CODE = "user"
PARAMETER_FILES = "parameter-files"
"""The folder of the files that parameters name, below that of the code."""
WHOLE_FRAMES = 1 << 16
"""The value of `capture_octets` with which captures have all of each frame."""
Follow = Callable[[Any], None]
"""A function that is called with each line that networks report while they run (`net/watch/progress.py`)."""


@dataclass(frozen=True)
class Limits:
    """The limits of a job."""

    virtual_s: float = 60.0
    wall_s: float = 900.0
    processes: int = 4096
    memory_mb: int | None = None
    """The limit of memory in MB; None for that of the engine."""
    files_mb: int = 512
    output_mb: int = 1024
    """The limit in MB of what the job prints and reports; of `files_mb` is what it leaves."""

    @property
    def written_mb(self) -> int:
        """The most that comes of the job, in MB."""
        return self.files_mb + self.output_mb

    def __post_init__(self) -> None:
        for name, what in (("virtual_s", "seconds of virtual time"), ("wall_s", "seconds of wall time")):
            if not getattr(self, name) > 0:
                raise UsageError(f"limits: {name} is {getattr(self, name)}; it is a number of {what}, above 0")
        for name in ("processes", "memory_mb", "files_mb", "output_mb"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"limits: {name} is {value}; it is a whole number from 1 up")


@dataclass(frozen=True)
class RunOptions:
    """The ways in which a run can be made, whatever its experiment and parameters are."""

    seed: int = 1
    """The seed of every random choice."""
    limits: Limits | None = None
    """The limits of the job; None for those of the experiment and the engine."""
    thresholds: Thresholds = field(default_factory=Thresholds)
    """The fidelity that the lab must keep."""
    capture_octets: int = 0
    """The octets of each frame that are captured on all cables, into the result's folder `captures`; 0 for none."""
    series_ns: int = 0
    """The interval in lab ns at which networks record time series; 0 for none but those of the experiment."""
    follow: Follow | None = None
    """Called with what networks report while they run."""
    partitions: int | None = None
    """The number of kernels that have each network together; None for that of the experiment."""

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise UsageError(f"seed {self.seed}: a whole number from 0 up is expected")
        if self.capture_octets < 0:
            raise UsageError(f"capture_octets is {self.capture_octets}; it is a number of octets, or 0 for no captures")
        if self.partitions is not None and self.partitions not in range(1, MOST_PARTS + 1):
            raise UsageError(f"partitions is {self.partitions}; a network has 1 to {MOST_PARTS} parts")

    def partitions_of(self, experiment: Experiment) -> int:
        """Return the number of kernels that have each network of a run of an experiment together."""
        return experiment.partitions if self.partitions is None else self.partitions

    def limits_of(self, experiment: Experiment) -> Limits:
        """Return the limits of a run of an experiment, which may leave the memory to the engine."""
        return self.limits or Limits(virtual_s=float(experiment.timeout.ps) / 1e12)


@dataclass(frozen=True)
class Terminal:
    """The user's terminal, for a job that is interactive."""

    rows: int = 24
    columns: int = 80
    term: str = "xterm"


@dataclass(frozen=True)
class AttachedFile:
    """A file of the user's that a parameter names and the job takes along."""

    parameter: str
    number: int
    """The position among the files of the parameter, from 0."""
    path: Path
    """The path as it was given."""
    content: bytes = field(repr=False)

    @property
    def place(self) -> str:
        """The path of the file in the lab, below the folder of the code."""
        return place_of_file(self.parameter, self.number, self.path.name)


def place_of_file(parameter: str, number: int, name: str) -> str:
    """Return the path of a parameter's file in the lab, below the folder of the code."""
    return f"{PARAMETER_FILES}/{parameter}/{number}/{name}"


@dataclass(frozen=True)
class Job:
    """A task for a lab: an experiment, a script, a shell or a live view."""

    source: str
    """The file to load, relative to the folder of the code."""
    name: str
    """The experiment in that file; for a shell, the topology with its arguments, as in `star,4`."""
    parameters: dict[str, Any]
    seed: int = 1
    limits: Limits = field(default_factory=Limits)
    reproducible: bool = True
    """True in virtual time: the job starts at a whole second, and the seed reaches the kernel's random numbers."""
    terminal: Terminal | None = None
    """The terminal of a shell or of a live view; None for an experiment."""
    live: bool = False
    """True if the other end of a live view is in the terminal, instead of Mininet's command line."""
    packages: str = ""
    """The digest of the Python packages that the job has beside those of the image."""
    follow: bool = False
    """True if networks report what they do while they run."""
    capture_octets: int = 0
    """The octets of each frame that are captured on all cables; 0 for no captures."""
    series_ns: int = 0
    """The interval of the networks' time series; 0 for only those that the experiment records."""
    partitions: int = 1
    """The number of kernels that have each network together."""
    attached: tuple[AttachedFile, ...] = ()
    """The files that parameters name. They travel beside the text of the job."""

    def encode(self) -> str:
        """Return the job as text for the lab. It has no wall time, on which nothing in the lab may depend."""
        content = asdict(replace(self, attached=()))
        del content["limits"]["wall_s"], content["attached"]
        if self.partitions == 1:
            del content["partitions"]
        return json.dumps(content, sort_keys=True)

    @classmethod
    def decode(cls, text: str) -> Job:
        content = json.loads(text)
        content["limits"] = Limits(**content["limits"])
        if content["terminal"] is not None:
            content["terminal"] = Terminal(**content["terminal"])
        return cls(**content)


def job_for(
    experiment: Experiment,
    given: Mapping[str, Any],
    options: RunOptions = RunOptions(),
    *,
    reproducible: bool = True,
    packages: str = "",
) -> Job:
    """Return the job that runs an experiment; its parameters are checked here, before anything starts."""
    values = experiment.read_parameters(given)
    parameters = {name: _recorded(value) for name, value in values.items() if value is not None}
    return Job(
        place_of(experiment.source), experiment.name, parameters, options.seed, options.limits_of(experiment),
        reproducible, packages=packages, follow=options.follow is not None, capture_octets=options.capture_octets,
        series_ns=options.series_ns, partitions=options.partitions_of(experiment), attached=tuple(_attached(values)),
    )  # fmt: skip


def _attached(values: Mapping[str, Any]) -> Iterator[AttachedFile]:
    for name, value in values.items():
        for number, file in enumerate(value if isinstance(value, tuple) else [value]):
            if isinstance(file, File):
                try:
                    with file.path.open("rb") as source:
                        content = source.read(LARGEST_FILE + 1)
                except OSError as error:
                    raise ExperimentError(f"{name}: the file '{file}' cannot be read: {error.strerror}") from None
                yield AttachedFile(name, number, file.path, content)


def _recorded(value: Any) -> Any:
    """Return a parameter's value for the job and the result: a file's value is its name."""
    if isinstance(value, tuple):
        return ",".join(file.name for file in value)
    return value.name if isinstance(value, File) else plain(value)


def in_lab(parameters: Iterable[Parameter], recorded: Mapping[str, Any], code: Path) -> dict[str, Any]:
    """Return the values of a job's parameters in the lab: files are named by the paths of their copies."""
    found = dict(recorded)
    for one in parameters:
        if one.kind is File and one.name in found:
            names = found[one.name].split(",") if one.is_several else [found[one.name]]
            found[one.name] = ",".join(
                str(code / place_of_file(one.name, number, name)) for number, name in enumerate(names)
            )
    return found


class UserCode(Protocol):
    """A file of the user's with the files that it needs, as an experiment has them."""

    @property
    def name(self) -> str: ...
    @property
    def source(self) -> Path: ...
    @property
    def files(self) -> tuple[str, ...]: ...


def pack(job: Job, experiment: UserCode | None = None, *, held: Sequence[str] = ()) -> bytes:
    """Return the job and all code that it may use as a tar, without the packages that the lab holds already."""
    files = _code(job, experiment, held) | {"job.json": job.encode().encode()}
    packed = _tar(files, _programs(job, experiment))
    if len(packed) > LARGEST:
        raise UsageError(f"the job and its files have {len(packed) >> 20} MB; the lab takes {LARGEST >> 20} MB")
    return packed


def digest_of_code(job: Job, experiment: UserCode | None = None) -> str:
    """Return the digest of all code that the job may use, whatever its parameters and its seed are."""
    is_of_user = experiment is not None and job.source.startswith(f"{USER_CODE}/")
    if not (is_of_user or job.attached or _needs_plugins(job)):
        return code_digest()
    return hashlib.sha256(_tar(_code(job, experiment), _programs(job, experiment))).hexdigest()


def _code(job: Job, experiment: UserCode | None, held: Sequence[str] = ()) -> dict[str, bytes]:
    """Return all files of code that the job may use, by their paths in the lab."""
    files = _in_lab(read(package for package in OURS if package not in held))
    if _needs_plugins(job):
        files |= _in_lab(plugins.files())
    files |= _in_lab({one.place: one.content for one in job.attached})
    if experiment is not None and job.source.startswith(f"{USER_CODE}/"):
        folder = experiment.source.parent
        for path in (experiment.source, *(folder / name for name in experiment.files)):
            if ".." in path.parts or not path.is_relative_to(folder):
                raise UsageError(f"{experiment.name} needs {path}, which is not below {folder}; move it there")
            try:
                files[f"code/{USER_CODE}/{path.relative_to(folder)}"] = path.read_bytes()
            except (OSError, ValueError) as error:  # ValueError: a name that no file can have
                raise UsageError(f"{experiment.name} needs {path}, which cannot be read: {error}") from None
    return files


def _programs(job: Job, experiment: UserCode | None) -> set[str]:
    """Return the paths in the lab of those of the user's files that can be executed."""
    if experiment is None or not job.source.startswith(f"{USER_CODE}/"):
        return set()
    folder = experiment.source.parent
    return {f"code/{USER_CODE}/{name}" for name in experiment.files if (folder / name).stat().st_mode & stat.S_IXUSR}


def held(ours: Sequence[str], packages: Packages | None = None) -> bytes:
    """Return the code that a lab can hold before it has a job as a tar: packages of Xoff's, and further ones."""
    files = read(ours)
    if packages is not None:
        files |= {f"{PACKAGES}/{name}": content for name, content in packages.files().items()}
    return _tar(_in_lab(files))


def code() -> dict[str, bytes]:
    """Return every file of Xoff's own packages, by its path under the common parent."""
    return read(OURS)


def code_digest() -> str:
    """Return the digest of Xoff's own packages, whatever a job adds to them; it is kept while no file changes."""
    now = sources.stamp(_OURS / name for name in OURS)
    try:
        place = cache.root() / f"code-digest-{now.name}"
        with suppress(OSError, ValueError):
            if _DIGEST.fullmatch(kept := (place / "digest").read_text(encoding="ascii")):
                return kept
        made = hashlib.sha256(held(OURS)).hexdigest()
        if now.is_settled:
            with cache.owned("code-digest") as work:
                (work / "digest").write_text(made, encoding="ascii")
                cache.publish(work, place)
            cache.keep_newest("code-digest-*", _KEPT_DIGESTS)
    except (OSError, XoffError):  # a cache that cannot be used
        return hashlib.sha256(held(OURS)).hexdigest()
    return made


def digest_of_held(packages: Packages | None = None) -> str:
    """Return the digest of the code that a lab holds before it has a job: all of Xoff's own, and further packages."""
    return code_digest() if packages is None else hashlib.sha256(held(OURS, packages)).hexdigest()


def read(packages: Iterable[str]) -> dict[str, bytes]:
    """Return every file of these packages and modules of ours, by its path under the common parent."""
    found = {}
    for package in packages:
        place = _OURS / package
        for path in [place] if place.is_file() else sorted(place.rglob("*")):
            name = str(path.relative_to(_OURS))
            if path.is_file() and path.suffix != ".pyc" and name not in _LEFT_HERE:
                found[name] = path.read_bytes()
    return found


def _in_lab(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the same files by their paths in the lab."""
    return {f"code/{name}": content for name, content in files.items()}


def _tar(files: Mapping[str, bytes], programs: Collection[str] = ()) -> bytes:
    """Return files as a tar that depends on their names and contents alone, and on which of them are programs.

    It is not compressed because compressors differ between machines, and it is sorted and has no dates.
    """
    parts = []
    for name, content in sorted(files.items()):
        parts += [_header(name, len(content), name in programs), content, bytes(-len(content) % tarfile.BLOCKSIZE)]
    end = 2 * tarfile.BLOCKSIZE
    length = sum(map(len, parts)) + end
    return b"".join([*parts, bytes(end + -length % tarfile.RECORDSIZE)])


@lru_cache(maxsize=4096)
def _header(name: str, length: int, is_program: bool) -> bytes:
    """Return what stands before a file's content in a tar; of Xoff's own files it is the same in each job."""
    member = tarfile.TarInfo(name)
    member.size = length
    if is_program:
        member.mode = 0o755
    return member.tobuf(tarfile.PAX_FORMAT)


def _needs_plugins(job: Job) -> bool:
    """Return True if installed packages of others have to travel.

    A job of Xoff's own experiments is the same whatever is installed, unless a parameter names something of such a
    package.
    """
    if not job.source:
        return job.name.partition(",")[0] in {plugin.name for plugin in plugins.of_group(plugins.TOPOLOGIES)}
    if job.source.partition("/")[0] in (USER_CODE, plugins.FOLDER):
        return bool(plugins.found())
    names = {plugin.name for plugin in plugins.found()}
    return any(isinstance(value, str) and value in names for value in job.parameters.values())


def place_of(source: Path) -> str:
    """Return the path of an experiment's file in the lab, relative to the folder of the code."""
    if (place := plugins.place_of(source)) is not None:
        return place
    if source.is_relative_to(_OURS) and source.relative_to(_OURS).parts[0] in ("experiments", "topologies"):
        return str(source.relative_to(_OURS))
    return f"{USER_CODE}/{source.name}"
