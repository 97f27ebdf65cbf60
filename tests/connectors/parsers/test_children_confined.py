"""Parser children open only their own file and the files of their libraries."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.parsers import confinement
from connectors.parsers.confinement import SandboxFolder
from connectors.parsers.messages import Packed, Reply, Task, Unpack
from connectors.parsers.pool import Limits, ParserChild
from retrieval.errors import Retryable
from retrieval.settings import PROJECT_ROOT

pytestmark = pytest.mark.service
"""Starts parser children."""

MB = 2**20
ATTEMPTS = """
import json, os, signal, sys
from pathlib import Path
from connectors.parsers import child
from connectors.parsers.formats import reading
from connectors.parsers import confinement
given, made, secret, beside, listening, parent = sys.argv[1:]
confinement.confine_process(512 * 2**20, 2**20, programs=True)
confined = confinement.restrict_files(Path(given), Path(made), "/usr/bin/tesseract")

def dial():
    import socket
    socket.socket(socket.AF_UNIX).connect(listening)

tried = {
    "its file": lambda: Path(given, "raw").read_bytes(),
    "its folder": lambda: Path(made, "new").write_bytes(b"x"),
    "its libraries": lambda: (__import__("pypdfium2"), __import__("PIL.Image"), __import__("trafilatura")),
    "secret.key": lambda: Path(secret).read_bytes(),
    "secret.key by a link": lambda: (os.symlink(secret, Path(made, "link")), Path(made, "link").read_bytes()),
    "secret.key by another name": lambda: os.link(secret, Path(made, "other")),
    "secret.key through its parent": lambda: Path(f"/proc/{parent}/root{secret}").read_bytes(),
    "changing secret.key": lambda: Path(secret).open("ab"),
    "what lies beside its file": lambda: Path(beside).read_bytes(),
    "the list of what lies beside it": lambda: os.listdir(Path(beside).parent),
    "changing its file": lambda: Path(given, "raw").open("ab"),
    "environ of its parent": lambda: Path(f"/proc/{parent}/environ").read_bytes(),
    "memory of its parent": lambda: Path(f"/proc/{parent}/mem").open("rb"),
    "the database's socket": dial,
    "its parent's life": lambda: os.kill(int(parent), 0),
    "passwords": lambda: Path("/etc/shadow").read_bytes(),
    "the settings file": lambda: Path(".env.example").read_bytes(),
    "the disks": lambda: os.mknod(Path(made, "disk"), 0o60600, os.makedev(254, 0)),
}
said = {}
for name, attempt in tried.items():
    try:
        attempt()
        said[name] = "done"
    except OSError as error:
        said[name] = type(error).__name__
print(json.dumps([confined, said]))
"""
HOARDING = """
import ctypes, json, mmap, os, sys, threading
from pathlib import Path
from connectors.parsers import child
from connectors.parsers.formats import reading
from connectors.parsers import confinement
MB = 2**20
folder, programs = Path(sys.argv[1]), sys.argv[2] == "programs"
confinement.confine_process(512 * MB, 8 * MB, programs=programs)
confinement.cap_address_space(512 * MB)
kept = []

def thread():
    started = threading.Thread(target=lambda: None)
    started.start()
    started.join()

def fork():
    if not os.fork():
        os._exit(0)

def system_v():
    if ctypes.CDLL(None, use_errno=True).shmget(0, 1 << 20, 0o1600) < 0:
        raise OSError(ctypes.get_errno(), "shmget")

tried = {
    "shared memory within the limit": lambda: kept.append(mmap.mmap(-1, 64 * MB)),
    "a thread": thread,
    "a file within the limit": lambda: (folder / "small").write_bytes(b"x" * MB),
    "1.5 GB of shared memory": lambda: kept.extend(mmap.mmap(-1, 256 * MB) for _ in range(6)),
    "a memfd": lambda: os.memfd_create("hoard"),
    "System V memory": system_v,
    "a large file": lambda: (folder / "large").write_bytes(b"x" * 16 * MB),
    "another process": fork,
}
said = {}
for name, attempt in tried.items():
    try:
        attempt()
        said[name] = True
    except OSError:
        said[name] = False
