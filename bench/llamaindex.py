"""Processor time of a document beside LlamaIndex's IngestionPipeline with the same model file and the same PostgreSQL.

    .venv/bin/python bench/llamaindex.py [--texts 400] [--rounds 5]

LlamaIndex comes into a temporary environment of its own, in the versions of PINS. Its default embedding model has to be
downloaded from a hub or needs a vendor's key, neither of which a benchmark may count on; so its embedding class wraps
the service's own graph file, once in ONNX Runtime (what most local embedding classes run) and once in OpenVINO set as
the service sets it. Its chunks are 254 tokens of the model's own tokenizer, overlap 50; its store is PGVectorStore in
another database of the service's PostgreSQL. It is called in one process with all texts at once. Ours is the whole
service: each text posted alone over HTTP by eight clients, accepted durably, run by Prefect, embedded, indexed by
vector and by keyword. Rounds alternate, each with new texts. Counted is the CPU of all processes, PostgreSQL included.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from bench import report  # noqa: E402
from bench.cranfield import CRANFIELD, Service  # noqa: E402
from bench.instance import Instance, instance  # noqa: E402
from bench.processes import cpu_of_tree  # noqa: E402

PINS = ("llama-index-core==0.14.25", "llama-index-vector-stores-postgres==0.9.0")
SHARED = ("onnxruntime", "openvino", "tokenizers", "numpy")
THEIRS = 60
"""Texts of a round at most for LlamaIndex: its cost of one does not depend on how many there are."""
MODEL = "all-MiniLM-L6-v2"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--texts", type=int, default=400, help="of each round")
    options.add_argument("--rounds", type=int, default=5)
    chosen = options.parse_args()
    report.end_in_order()
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rt-llama-", ignore_cleanup_errors=True)))
        python = _install(home / "environment")
        place = stack.enter_context(instance())
        service = Service(place, MODEL)
        theirs = Theirs(stack, python, home, place)
        rows = _rounds(service, theirs, chosen)
    figures = _figures(rows)
    _show(figures)
    report.write("llamaindex", {"pins": PINS, "rounds": rows, **figures})


def _rounds(service: Service, theirs: Theirs, chosen: argparse.Namespace) -> dict[str, list[dict[str, float]]]:
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in ("service", *theirs.runtimes)}
    for number in range(chosen.rounds + 1):
        for place, name in enumerate(list(rows) if number % 2 else list(rows)[::-1]):
            count = chosen.texts if name == "service" else min(chosen.texts, THEIRS)
            texts = _texts(count if number else 8, f"{number} {place}", number)
            if name == "service":
                done = service.ingest([(f"{number} {n}", text) for n, text in enumerate(texts)], 8)
                row = {"cpu_ms": done["cpu_s"] * 1000 / len(texts), "seconds": done["ingest_s"]}
            else:
                row = theirs.run(name, texts)
            if number:
                rows[name].append(row)
                print(f"round {number}: {name:<12} {row['cpu_ms']:7.1f} ms of CPU a document", flush=True)
    return rows


class Theirs:
    """A child process with a pipeline for each runtime."""

    def __init__(self, stack: ExitStack, python: Path, home: Path, place: Instance) -> None:
        from connectors.embedders import minilm_graph, minilm_runtime
        from connectors.embedders.local import _WEIGHTS
        from retrieval.ingestion.chunking.tokenizer import raw_tokenizer, wheel_file

        self.postmaster = place.roles["postgres"]
        self.runtimes = list(dict.fromkeys(("onnxruntime", minilm_runtime.choose("auto"))))
        raw_tokenizer(MODEL).save(str(home / "tokenizer.json"))
        command = [str(python), str(PROJECT / "bench" / "llamaindex_child.py")]
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("RETRIEVAL_", "PYTHON"))}
        log = stack.enter_context((home / "theirs.log").open("w+"))
        self.process = stack.enter_context(
            subprocess.Popen(
                command, env=clean, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=home, text=True
            )
        )
        stack.callback(self.process.kill)
        self.log = log
        told = {
            "graph": str(minilm_graph.ensure(wheel_file(*_WEIGHTS), home / "models", "fp32")),
            "tokenizer": str(home / "tokenizer.json"),
            "database": _database(place),
            "runtimes": self.runtimes,
            "threads": os.cpu_count() or 1,
        }
        self._ask(told)

    def run(self, runtime: str, texts: list[str]) -> dict[str, float]:
        before = cpu_of_tree(self.postmaster)
        done = self._ask({"runtime": runtime, "texts": texts})
        database = cpu_of_tree(self.postmaster) - before
        spent = (done["cpu"] + database) * 1000 / len(texts)
        return {"cpu_ms": spent, "seconds": done["seconds"], "chunks": done["chunks"]}

    def _ask(self, what: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            self.log.seek(0)
            sys.exit(f"LlamaIndex ended: {self.log.read()[-2000:]}")
        found: dict[str, Any] = json.loads(line)
        return found


def _install(folder: Path) -> Path:
    """Its packages, and ours in our versions, from the package index; the interpreter of that environment."""
    print("installing LlamaIndex into an environment of its own …", flush=True)
    ours = [f"{name}=={importlib.metadata.version(name)}" for name in SHARED]
    uv = PROJECT / ".uv" / "bin" / "uv"
    tool = str(uv) if uv.exists() else shutil.which("uv")
    python = folder / "bin" / "python"
    if tool:
        subprocess.run([tool, "venv", "-q", folder, "--python", sys.executable], check=True)
        subprocess.run(
            [tool, "pip", "install", "-q", "--link-mode", "copy", "--python", python, *PINS, *ours], check=True
        )
    else:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PINS, *ours], check=True)
    return python


def _database(place: Instance) -> str:
    """A database of its own in the service's PostgreSQL, as SQLAlchemy spells it."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    with psycopg.connect(place.database, autocommit=True) as connection:
        connection.execute("create database llama")
    parts = conninfo_to_dict(place.database)
    password = f":{quote(str(parts['password']))}" if parts.get("password") else ""
    return f"postgresql+psycopg2://{parts['user']}{password}@/llama?host={parts['host']}"


