"""Files: whole or not at all, their owner's alone, and plain though anybody wrote them."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from fedrulefit.errors import FederationError

_OTHERS = 0o077
"""What a private file or folder allows nobody but its owner."""

NO_LINKS: Final = getattr(os, "O_NOFOLLOW", 0)  # Windows has none, and no state folders of ours

MAX_TOML: Final = 10**6
MAX_DEPTH: Final = 16
"""Most tables and lists inside each other in a TOML file; ours have four."""

_LONG_KEY = re.compile(
    r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){32}""", re.ASCII
)
"""A key of so many parts that reading it would take for ever."""


class TomlError(ValueError):
    """A file is not plain TOML; the message goes on after the file's name."""


def read_toml(path: Path) -> dict[str, Any]:
    """Read a small, plain TOML file, whoever wrote it.

    Raises
    ------
    OSError
        If it cannot be opened.
    TomlError
        If it is too large, too deep, not UTF-8 or not TOML.
    """
    with path.open("rb") as file:
        data = file.read(MAX_TOML + 1)
    if len(data) > MAX_TOML:
        raise TomlError(f"has over {MAX_TOML} bytes: give the file itself")
    try:
        text = data.decode("utf-8").replace("\r\n", "\n")
        if _LONG_KEY.search(text):
            raise RecursionError
        facts = tomllib.loads(text)
        _check_depth(facts)
    except UnicodeDecodeError:
        raise TomlError("is not UTF-8 text: save it as UTF-8") from None
    except RecursionError:
        raise TomlError("is not valid: tables, lists or keys are nested too deeply") from None
    except ValueError as error:  # of a number of thousands of digits, too
        raise TomlError(f"is not valid TOML: {error}") from None
    return facts


def _check_depth(facts: dict[str, Any]) -> None:
    level: list[Any] = [facts]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for part in level
            for inner in (part.values() if isinstance(part, dict) else part)
            if isinstance(inner, (dict, list))
        ]
    if level:
        raise RecursionError


def write_whole(path: Path, data: bytes) -> None:
    """Write beside `path`, then rename; on an error nothing is left behind."""
    fill_whole(path, lambda draft: draft.write_bytes(data))


def fill_whole(path: Path, fill: Callable[[Path], object]) -> None:
    """Let `fill` write a file beside `path`, then rename; on an error nothing is left behind."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.part")  # two processes may write at once
    try:
        fill(draft)
        draft.replace(path)
    except Exception:
        with suppress(OSError):
            draft.unlink()
        raise


def make_private_folder(path: Path) -> None:
    """Make a folder for its owner alone, whatever the umask; leave one that is there as it is."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)


def touch_private(path: Path) -> None:
    """Make an empty file for its owner alone, whatever the umask, or leave the one there."""
    os.close(open_private(path))


def open_private(path: Path) -> int:
    """Open a file for its owner alone, made if it is not there; return its descriptor.

    Raises
    ------
    FederationError
        If a link lies in its place, which could lead to any file of the user.
    """
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | NO_LINKS, 0o600)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise FederationError(f"{path} is a link: put the file itself there") from None


@contextmanager
def passing_file(data: bytes) -> Iterator[str]:
    """Give a path to bytes that were checked, for a library that takes nothing but paths."""
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("passing"), "wb") as file:
            file.write(data)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.NamedTemporaryFile() as named:
            named.write(data)
            named.flush()
            yield named.name


def write_private(path: Path, data: bytes) -> None:
    """Write a file for its owner alone, whole or not at all, and on disk before this returns."""

    def fill(draft: Path) -> None:
        draft.unlink(missing_ok=True)  # left by a crash, with whatever mode
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    fill_whole(path, fill)
    entry = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(entry)
    finally:
        os.close(entry)


def close_to_others(folder: Path, parts: Iterable[Path] | None = None) -> list[Path]:
    """Take a folder and all in it away from everybody but its owner; return what was open.

    Parameters
    ----------
    folder : Path
    parts : iterable of Path, optional
        The files and folders in it that are meant, where it may hold others.

    Raises
    ------
    FederationError
        If it is another user's, so that it cannot be closed.
    """
    inside = [folder] if parts is None else list(parts)
    every = [folder, *inside]
    every += [path for part in inside if not part.is_symlink() for path in part.rglob("*")]
    mended = []
    for path in dict.fromkeys(every):
        try:
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode) or not mode & _OTHERS:
                continue
            path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
        except FileNotFoundError:  # gone meanwhile, as passing files go
            continue
        except OSError as error:
            raise FederationError(
                f"other users can reach {path}, and that cannot be changed ({error.strerror}): "
                f"make it the property of the user who runs this, and 'chmod -R go= {folder}'"
            ) from None
        mended.append(path)
    return mended


def write_json(path: Path, facts: Any) -> None:
    """Write a small file whole or not at all, readable by its owner only."""
    write_private(path, json.dumps(facts, ensure_ascii=False, indent=1).encode())
