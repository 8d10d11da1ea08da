"""A folder whose content may be from elsewhere: a result folder that came by mail, in an archive or from a worker.

Whatever reads a result folder, or writes into one that was there before, does it here. Files are opened below the
folder's descriptor, and no symbolic link in it is followed, so that nothing outside of it is read or written. Only
regular files are read, up to a size that their readers can bear. A file that is written appears whole or not at all, in
the place of whatever had its name. The path of the folder itself is its user's, and may have links.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from testbed.errors import UsageError, XoffError

LARGEST_DOCUMENT = 64 << 20
"""The most octets of a file that is read as a whole."""
LARGEST_LOG = 4 << 30
"""The most octets of a file that is read line by line, of which only counts are kept."""
LONGEST_LINE = 64 << 20
DEEPEST = 64
"""The most objects and lists of JSON inside each other."""
_MOST_NAMES = 100_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LOCK = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_KINDS = {
    stat.S_IFLNK: "a symbolic link, and none is followed in a result folder",
    stat.S_IFDIR: "a folder, and no file",
    stat.S_IFIFO: "a pipe, and no file",
    stat.S_IFSOCK: "a socket, and no file",
    stat.S_IFCHR: "a device, and no file",
    stat.S_IFBLK: "a device, and no file",
}


class ForeignError(UsageError, ValueError):
    """A file in a folder is not as Xoff leaves it there, and is not read."""


@dataclass(frozen=True)
class ForeignFolder:
    """A folder, and the only way to its files. Names may have several parts, as in `captures/1/x.pcapng`."""

    root: Path
    """The path that the user named; links on it are followed."""
    parts: tuple[str, ...] = ()
    """The further parts of the path, on which no links are followed."""

    @property
    def path(self) -> Path:
        return self.root.joinpath(*self.parts)

    def inside(self, name: str) -> ForeignFolder:
        """Return a folder in this one, which need not be there."""
        return ForeignFolder(self.root, (*self.parts, *_parts(name)))

    def is_there(self) -> bool:
        try:
            with self._opened(()):
                return True
        except (OSError, ForeignError):
            return False

    def require(self, name: str) -> None:
        """Raise ForeignError or OSError unless there is a folder of that name, and no link to one."""
        with self._opened(_parts(name)):
            pass

    def has(self, name: str) -> bool:
        """Return True if something has that name; opening it shows if it is a file that can be read."""
        return self._mode(name) is not None

    def listing(self, name: str = "") -> list[str]:
        """Return the names in this folder or one in it, sorted; none if it is not there."""
        try:
            with self._opened(_parts(name) if name else ()) as folder, os.scandir(folder) as entries:
                found = [entry.name for entry in itertools.islice(entries, _MOST_NAMES + 1)]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ForeignError(f"{self.path / name}: {error.strerror}") from None
        if len(found) > _MOST_NAMES:
            raise ForeignError(f"{self.path / name} has more than {_MOST_NAMES} files, and no run leaves so many")
        return sorted(found)

    def is_file(self, name: str) -> bool:
        """Return True if it is a regular file, and no link to one."""
        mode = self._mode(name)
        return mode is not None and stat.S_ISREG(mode)

    def open(self, name: str, most: int = LARGEST_LOG) -> BinaryIO:
        """Open a regular file of at most so many octets; FileNotFoundError if there is none, else ForeignError."""
        path = self.path / name
        try:
            *folders, last = _parts(name)
            with self._opened(folders) as folder:
                _require_file(path, os.stat(last, dir_fd=folder, follow_symlinks=False), most)
                handle = os.open(last, _READ, dir_fd=folder)
            try:
                _require_file(path, os.fstat(handle), most)  # it may be another one by now
                return os.fdopen(handle, "rb")
            except BaseException:
                os.close(handle)
                raise
        except FileNotFoundError as error:
            raise FileNotFoundError(error.errno, error.strerror, str(path)) from None
        except OSError as error:
            raise ForeignError(f"{path}: {error.strerror}") from None

    def lock_file(self, name: str) -> BinaryIO:
        """Open a file for a lock; it is made if it is not there, and nothing is written to it."""
        *folders, last = _parts(name)
        with self._opened(folders) as folder:
            try:
                handle = os.open(last, _LOCK, 0o666, dir_fd=folder)
            except OSError as error:
                if error.errno not in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
                    raise
                raise ForeignError(f"{self.path / name} is no file that can be locked; remove it") from None
            file = os.fdopen(handle, "wb")
            try:
                _require_file(self.path / name, os.fstat(handle), LARGEST_DOCUMENT)
            except ForeignError:
                file.close()
                raise
            return file

    def lines(self, name: str, most: int = LARGEST_LOG) -> Iterator[tuple[int, str]]:
        """Yield each line of a file, its end with it, and the line's number."""
        with self.open(name, most) as file:
            for number in itertools.count(1):
                if not (line := file.readline(LONGEST_LINE + 1)):
                    return
                if len(line) > LONGEST_LINE:
                    raise ForeignError(f"{self.path / name}: line {number} is longer than {LONGEST_LINE >> 20} MiB")
                yield number, line.decode(errors="replace")

    def text(self, name: str) -> str:
        """Return the text of a file."""
        with self.open(name, LARGEST_DOCUMENT) as file:
            octets = file.read(LARGEST_DOCUMENT)
        try:
            return octets.decode()
        except UnicodeDecodeError as error:
            line = octets.count(b"\n", 0, error.start) + 1
            raise ForeignError(f"{self.path / name}: line {line} is not UTF-8") from None

    def json(self, name: str) -> Any:
        """Return the content of a JSON file."""
        return decoded(self.text(name), self.path / name)

    @contextmanager
    def reading(self, name: str, made_by: str, kind: type[XoffError]) -> Iterator[Any]:
        """Yield the content of a JSON file to a block that makes something of it.

        What is missing, or has another form than the command `made_by` gives it, is an error of that kind with the
        file's path.
        """
        path = self.path / name
        try:
            content = self.json(name)
        except OSError as error:
            raise kind(f"{path}: {error.strerror}") from None
        try:
            yield content
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise kind(f"{path} is no result of {made_by}: {error}") from None

    def copy(self, name: str, target: Path, most: int = LARGEST_LOG) -> None:
        """Copy a file as it would be written anew. ForeignError if it is none, has the bits of a program with rights of
        others, or holes, of which a few octets can be terabytes.
        """
        path = self.path / name
        with self.open(name, most) as source:
            if os.fstat(source.fileno()).st_mode & (stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX):
                raise ForeignError(f"{path} has setuid, setgid or sticky bits")
            size = os.fstat(source.fileno()).st_size
            if size and os.lseek(source.fileno(), 0, os.SEEK_HOLE) < size:
                raise ForeignError(f"{path} has holes, and no run leaves such a file")
            os.lseek(source.fileno(), 0, os.SEEK_SET)
            with target.open("xb") as copy:
                left = size
                while left and (octets := source.read(min(left, 1 << 20))):
                    left -= copy.write(octets)

    @contextmanager
    def create(self, name: str) -> Iterator[BinaryIO]:
        """Yield a new file that gets this name at the end of the block, whatever had it before."""
        *folders, last = _parts(name)
        with self._opened(folders) as folder:
            draft = f".xoff-{secrets.token_hex(6)}.draft"
            handle = os.open(draft, _CREATE, 0o666, dir_fd=folder)
            try:
                with os.fdopen(handle, "wb") as file:
                    yield file
                os.rename(draft, last, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.unlink(draft, dir_fd=folder)
                raise

    def _mode(self, name: str) -> int | None:
        *folders, last = _parts(name)
        try:
            with self._opened(folders) as folder:
                return os.stat(last, dir_fd=folder, follow_symlinks=False).st_mode
        except OSError:
            return None

    @contextmanager
    def _opened(self, parts: tuple[str, ...] | list[str]) -> Iterator[int]:
        """Yield the descriptor of a folder."""
        handle = os.open(self.root, _FOLDER)
        try:
            path = self.root
            for part in (*self.parts, *parts):
                path = path / part
                try:
                    inner = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=handle)
                except OSError as error:
                    if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                        raise
                    mode = os.stat(part, dir_fd=handle, follow_symlinks=False).st_mode
                    kind = _KINDS.get(stat.S_IFMT(mode), "no folder")
                    raise ForeignError(f"{path} is {kind}") from None
                os.close(handle)
                handle = inner
            yield handle
        finally:
            os.close(handle)


