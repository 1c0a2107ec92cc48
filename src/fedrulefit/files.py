"""Files: whole or not at all, and their owner's alone where they must be."""

from __future__ import annotations

import errno
import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from fedrulefit.errors import FederationError

_OTHERS = 0o077
"""What a private file or folder allows nobody but its owner."""

NO_LINKS: Final = getattr(os, "O_NOFOLLOW", 0)
"""Opens no link; Windows has no such way, and no state folders of ours."""

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


def write_whole(path: Path, data: bytes, *, private: bool = False) -> None:
    """Write a file whole or not at all.

    Parameters
    ----------
    path : Path
    data : bytes
    private : bool
        Whether it is state that must outlive a power cut: for its owner alone, whatever the
        umask and the file that was there, and on disk under its name before this returns.
    """

    def fill(draft: Path) -> None:
        draft.unlink(missing_ok=True)  # left by a crash, with whatever mode
        descriptor = os.open(draft, _NEW, 0o600 if private else 0o666)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    fill_whole(path, fill)
    if private:
        _keep_names(path.parent)


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


def _keep_names(folder: Path) -> None:
    """Bring to disk what the files of a folder are called; Windows does so by itself."""
    if os.name != "posix":
        return
    entry = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(entry)
    finally:
        os.close(entry)


def write_json(path: Path, facts: Any) -> None:
    """Write a small file for its owner alone, whole or not at all."""
    text = json.dumps(facts, ensure_ascii=False, indent=1)
    write_whole(path, text.encode(), private=True)


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
