"""The rule about who may change a path, for all that Xoff takes from its cache and runs as the user.

A file is as safe as the directories above it, because whoever may write to one of those can put another file, or a
link, under its name. So each step from / down is looked at, links included: it has to belong to the user or to root,
and others may not write to it. A sticky directory, such as /tmp, keeps them from renaming what is not theirs, and is
allowed above.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

_MOST_LINKS = 40
"""The most symbolic links that a path may have, as in the kernel."""
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_ALL_IDS = ["0", "0", "4294967295"]
"""The map of user ids where there is no user namespace."""


def weakness(path: Path) -> tuple[Path, str] | None:
    """Return the first step to `path` that other users can change, with the reason, or None if there is none.

    What is not there yet is as safe as where it would be made.
    """
    where, links = Path("/"), 0
    rest = path.absolute().parts[::-1]
    while rest:
        part, rest = rest[-1], rest[:-1]
        if part == "..":
            where = where.parent  # which is no link: links were followed
            continue
        here = where / part
        try:
            seen = here.lstat()
            if why := _open_to_others(here, seen, is_last=not rest):
                return here, why
            if not stat.S_ISLNK(seen.st_mode):
                where = here
                continue
            rest += here.readlink().parts[::-1]
        except OSError:
            return None
        links += 1
        if links > _MOST_LINKS:
            return None  # opening it fails too
    return None


def belongs_to_us(path: Path) -> bool:
    """Return True if the file at a path, or the link, belongs to the user."""
    try:
        return path.lstat().st_uid == os.geteuid()
    except OSError:
        return False


def protect(path: Path) -> None:
    """Take from others the right to write to a file, or to a directory and all in it, whatever our umask is."""
    found = [path]
    for folder, folders, files in os.walk(path):
        found += [Path(folder, name) for name in (*folders, *files)]
    for one in found:
        mode = one.lstat().st_mode
        if not stat.S_ISLNK(mode) and mode & _OTHERS_WRITE:
            one.chmod(stat.S_IMODE(mode) & ~_OTHERS_WRITE)


def _open_to_others(path: Path, seen: os.stat_result, is_last: bool) -> str:
    if seen.st_uid not in (0, os.geteuid()) and (is_last or not _has_no_name_here(seen.st_uid)):
        return f"belongs to {_user(seen.st_uid)}"
    mode = seen.st_mode
    if stat.S_ISLNK(mode) or (mode & stat.S_ISVTX and not is_last):
        return ""
    if mode & stat.S_IWOTH:
        return f"belongs to {_user(seen.st_uid)}, and everyone can write to it"
    if mode & stat.S_IWGRP and not _is_private(path, seen):
        return f"belongs to {_user(seen.st_uid)}, and the group {_group(seen.st_gid)} can write to it"
    return ""


def _is_private(path: Path, seen: os.stat_result) -> bool:
    """Return True if the file's group is its owner's private one, and no access control list admits others.

    Such a group is usual where the umask is 002.
    """
    import grp
    import pwd

    try:
        owner, group = pwd.getpwuid(seen.st_uid).pw_name, grp.getgrgid(seen.st_gid)
        has_list = "system.posix_acl_access" in os.listxattr(path)
    except (KeyError, OSError):
        return False
    return group.gr_name == owner and set(group.gr_mem) <= {owner} and not has_list


def _has_no_name_here(user: int) -> bool:
    """Return True if a user id stands for all users that this user namespace does not have.

    Among these is root, to whom / belongs.
    """
    try:
        if Path("/proc/self/uid_map").read_text().split() == _ALL_IDS:
            return False
        return user == int(Path("/proc/sys/kernel/overflowuid").read_text())
    except (OSError, ValueError):
        return False


def _user(number: int) -> str:
    import pwd

    try:
        return f"{pwd.getpwuid(number).pw_name} (user {number})"
    except KeyError:
        return f"user {number}"


def _group(number: int) -> str:
    import grp

    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