print(json.dumps(said))
"""
ALLOWED = {"its file", "its folder", "its libraries"}


@pytest.fixture
def room() -> Iterator[SandboxFolder]:
    sandbox_folder = SandboxFolder()
    yield sandbox_folder
    sandbox_folder.remove()


def test_a_child_reads_its_file_and_no_secret(room: SandboxFolder, tmp_path: Path) -> None:
    assert confinement.landlock_version(), "this kernel offers no Landlock, so that nothing is shown here"
    secret, beside, socket_path = (
        tmp_path / "secret.key",
        tmp_path / "other-tenant.pdf",
        str(room.path / ".s.PGSQL.5432"),
    )
    secret.write_text("1:c2VjcmV0")
    beside.write_text("of another tenant")
    (room.input_folder / "raw").write_text("its own")
    with socket.socket(socket.AF_UNIX) as database:
        database.bind(socket_path)
        database.listen()
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                ATTEMPTS,
                room.input_folder,
                room.output_folder,
                secret,
                beside,
                socket_path,
                str(os.getpid()),
            ],
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
            cwd=PROJECT_ROOT,
        )
    version, outcomes = json.loads(done.stdout)
    assert version == confinement.landlock_version()
    if version < 6:
        outcomes.pop("its parent's life")
    assert {name for name, outcome in outcomes.items() if outcome == "done"} == ALLOWED
    assert {outcomes[name] for name in outcomes.keys() - ALLOWED} <= {"PermissionError", "OSError"}, outcomes
    assert secret.read_text() == "1:c2VjcmV0"


@pytest.mark.parametrize("programs", [True, False], ids=["tesseract may be started", "no program may be started"])
def test_a_child_hoards_no_memory_that_its_limit_does_not_count_and_starts_no_process(
    programs: bool, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HOARDING, tmp_path, "programs" if programs else "none"],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=PROJECT_ROOT,
    )
    assert json.loads(done.stdout) == {
        "shared memory within the limit": True,
        "a thread": True,
        "a file within the limit": True,
        "1.5 GB of shared memory": False,
        "a memfd": False,
        "System V memory": False,
        "a large file": False,
        "another process": programs,
    }
    assert not (tmp_path / "large").exists() or (tmp_path / "large").stat().st_size <= 8 * MB


CHILD_VARIABLES = {
    b"LANG",
    b"MALLOC_ARENA_MAX",
    b"OMP_THREAD_LIMIT",
    b"RAYON_NUM_THREADS",
    b"RUST_BACKTRACE",
    b"TMPDIR",
}


def test_a_child_of_the_pool_is_restricted_before_it_has_threads_and_knows_no_secret(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RETRIEVAL_SECRET_KEY", "1:canary")
    child = ParserChild(Limits(60, 512 * MB))
    try:
        child.start()
        proc_folder = Path(f"/proc/{child.pid}")
        environment = (proc_folder / "environ").read_bytes()
        assert b"canary" not in environment
        variables = dict(entry.split(b"=", 1) for entry in environment.split(b"\0") if entry)
        assert variables.keys() <= CHILD_VARIABLES
        output_folder = Path(variables[b"TMPDIR"].decode())
        status = (proc_folder / "status").read_text()
        assert "CapEff:\t0000000000000000" in status
        assert "NoNewPrivs:\t1" in status
        first = tmp_path / "first.csv"
        first.write_text("tide,high\n1,2\n")
        task = Task(str(first), "first.csv", "text/csv", ocr=False, cpu_seconds=60, expanded_bytes=MB)
        assert "tide" in child.run(task).text
        sandbox = output_folder.parent
        assert [path for folder in sandbox.iterdir() for path in folder.iterdir()] == []
    finally:
        child.end()
    assert not sandbox.exists()


def test_what_a_child_says_of_its_members_is_not_believed(room: SandboxFolder, tmp_path: Path) -> None:
    # A compromised child may name any path; the parent accepts only files of the child's folder.
    secret, folder = tmp_path / "secret.key", tmp_path / "members"
    secret.write_text("1:c2VjcmV0")
    folder.mkdir()
    unpack = Unpack(str(folder), 10, MB, MB)

    def collect_member(member_path: str) -> Packed:
        return room.collect_output(Reply(members=(Packed("a.txt", member_path, "", 3),)), unpack).members[0]

    (room.output_folder / "0").write_text("own")
    assert Path(collect_member("/anywhere/else/0").place).read_text() == "own"
    for member_path in (str(secret), "", "..", str(room.output_folder / ".." / "given")):
        try:
            member = collect_member(member_path)
        except Retryable:
            continue
        assert member.place == ""
    (room.output_folder / "1").symlink_to(secret)
    with pytest.raises(Retryable):
        collect_member(str(room.output_folder / "1"))
    assert secret.read_text() == "1:c2VjcmV0"
