"""Confinement of a parser child: its folder, and limits of the kernel on calls, memory, time and files."""

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

_MEMBER_NOT_WRITTEN = "What is packed into the file could not be written to the worker's disk."


class SandboxFolder:
    """Temporary folder of a child. The parent copies input in and results out; the child sees no other files."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="retrieval-child-")).resolve()
        self.input_folder, self.output_folder = self.path / "given", self.path / "made"
        self.input_folder.mkdir()
        self.output_folder.mkdir()
        self._file_count = 0

    def link_input(self, task: Task) -> Task:
        """Link or copy the file into the folder and return its task. OSError on failure."""
        self._file_count += 1
        raw_path = self.input_folder / f"raw-{self._file_count}"
        try:
            os.link(task.path, raw_path)
        except OSError:  # another file system, or a file of somebody else's
            shutil.copyfile(task.path, raw_path)
        unpack = task.unpack and msgspec.structs.replace(task.unpack, folder=str(self.output_folder))
        return msgspec.structs.replace(task, path=str(raw_path), unpack=unpack)

    def collect_output(self, reply: Reply, unpack: Unpack | None) -> Reply:
        """Move the extracted members to the task's folder and return the reply with their paths."""
        if not reply.members or unpack is None:
            return msgspec.structs.replace(reply, members=())
        folder = Path(unpack.folder)
        members = tuple(self._move_member(member, folder / str(number)) for number, member in enumerate(reply.members))
        return msgspec.structs.replace(reply, members=members)

    def clear(self) -> None:
        """Delete the input and output of the last file."""
        for folder in (self.input_folder, self.output_folder):
            with suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    _delete_entry(entry)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def _move_member(self, member: Packed, target: Path) -> Packed:
        # Paths in a reply are untrusted: the file may have taken over the child.
        if member.reason or not member.place:
            return msgspec.structs.replace(member, place="")
        try:
            _move_file(self.output_folder / Path(member.place).name, target)
            status = target.lstat()
        except OSError as error:
            raise Retryable(_MEMBER_NOT_WRITTEN) from error
        if not stat.S_ISREG(status.st_mode):
            raise Retryable(_MEMBER_NOT_WRITTEN)
        return msgspec.structs.replace(member, place=str(target), size=status.st_size)


def _move_file(path: Path, target: Path) -> None:
    try:
        path.replace(target)
    except OSError:  # another file system
        shutil.copyfile(path, target, follow_symlinks=False)


def _delete_entry(entry: os.DirEntry[str]) -> None:
    if entry.is_dir(follow_symlinks=False):
        shutil.rmtree(entry.path, ignore_errors=True)
    else:
        with suppress(OSError):
            Path(entry.path).unlink()


_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 22, 38
_SECCOMP_MODE_FILTER = 2
_FILTER_ALLOW, _FILTER_EACCES, _FILTER_ENOSYS = 0x7FFF0000, 0x00050000 | 13, 0x00050000 | 38
_BPF_LOAD, _BPF_JUMP_IF_EQUAL, _BPF_JUMP_IF_AT_LEAST, _BPF_JUMP_IF_SET, _BPF_RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_CLONE_THREAD = 0x10000


@dataclass(frozen=True, slots=True)
class _SystemCalls:
    """System call numbers of one architecture."""

    audit: int
    # Sockets, tracing, io_uring, and memory outside every limit (memfd, System V).
    refused: tuple[int, ...]
    # execve and execveat.
    programs: tuple[int, ...]
    # Calls besides clone that only start processes.
    forks: tuple[int, ...]
    clone: int
    clone3: int = 435


_CALLS_BY_MACHINE = {
    "x86_64": _SystemCalls(0xC000003E, (41, 42, 101, 425, 319, 447, 29), (59, 322), (57, 58), 56),
    "aarch64": _SystemCalls(0xC00000B7, (198, 203, 117, 425, 279, 447, 194), (221, 281), (), 220),
}


