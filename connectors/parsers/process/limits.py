"""Limits of a parser process: memory, time, core dumps, privileges, network, new processes."""

from __future__ import annotations

import ctypes
import math
import platform
import resource
import struct

_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 22, 38
_SECCOMP_MODE_FILTER = 2
_ALLOW, _REFUSE_EACCES = 0x7FFF0000, 0x00050000 | 13
_LOAD, _JUMP_IF_EQUAL, _JUMP_FROM, _RETURN = 0x20, 0x15, 0x35, 0x06
_ARCHITECTURES = {
    # machine: (audit number, then socket, connect, execve, execveat, ptrace, io_uring_setup)
    "x86_64": (0xC000003E, (41, 42, 59, 322, 101, 425)),
    "aarch64": (0xC00000B7, (198, 203, 221, 281, 117, 425)),
}


_OTHER_NUMBERS = 0x40000000
"""From here on x86_64 counts all calls once more, for its x32 programs."""
_CAPABILITIES_3 = 0x20080522
_STARTS_PROGRAMS = (2, 3)
"""Places of execve and execveat in the list."""


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def confine(memory_bytes: int, *, programs: bool = False) -> None:
    """Set what holds for the life of this process. Memory is what it may write to, threads' stacks included.

    `programs`: it may start other programs, which are bound by the same limits.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    _refuse_network(programs=programs)
    _drop_capabilities()


def allow_cpu(seconds: float) -> None:
    """Let this process use `seconds` of processor time from now; the kernel ends it after that."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = math.ceil(used.ru_utime + used.ru_stime + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def data_bytes() -> int:
    """The writable memory of this process, in bytes; 0 where the system does not tell."""
    return data_bytes_of("self")


def data_bytes_of(process: int | str) -> int:
    try:
        with open(f"/proc/{process}/status", encoding="ascii", errors="replace") as status:  # noqa: PTH123
            return next((int(line.split()[1]) * 1024 for line in status if line.startswith("VmData:")), 0)
    except OSError:
        return 0


def _refuse_network(*, programs: bool) -> None:
    """Have the kernel refuse new sockets, connections and programs, where it offers that; nothing here needs them."""
    known = _ARCHITECTURES.get(platform.machine())
    if known is None or platform.system() != "Linux":
        return
    audit = known[0]
    calls = list(known[1])
    if programs:
        calls = [call for place, call in enumerate(calls) if place not in _STARTS_PROGRAMS]
    code = [(_LOAD, 0, 0, 4), (_JUMP_IF_EQUAL, 0, len(calls) + 3, audit), (_LOAD, 0, 0, 0)]
    code += [(_JUMP_FROM, len(calls) + 1, 0, _OTHER_NUMBERS)]
    code += [(_JUMP_IF_EQUAL, len(calls) - place, 0, call) for place, call in enumerate(calls)]
    code += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _REFUSE_EACCES)]
    program = b"".join(struct.pack("HBBI", *step) for step in code)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(_Program(len(code), program)), 0, 0)


def _drop_capabilities() -> None:
    """Give up what root may beyond other users, for this process and what it starts."""
    if platform.system() == "Linux":
        header, none = struct.pack("Ii", _CAPABILITIES_3, 0), struct.pack("6I", *(0,) * 6)
        ctypes.CDLL(None, use_errno=True).capset(header, none)