def decoded(text: str, path: Path) -> Any:
    """Return the content of a JSON file; ForeignError names the file and the line that is not JSON."""
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise ForeignError(f"{path}: line {error.lineno} is not JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise ForeignError(f"{path} is not JSON that can be read: {error}") from None
    if not is_shallow(content):
        raise ForeignError(f"{path} is not JSON that can be read: it is nested deeper than {DEEPEST} times")
    return content


def is_shallow(value: Any, deepest: int = DEEPEST) -> bool:
    """Return True if a value of JSON is nested so little that all code can walk through it."""
    if not isinstance(value, (dict, list)):
        return True
    inside = value.values() if isinstance(value, dict) else value
    return deepest > 0 and all(is_shallow(one, deepest - 1) for one in inside)


def lines_of(text: str, key: str) -> list[int]:
    """Return the lines on which the elements of a list begin, which an object has under a key; `text` is its JSON."""
    decoder = json.JSONDecoder()
    found: list[int] = []
    at = _blank(text, _blank(text, 0) + 1)
    while text[at] != "}":
        name, at = decoder.raw_decode(text, at)
        at = _blank(text, _blank(text, at) + 1)
        if name == key and text[at] == "[":
            found = list(_elements(text, at, decoder))
        _, at = decoder.raw_decode(text, at)
        at = _after_comma(text, at)
    return found


def _elements(text: str, start: int, decoder: json.JSONDecoder) -> Iterator[int]:
    line, counted, at = 1, 0, _blank(text, start + 1)
    while text[at] != "]":
        line, counted = line + text.count("\n", counted, at), at
        yield line
        _, at = decoder.raw_decode(text, at)
        at = _after_comma(text, at)


def _after_comma(text: str, at: int) -> int:
    at = _blank(text, at)
    return _blank(text, at + 1) if text[at] == "," else at


def _blank(text: str, at: int) -> int:
    while text[at].isspace():
        at += 1
    return at


def _parts(name: str) -> list[str]:
    parts = PurePosixPath(name).parts
    if not parts or parts[0] == "/" or ".." in parts or "\0" in name:
        raise ForeignError(f"{name!r} is no name of a file in a result folder")
    return list(parts)


def _require_file(path: Path, found: os.stat_result, most: int) -> None:
    kind = stat.S_IFMT(found.st_mode)
    if kind != stat.S_IFREG:
        raise ForeignError(f"{path} is {_KINDS.get(kind, 'no file')}")
    if found.st_size > most:
        raise ForeignError(f"{path} has {found.st_size} octets; at most {most} are read")