# x86_64 numbers all calls a second time from here, for x32 programs.
_FIRST_X32_CALL = 0x40000000
_CAPABILITY_VERSION = 0x20080522
# Address space beyond the memory limit, in bytes: libraries loaded later, models, reserves of allocators.
_ADDRESS_SPACE_MARGIN = 256 * 2**20


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def confine_process(memory_bytes: int, file_bytes: int, *, programs: bool = False) -> None:
    r"""Limit the memory, file sizes and system calls of this process for its lifetime. Sizes are in bytes; stacks of
    threads count as memory.

    `programs`: allow other programs to start, within the same limits; otherwise this process starts none.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    _refuse_calls(programs=programs)
    _drop_capabilities()


def cap_address_space(memory_bytes: int) -> None:
    """Limit the address space mapped after this call, in bytes. Call once the libraries are loaded."""
    # RLIMIT_DATA does not count shared memory.
    if mapped := _read_status_bytes("self", "VmSize:"):
        limit = mapped + memory_bytes + _ADDRESS_SPACE_MARGIN
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def allow_cpu(seconds: float) -> None:
    """Allow this process `seconds` more of processor time before the kernel ends it."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = math.ceil(used.ru_utime + used.ru_stime + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def cpu_seconds_of(process: int) -> float:
    """Return the processor time of a process in seconds; 0 on systems without /proc."""
    try:
        with open(f"/proc/{process}/stat", "rb") as stat:  # noqa: PTH123
            user, system = stat.read().rpartition(b")")[2].split()[11:13]
    except OSError:
        return 0.0
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def data_bytes() -> int:
    """Return the writable memory of this process in bytes; 0 on systems without /proc."""
    return data_bytes_of("self")


def data_bytes_of(process: int | str) -> int:
    """Return the writable memory of a process in bytes; 0 on systems without /proc."""
    return _read_status_bytes(process, "VmData:")


def _read_status_bytes(process: int | str, field: str) -> int:
    try:
        with open(f"/proc/{process}/status", encoding="ascii", errors="replace") as status:  # noqa: PTH123
            return next((int(line.split()[1]) * 1024 for line in status if line.startswith(field)), 0)
    except OSError:
        return 0


def _refuse_calls(*, programs: bool) -> None:
    """Install a seccomp filter against calls unnecessary for reading a file, on Linux."""
    calls = _CALLS_BY_MACHINE.get(platform.machine())
    if calls is None or platform.system() != "Linux":
        return
    refused = calls.refused if programs else (*calls.refused, *calls.programs, *calls.forks)
    steps = [
        (_BPF_LOAD, 0, 0, 4),
        (_BPF_JUMP_IF_EQUAL, 1, 0, calls.audit),
        (_BPF_RETURN, 0, 0, _FILTER_EACCES),
        (_BPF_LOAD, 0, 0, 0),
    ]
    checks: list[tuple[int, int, str]] = [(_BPF_JUMP_IF_AT_LEAST, _FIRST_X32_CALL, "refuse")]
    checks += [(_BPF_JUMP_IF_EQUAL, call, "refuse") for call in refused]
    # A filter cannot see the flags of clone3. Answered as unknown, C libraries fall back to clone.
    checks += [(_BPF_JUMP_IF_EQUAL, calls.clone3, "unknown")]
    checks += [] if programs else [(_BPF_JUMP_IF_EQUAL, calls.clone, "clone")]
    end = {"allow": 0, "clone": 1, "refuse": 3, "unknown": 4}
    for number, (operation, value, verdict) in enumerate(checks, 1):
        steps.append((operation, len(checks) - number + end[verdict], 0, value))
    steps += [(_BPF_RETURN, 0, 0, _FILTER_ALLOW), (_BPF_LOAD, 0, 0, 16), (_BPF_JUMP_IF_SET, 2, 0, _CLONE_THREAD)]
    steps += [
        (_BPF_RETURN, 0, 0, _FILTER_EACCES),
        (_BPF_RETURN, 0, 0, _FILTER_ENOSYS),
        (_BPF_RETURN, 0, 0, _FILTER_ALLOW),
    ]
    program = b"".join(struct.pack("HBBI", *step) for step in steps)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(_FilterProgram(len(steps), program)), 0, 0)


def _drop_capabilities() -> None:
    """Drop the capabilities of root for this process and its children."""
    if platform.system() == "Linux":
        header, none = struct.pack("Ii", _CAPABILITY_VERSION, 0), struct.pack("6I", *(0,) * 6)
        ctypes.CDLL(None, use_errno=True).capset(header, none)


