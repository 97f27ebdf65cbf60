"""Limits of a parser process: memory, time, core dumps, privileges, network, new processes."""

from __future__ import annotations

import ctypes
import math
import os
import platform
import resource
import struct
from dataclasses import dataclass

_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 22, 38
_SECCOMP_MODE_FILTER = 2
_ALLOW, _REFUSE_EACCES, _REFUSE_ENOSYS = 0x7FFF0000, 0x00050000 | 13, 0x00050000 | 38
_LOAD, _JUMP_IF_EQUAL, _JUMP_FROM, _JUMP_IF_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_CLONE_THREAD = 0x10000


@dataclass(frozen=True, slots=True)
class _Calls:
    """System calls of one architecture. `refused`: sockets, tracing, io_uring, and memory that no limit counts (memfd,
    System V); `programs`: execve and execveat; `forks`: calls that make processes alone, besides `clone`."""

    audit: int
    refused: tuple[int, ...]
    programs: tuple[int, ...]
    forks: tuple[int, ...]
    clone: int
    clone3: int = 435


_ARCHITECTURES = {
    "x86_64": _Calls(0xC000003E, (41, 42, 101, 425, 319, 447, 29), (59, 322), (57, 58), 56),
    "aarch64": _Calls(0xC00000B7, (198, 203, 117, 425, 279, 447, 194), (221, 281), (), 220),
}


_OTHER_NUMBERS = 0x40000000
"""From here on x86_64 counts all calls once more, for its x32 programs."""
_CAPABILITIES_3 = 0x20080522
_ROOM = 256 * 2**20
"""Address space beyond the memory limit: libraries that are loaded later, models, what allocators reserve."""


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def confine(memory_bytes: int, file_bytes: int, *, programs: bool = False) -> None:
    """Set what holds for the life of this process. Memory is what it may write to, threads' stacks included.

    `file_bytes`: size of a file that it may write. `programs`: it may start other programs, which are bound by the same
    limits; without, it starts no process at all.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    _refuse_calls(programs=programs)
    _drop_capabilities()


def cap_address_space(memory_bytes: int) -> None:
    """Limit all that this process maps from now on, shared memory included, which RLIMIT_DATA does not count.

    Call it once the libraries are loaded: what they take by now is not counted. Nothing is done where the system does
    not tell how much that is.
    """
    if mapped := _bytes_of("self", "VmSize:"):
        most = mapped + memory_bytes + _ROOM
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def allow_cpu(seconds: float) -> None:
    """Let this process use `seconds` of processor time from now; the kernel ends it after that."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = math.ceil(used.ru_utime + used.ru_stime + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def cpu_seconds_of(process: int) -> float:
    """The processor time that a process has used, in seconds; 0 where the system does not tell."""
    try:
        with open(f"/proc/{process}/stat", "rb") as stat:  # noqa: PTH123
            user, system = stat.read().rpartition(b")")[2].split()[11:13]
    except OSError:
        return 0.0
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def data_bytes() -> int:
    """The writable memory of this process, in bytes; 0 where the system does not tell."""
    return data_bytes_of("self")


def data_bytes_of(process: int | str) -> int:
    """The writable memory of a process, in bytes; 0 where the system does not tell."""
    return _bytes_of(process, "VmData:")


def _bytes_of(process: int | str, name: str) -> int:
    try:
        with open(f"/proc/{process}/status", encoding="ascii", errors="replace") as status:  # noqa: PTH123
            return next((int(line.split()[1]) * 1024 for line in status if line.startswith(name)), 0)
    except OSError:
        return 0


def _refuse_calls(*, programs: bool) -> None:
    """Have the kernel refuse calls that reading a file does not need, where it offers that.

    A filter cannot see the flags of clone3, which is answered as unknown: C libraries then use clone.
    """
    calls = _ARCHITECTURES.get(platform.machine())
    if calls is None or platform.system() != "Linux":
        return
    refused = calls.refused if programs else (*calls.refused, *calls.programs, *calls.forks)
    steps = [(_LOAD, 0, 0, 4), (_JUMP_IF_EQUAL, 1, 0, calls.audit), (_RETURN, 0, 0, _REFUSE_EACCES), (_LOAD, 0, 0, 0)]
    checks: list[tuple[int, int, str]] = [(_JUMP_FROM, _OTHER_NUMBERS, "refuse")]
    checks += [(_JUMP_IF_EQUAL, call, "refuse") for call in refused]
    checks += [(_JUMP_IF_EQUAL, calls.clone3, "unknown")]
    checks += [] if programs else [(_JUMP_IF_EQUAL, calls.clone, "clone")]
    end = {"allow": 0, "clone": 1, "refuse": 3, "unknown": 4}
    for number, (operation, value, verdict) in enumerate(checks, 1):
        steps.append((operation, len(checks) - number + end[verdict], 0, value))
    steps += [(_RETURN, 0, 0, _ALLOW), (_LOAD, 0, 0, 16), (_JUMP_IF_SET, 2, 0, _CLONE_THREAD)]
    steps += [(_RETURN, 0, 0, _REFUSE_EACCES), (_RETURN, 0, 0, _REFUSE_ENOSYS), (_RETURN, 0, 0, _ALLOW)]
    program = b"".join(struct.pack("HBBI", *step) for step in steps)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(_Program(len(steps), program)), 0, 0)


def _drop_capabilities() -> None:
    """Give up what root may beyond other users, for this process and what it starts."""
    if platform.system() == "Linux":
        header, none = struct.pack("Ii", _CAPABILITIES_3, 0), struct.pack("6I", *(0,) * 6)
        ctypes.CDLL(None, use_errno=True).capset(header, none)
