"""Confinement of a parser child: its folder, limits of the kernel on calls, memory and time, Landlock on files."""

from __future__ import annotations

import ctypes
import math
import os
import platform
import resource
import shutil
import stat
import struct
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from connectors.parsers.messages import Packed, Reply, Task, Unpack
from retrieval.errors import Retryable

_NOT_TAKEN = "What is packed into the file could not be written to the worker's disk."


class Room:
    """Created by the parent, which copies input in and results out; the child is confined to it.

    Paths that the child reports are never trusted: the file it read may have taken it over.
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="retrieval-child-")).resolve()
        self.given, self.made = self.path / "given", self.path / "made"
        self.given.mkdir()
        self.made.mkdir()
        self._files = 0

    def bring(self, task: Task) -> Task:
        """Link or copy the file into the room and return its task, with a folder for members. OSError on failure."""
        self._files += 1
        raw_path = self.given / f"raw-{self._files}"
        try:
            os.link(task.path, raw_path)
        except OSError:  # another file system, or a file of somebody else's
            shutil.copyfile(task.path, raw_path)
        unpack = task.unpack and msgspec.structs.replace(task.unpack, folder=str(self.made))
        return msgspec.structs.replace(task, path=str(raw_path), unpack=unpack)

    def take(self, reply: Reply, unpack: Unpack | None) -> Reply:
        """The reply with what was made moved to the folder that the task named."""
        if not reply.members or unpack is None:
            return msgspec.structs.replace(reply, members=())
        folder = Path(unpack.folder)
        members = tuple(self._taken(member, folder / str(number)) for number, member in enumerate(reply.members))
        return msgspec.structs.replace(reply, members=members)

    def clear(self) -> None:
        """Delete everything of the file from the room."""
        for folder in (self.given, self.made):
            with suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    _remove(entry)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def _taken(self, member: Packed, to: Path) -> Packed:
        if member.reason or not member.place:
            return msgspec.structs.replace(member, place="")
        try:
            _move(self.made / Path(member.place).name, to)
            status = to.lstat()
        except OSError as error:
            raise Retryable(_NOT_TAKEN) from error
        if not stat.S_ISREG(status.st_mode):
            raise Retryable(_NOT_TAKEN)
        return msgspec.structs.replace(member, place=str(to), size=status.st_size)


def _move(path: Path, to: Path) -> None:
    try:
        path.replace(to)
    except OSError:  # another file system
        shutil.copyfile(path, to, follow_symlinks=False)


def _remove(entry: os.DirEntry[str]) -> None:
    if entry.is_dir(follow_symlinks=False):
        shutil.rmtree(entry.path, ignore_errors=True)
    else:
        with suppress(OSError):
            Path(entry.path).unlink()


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


def confine_process(memory_bytes: int, file_bytes: int, *, programs: bool = False) -> None:
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
        limit = mapped + memory_bytes + _ROOM
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


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


_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on x86_64 and aarch64
_VERSION = 1
_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_REG, _TRUNCATE = 1 << 4, 1 << 5, 1 << 7, 1 << 8, 1 << 14
_READ = _READ_FILE | _READ_DIR
_CHANGE = _READ | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _TRUNCATE
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_KNOWN_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""By version of the interface, how many rights of files the kernel knows; newer versions know 16 or more."""
_TCP = 0b11
"""Binding and connecting, from version 4 on."""
_SCOPES = 0b11
"""Abstract sockets and signals to processes outside, from version 6 on."""

MISSING = (
    "This kernel offers no Landlock: the processes that read files could read whatever the service's user may. Use"
    " Linux 5.13 or later, or run workers as a user, or in a container, of their own."
)
_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/nix/store")
_SYSTEM_FILES = (
    *("/etc/ld.so.cache", "/etc/localtime", "/etc/mime.types", "/etc/fonts"),
    *("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/sys/vm", "/sys/devices/system/cpu", "/sys/fs/cgroup"),
    *("/dev/zero", "/dev/random", "/dev/urandom"),
)
"""What C libraries look up: fonts, the number of processors, the memory; nothing that is secret."""


def landlock_version() -> int:
    """Return the version of Landlock that the kernel offers; 0 without it."""
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
        return 0
    return max(0, int(_libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)))


def restrict_files(given: Path, made: Path, program: str = "") -> int:
    """Restrict this process for good: read access below `given` and to its libraries, write access below `made`.

    `program`: a path of what it may start. Returns the version of the interface; 0: the kernel offers none and nothing
    is restricted. RuntimeError if other threads run already, which would stay free; OSError if the kernel refuses.
    """
    offered = landlock_version()
    if not offered:
        return 0
    if len(os.listdir("/proc/self/task")) > 1:  # noqa: PTH208 - numbers, no paths
        raise RuntimeError("Threads were started before the process was restricted.")
    rights = (1 << _KNOWN_FILE_RIGHTS.get(offered, 16)) - 1
    attributes = struct.pack("QQQ", rights, _TCP if offered >= 4 else 0, _SCOPES if offered >= 6 else 0)
    size = 8 if offered < 4 else 16 if offered < 6 else 24
    ruleset = _asked(_CREATE_RULESET, attributes, ctypes.c_size_t(size), 0)
    try:
        for path, access in _rules(given, made, program):
            _allow(ruleset, path, access & rights)
        _asked(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return offered


def _rules(given: Path, made: Path, program: str) -> Iterator[tuple[Path, int]]:
    yield given, _READ
    yield made, _CHANGE
    yield Path("/dev/null"), _READ | _WRITE_FILE
    start = _EXECUTE if program else 0
    for path in {*map(Path, _SYSTEM), *_python(), *_parts_of(program)}:
        yield path, _READ | start
    for path in map(Path, _SYSTEM_FILES):
        yield path, _READ


def _python() -> Iterator[Path]:
    """The interpreter, its packages, and those of this project's that children use; not the project's folder."""
    yield Path(sys.executable).resolve()
    yield Path(sys.base_prefix) / "lib"
    yield Path(sys.prefix) / "pyvenv.cfg"
    for name in ("stdlib", "platstdlib", "purelib", "platlib"):
        yield Path(sysconfig.get_path(name))
    for package in ("connectors", "retrieval"):
        yield from map(Path, sys.modules[package].__path__)


def _parts_of(program: str) -> Iterable[Path]:
    path = Path(program).resolve()
    return () if not program else (path.parent.parent,) if path.parent.name == "bin" else (path,)


def _allow(ruleset: int, path: Path, access: int) -> None:
    """Add a rule for the path; a missing path needs none."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        rights = access if path.is_dir() else access & _OF_FILES
        _asked(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, descriptor), 0)
    finally:
        os.close(descriptor)


def _asked(call: int, *arguments: object) -> int:
    answer = int(_libc().syscall(call, *arguments))
    if answer < 0:
        raise OSError(ctypes.get_errno(), "Landlock: " + os.strerror(ctypes.get_errno()))
    return answer


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
