"""Systems without /proc, such as macOS: processes are found and ended, and files of a folder are read."""

import subprocess
import sys
from pathlib import Path

import pytest

from connectors.sources.objects import tree
from local import processes
from local.processes import TOKEN_VARIABLE, Process
from retrieval.errors import Skippable


@pytest.fixture(autouse=True)
def _without_proc(monkeypatch):
    monkeypatch.setattr(processes, "PROC_FOLDER", Path("/missing/proc"))
    monkeypatch.setattr(tree, "OPEN_FILES", Path("/missing/proc/self/fd"))


def test_processes_of_a_killed_supervisor_are_found_by_their_token_and_ended(tmp_path):
    sleep = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"]
    child = subprocess.Popen(sleep, env={TOKEN_VARIABLE: "supervisor-1"}, cwd=tmp_path, stdout=subprocess.PIPE)
    with child:
        child.stdout.readline()
        process = Process.from_pid(child.pid)
        assert process.is_alive()
        assert not Process(child.pid, process.started - 1).is_alive()
        assert processes.list_carrying("supervisor-2") == []
        assert processes.list_carrying("supervisor-1") == [process]
        assert processes.list_carrying("supervisor-1", excluded=Path(sys.executable).resolve().name) == []
        assert processes.list_working_in(tmp_path, Path(sys.executable).resolve().name) == [process]
        processes.end_processes([process], grace=2)
        assert not process.is_alive()


def test_files_of_a_folder_are_read_and_paths_through_links_are_refused(tmp_path):
    folder = tmp_path.resolve() / "folder"
    folder.mkdir()
    (folder / "notes.txt").write_text("kept in the boiler room")
    with tree.open_local(str(folder / "notes.txt")) as file:
        assert file.read() == b"kept in the boiler room"
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(Skippable), tree.open_local(str(tmp_path.resolve() / "link" / "notes.txt")):
        pass