_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on x86_64 and aarch64
_RETURN_VERSION = 1
_RULE_PATH_BENEATH = 1
_EXECUTE_FILE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_REG, _TRUNCATE_FILE = 1 << 4, 1 << 5, 1 << 7, 1 << 8, 1 << 14
_READ_RIGHTS = _READ_FILE | _READ_DIR
_CHANGE_RIGHTS = _READ_RIGHTS | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _TRUNCATE_FILE
_FILE_RIGHTS = _EXECUTE_FILE | _WRITE_FILE | _READ_FILE | _TRUNCATE_FILE
# Number of file rights by version of the interface; newer versions have 16 or more.
_FILE_RIGHT_COUNTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
# Bind and connect; from version 4.
_TCP_RIGHTS = 0b11
# Abstract sockets, and signals to processes outside; from version 6.
_SCOPE_FLAGS = 0b11

LANDLOCK_MISSING = (
    "This kernel offers no Landlock: the processes that read files could read whatever the service's user may. Use"
    " Linux 5.13 or later, or run workers as a user, or in a container, of their own."
)
_SYSTEM_FOLDERS = ("/usr", "/lib", "/lib64", "/bin", "/nix/store")
# Lookups of C libraries: fonts, number of processors, memory. Nothing secret.
_SYSTEM_FILES = (
    *("/etc/ld.so.cache", "/etc/localtime", "/etc/mime.types", "/etc/fonts"),
    *("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/sys/vm", "/sys/devices/system/cpu", "/sys/fs/cgroup"),
    *("/dev/zero", "/dev/random", "/dev/urandom"),
)


def landlock_version() -> int:
    """Return the kernel's Landlock version; 0 without Landlock."""
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
        return 0
    return max(0, int(_load_libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _RETURN_VERSION)))


def restrict_files(input_folder: Path, output_folder: Path, program: str = "") -> int:
    r"""Restrict this process for good: read access below `given` and to libraries, write access below `made`.

    `program`: path of an allowed program. Returns the Landlock version; 0 without Landlock and restriction.
    RuntimeError if other threads already run, because they would stay unrestricted; OSError if the kernel refuses.
    """
    version = landlock_version()
    if not version:
        return 0
    if len(os.listdir("/proc/self/task")) > 1:  # noqa: PTH208 - numbers, no paths
        raise RuntimeError("Threads were started before the process was restricted.")
    rights = (1 << _FILE_RIGHT_COUNTS.get(version, 16)) - 1
    attributes = struct.pack("QQQ", rights, _TCP_RIGHTS if version >= 4 else 0, _SCOPE_FLAGS if version >= 6 else 0)
    size = 8 if version < 4 else 16 if version < 6 else 24
    ruleset = _call_landlock(_CREATE_RULESET, attributes, ctypes.c_size_t(size), 0)
    try:
        for path, access in _access_rules(input_folder, output_folder, program):
            _add_rule(ruleset, path, access & rights)
        _call_landlock(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return version


def _access_rules(input_folder: Path, output_folder: Path, program: str) -> Iterator[tuple[Path, int]]:
    yield input_folder, _READ_RIGHTS
    yield output_folder, _CHANGE_RIGHTS
    yield Path("/dev/null"), _READ_RIGHTS | _WRITE_FILE
    start = _EXECUTE_FILE if program else 0
    for path in {*map(Path, _SYSTEM_FOLDERS), *_python_paths(), *_program_paths(program)}:
        yield path, _READ_RIGHTS | start
    for path in map(Path, _SYSTEM_FILES):
        yield path, _READ_RIGHTS


def _python_paths() -> Iterator[Path]:
    """Yield the paths of the interpreter, its packages and the packages of this project, without the project folder."""
    yield Path(sys.executable).resolve()
    yield Path(sys.base_prefix) / "lib"
    yield Path(sys.prefix) / "pyvenv.cfg"
    for name in ("stdlib", "platstdlib", "purelib", "platlib"):
        yield Path(sysconfig.get_path(name))
    for package in ("connectors", "retrieval"):
        yield from map(Path, sys.modules[package].__path__)


def _program_paths(program: str) -> Iterable[Path]:
    path = Path(program).resolve()
    return () if not program else (path.parent.parent,) if path.parent.name == "bin" else (path,)


def _add_rule(ruleset: int, path: Path, access: int) -> None:
    """Add a rule for an existing path."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        rights = access if path.is_dir() else access & _FILE_RIGHTS
        _call_landlock(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, struct.pack("=Qi", rights, descriptor), 0)
    finally:
        os.close(descriptor)


def _call_landlock(call: int, *arguments: object) -> int:
    answer = int(_load_libc().syscall(call, *arguments))
    if answer < 0:
        raise OSError(ctypes.get_errno(), "Landlock: " + os.strerror(ctypes.get_errno()))
    return answer


def _load_libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
