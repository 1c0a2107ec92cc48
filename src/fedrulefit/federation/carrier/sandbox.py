"""What a process may no longer do, once it has said so itself.

On any Linux: no new privileges, no core file, no memory readable by other processes of
the same user. Where the kernel has Landlock: only named files can be read, none written,
no program started, only named TCP ports reached, and no process outside signalled.
Elsewhere (macOS, older kernels) this does what it can, and says what it could not.

Landlock binds the thread that calls it and all that this thread starts afterwards.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from fedrulefit.errors import FederationError

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PATH_BENEATH, _NET_PORT = 1, 2
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_BIND_TCP, _CONNECT_TCP = 1 << 0, 1 << 1
_ALL_NET: Final = _BIND_TCP | _CONNECT_TCP
_SCOPES: Final = 0b11  # abstract Unix sockets, signals
_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38
_M_ARENA_MAX = -8

_SINCE: Final = (
    (1, "read and write its user's files and start programs"),
    (3, "empty its user's files"),
    (4, "open and take TCP connections at any port"),
    (5, "control devices that are open"),
    (6, "send signals to its user's processes and reach their abstract sockets"),
)
"""What each version of Landlock was the first to forbid."""

NAME_FILES: Final = tuple(
    Path("/etc") / name
    for name in ("hosts", "resolv.conf", "nsswitch.conf", "host.conf", "gai.conf", "services")
)
"""What the system's library reads to find an address by its name."""


def need_posix() -> None:
    """Refuse to go on where nothing of this would hold.

    Raises
    ------
    FederationError
        On Windows.
    """
    if os.name != "posix":
        raise FederationError(
            "hospitals' processes run on Linux or macOS: use one of these, or a container on it"
        )


def harden() -> None:
    """Keep other processes of this user out of this one's memory, and gain no privileges."""
    import resource  # POSIX only

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def limit(*, memory: int, files: int) -> None:
    """Bound the memory (bytes of address space) and the open files of this process."""
    import resource

    _lower(resource.RLIMIT_NOFILE, files)
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError):  # glibc: else each thread reserves 64 MB
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)
        _lower(resource.RLIMIT_AS, memory)


def _lower(which: int, most: int) -> None:
    import resource

    hard = resource.getrlimit(which)[1]
    bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(which, (bound, bound))


def python_files() -> tuple[Path, ...]:
    """Return the folders that Python itself reads: its libraries, and ours."""
    ours = Path(__file__).resolve().parents[3]
    system = [Path(folder) for folder in ("/usr/lib", "/usr/lib64", "/lib", "/lib64")]
    # Python may put the folder of its program, or the working folder, in front.
    found = [Path(folder) for folder in sys.path[0 if sys.flags.safe_path else 1 :] if folder]
    own = [folder for folder in found if folder.resolve() != Path.cwd().resolve()]
    return tuple(dict.fromkeys([ours, *own, Path(sys.base_prefix) / "lib", *system]))


def confine(*, read: Iterable[Path], connect: Iterable[int] = ()) -> tuple[str, ...]:
    """Give up all files but some to read, all TCP but some ports to call, and all signals.

    Parameters
    ----------
    read : iterable of Path
        Files and folders; what is not there is left out.
    connect : iterable of int
        TCP ports that may be called.

    Returns
    -------
    left : tuple of str
        What the process can do still, as this kernel cannot forbid it; in words.
    """
    abi = landlock_abi()
    left = tuple(words for since, words in _SINCE if abi < since)
    if abi < 1:
        return left
    files = (1 << (13 if abi < 2 else 14 if abi < 3 else 15 if abi < 5 else 16)) - 1
    net = _ALL_NET if abi >= 4 else 0
    with _ruleset(abi, files, net, _SCOPES if abi >= 6 else 0) as rules:
        for path in read:
            _allow_reading(rules, path)
        for port in connect if net else ():
            _call(_ADD_RULE, rules, _NET_PORT, struct.pack("=QQ", _CONNECT_TCP, port), 0)
        _call(_RESTRICT_SELF, rules, 0)
    return left


def forbid_tcp() -> bool:
    """Give up all TCP, in and out; return whether the kernel could be told so."""
    abi = landlock_abi()
    if abi < 4:
        return False
    with _ruleset(abi, 0, _ALL_NET, 0) as rules:
        _call(_RESTRICT_SELF, rules, 0)
    return True


def landlock_abi() -> int:
    """Return the version of the kernel's Landlock, 0 where there is none."""
    if sys.platform != "linux":
        return 0
    try:
        return _call(_CREATE_RULESET, None, 0, 1)
    except OSError:
        return 0


@contextlib.contextmanager
def _ruleset(abi: int, files: int, net: int, scopes: int) -> Iterator[int]:
    parts = [files] + ([net] if abi >= 4 else []) + ([scopes] if abi >= 6 else [])
    facts = struct.pack(f"={len(parts)}Q", *parts)
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)  # Landlock asks for it
    rules = _call(_CREATE_RULESET, facts, len(facts), 0)
    try:
        yield rules
    finally:
        os.close(rules)


def _allow_reading(rules: int, path: Path) -> None:
    try:
        entry = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        rights = _READ_FILE | _READ_DIR if path.is_dir() else _READ_FILE
        _call(_ADD_RULE, rules, _PATH_BENEATH, struct.pack("=Qi", rights, entry), 0)
    finally:
        os.close(entry)


def _call(number: int, *arguments: bytes | int | None) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    plain = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result: int = libc.syscall(ctypes.c_long(number), *plain)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
