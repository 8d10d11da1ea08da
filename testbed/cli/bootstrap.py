"""The front door `./xoff`: from a checkout on a fresh machine to the command line proper.

It makes a Python environment in the cache, keyed by the locked requirements, and goes on in it. What goes in comes from
the network by pip, or from what `xoff image import` brought, which works without an environment. Standard library only,
and of that only what every call needs, because every call waits for this file. Not used after `pip install`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from testbed import early_end
from testbed.errors import XoffError, message
from testbed.lab.host import cache

_ROOT = Path(__file__).resolve().parents[2]
_READY = ".ready"
_ROOM = 100 << 20
_WHAT = "making the Python environment"
_LOCKS = {"test": "test", "docs": "test", "serve": "serve", "plot": "plot", "export": "plot", "workload": "plot"}
"""The lock of each command that takes more packages than `run.lock` has; they are installed the first time."""


def main() -> int:
    """Set up what is missing and become `python -m testbed` in our environment."""
    completes = "_ARGCOMPLETE" in os.environ
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # what is begun is cleaned up
    try:
        if completes and not _is_ready("run"):
            return 0  # completion of a command line installs nothing
        if sys.argv[1:3] == ["image", "import"] and not _is_ready("run"):
            from testbed import cli

            return cli.main()  # it brings what an environment is made of
        python = environment(_purpose(sys.argv[1:]))
        if _is_of_notebooks(sys.argv[1:]):
            environment("notebook")
    except XoffError as error:
        if not completes:
            print(f"xoff: {message(error)}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("xoff: interrupted", file=sys.stderr)
        return 130
    paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    early_end.hold()
    os.execv(python, [str(python), "-m", "testbed", *sys.argv[1:]])


def _purpose(arguments: list[str]) -> str:
    """Return the lock that a command takes beside `run.lock`, or `run` if it takes none."""
    if any(word in ("-h", "--help") for word in arguments):
        return "run"
    command = arguments[0] if arguments else ""
    if command == "lesson" and arguments[1:2] == ["serve"]:
        return "serve"
    if command == "export" and not any(word.partition("=")[0] == "--figure" for word in arguments):
        return "run"
    if command == "sweep" and any(word.partition("=")[0] == "--scheduler" for word in arguments):
        return "cluster"
    return _LOCKS.get(command, "run")


def _is_of_notebooks(arguments: list[str]) -> bool:
    """Report whether these are the tests of notebooks, which take more packages than `test.lock` has."""
    return arguments[:1] == ["test"] and any("test_notebook" in word for word in arguments)


def environment(purpose: str) -> Path:
    """Return the Python of an environment with the packages of `run.lock` and of the lock of a purpose."""
    python = _place() / "bin" / "python"
    if not _is_ready(purpose):
        with cache.locked("Python environment", _say), _closed_to_others():
            if not _is_ready("run"):
                _take_prebuilt()
            if not _is_ready("run"):
                _make()
            if not _is_ready(purpose):
                if _place().is_symlink():  # that of an installed lab, which is not ours to change
                    _place().unlink()
                    _make()
                _install(purpose)
    return python


@contextmanager
def _closed_to_others() -> Iterator[None]:
    """Make new files writable for the user alone, whatever the umask is."""
    mask = os.umask(0o022)
    os.umask(mask | 0o022)
    try:
        yield
    finally:
        os.umask(mask)


def _take_prebuilt() -> None:
    """Take the lab that the user names, if any, which has the Python packages, too."""
    from testbed.lab.engines import prebuilt
    from testbed.lab.host import distribution

    if prebuilt.is_named() and distribution.runs_labs():
        from testbed.cli.house import lab_file

        lab_file.take()


def _make() -> None:
    """Make the environment with the packages of `run.lock`, from what was imported or by pip."""
    from testbed.lab.image import wheels

    place = _place()
    cache.require_room(cache.root(), _ROOM, "the Python environment")
    shutil.rmtree(place, ignore_errors=True)  # one that was begun and not finished
    if carried := wheels.current():
        _say(f"{_WHAT} in {place} from the packages that were imported")
        pip = wheels.pip_of_python()  # for packages of commands that take more
        with _making():
            wheels.unpack([*carried, *([pip] if pip else [])], _site())
        (place / f"{_READY}-run").touch()
    else:
        _install("run")


def _site() -> Path:
    """Return the folder of the environment's packages, with an environment around it that may have no pip."""
    place = _place()
    if not (place / "bin" / "python").exists():
        try:
            import venv
        except ImportError:
            from testbed.cli import machine

            raise machine.MachineError(
                f"the Python {sys.executable} is not whole: it has no module venv; install all of python3"
            ) from None
        venv.EnvBuilder(symlinks=True).create(place)
    return place / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"