def _texts(count: int, mark: str, number: int) -> list[str]:
    """Abstracts of Cranfield or else parts of the project's own sources, each made new by a mark."""
    if CRANFIELD.is_dir():
        rows = [json.loads(line)["text"] for line in (CRANFIELD / "corpus.jsonl").read_text().splitlines()]
    else:
        text = "\n".join(path.read_text() for path in sorted((PROJECT / "retrieval").rglob("*.py")))
        rows = [text[start : start + 1000] for start in range(0, len(text), 1000)]
    every = [row for row in rows if row.strip()]
    return [f"{mark}. {every[(number * count + n) % len(every)]}" for n in range(count)]


def _figures(rows: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """Medians, and medians of the ratios of each round."""
    found: dict[str, Any] = {
        "cpu_ms": {name: round(statistics.median(row["cpu_ms"] for row in part), 1) for name, part in rows.items()}
    }
    for name in list(rows)[1:]:
        pairs = zip(rows["service"], rows[name], strict=True)
        ratio = round(statistics.median(ours["cpu_ms"] / theirs["cpu_ms"] for ours, theirs in pairs), 2)
        found["cpu_ratio" if name == "onnxruntime" else f"cpu_ratio_{name}"] = ratio
    return found


def _show(figures: dict[str, Any]) -> None:
    for name, value in figures["cpu_ms"].items():
        print(f"{name if name == 'service' else f'LlamaIndex, {name}':<28}{value:8.1f} ms of CPU a document")
    for name, value in figures.items():
        if name.startswith("cpu_ratio"):
            print(f"{name}: {value}")


if __name__ == "__main__":
    started = time.perf_counter()
    main()
    print(f"{time.perf_counter() - started:.0f} s")