def _put_pip() -> None:
    """Put pip into the environment, which may be there without it: that which Python carries, unpacked.

    `ensurepip` would have pip install itself and compile all its modules, which takes longer than all else here.
    """
    from testbed.cli import machine
    from testbed.lab.host import prerequisites
    from testbed.lab.image import wheels

    with _making():
        site = _site()
    if (site / "pip").exists():
        return
    if (carried := wheels.pip_of_python()) is None:
        machine.require(prerequisites.front_door_packages(), _say)
        carried = wheels.pip_of_python()
    if carried:
        with _making():
            wheels.unpack([carried], site)
    else:
        _run([sys.executable, "-m", "venv", str(_place())], _WHAT)


@contextmanager
def _making() -> Iterator[None]:
    """Turn a failure to write the environment into an error with the reason and the way out."""
    try:
        yield
    except OSError as error:
        from testbed.lab.image import fetching

        raise fetching.failure(_WHAT, error.strerror or str(error)) from None


def _install(purpose: str) -> None:
    from testbed.lab.engines import forecast
    from testbed.lab.image import fetching

    what = f"installing the Python packages of {purpose}.lock"
    if purpose == "run":
        _say(f"{_WHAT} in {_place()}, once, with {forecast.cost(forecast.Step.ENVIRONMENT)}")
    else:
        _say(what)
    _put_pip()
    # What is imported is compiled then, and no more: of pygments alone that spares 300 modules.
    pip = [
        str(_place() / "bin" / "python"),
        "-m",
        "pip",
        "--disable-pip-version-check",
        "-q",
        "install",
        "--no-compile",
    ]
    lock = str(_ROOT / "requirements" / f"{purpose}.lock")
    _run(
        [*pip, "--require-hashes", "-r", lock], what,
        fetching.FEW_ATTEMPTS, fetching.OTHER_MACHINE if purpose == "run" else "",
    )  # fmt: skip
    (_place() / f"{_READY}-{purpose}").touch()


def _is_ready(purpose: str) -> bool:
    """Report whether the environment has these packages. It is about to be executed, so it has to be our own."""
    place = cache.own(_place(), "bin", f"{_READY}-{purpose}")
    with cache.usable(place):
        return (place / f"{_READY}-{purpose}").exists() and (place / "bin" / "python").exists()


def _place() -> Path:
    """Return the folder of the environment, which depends on the requirements and on the Python."""
    identity = hashlib.sha256(f"{sys.version} {os.path.realpath(sys.executable)}".encode())
    for lock in sorted((_ROOT / "requirements").glob("*.lock")):
        identity.update(lock.read_bytes())
    return cache.root() / f"python-{identity.hexdigest()[:16]}"


def _run(command: list[str], what: str, environment: Mapping[str, str] | None = None, way_out: str = "") -> str:
    """Run a command to its end and return its output. None of its processes outlives this one."""
    from testbed.lab.host import process_tree

    code, output = process_tree.run(command, environment or {})
    if code:
        from testbed.lab.image import fetching

        raise fetching.failure(what, output, way_out)
    return output


def _say(text: str) -> None:
    print(f"xoff: {text}", file=sys.stderr, flush=True)
