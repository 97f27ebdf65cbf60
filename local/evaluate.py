"""`retrieval eval`: judged questions from files, measured through the API of a running instance.

The files are those of BEIR: a line of `queries.jsonl` is `{"_id", "text"}`, a line of `qrels/test.tsv` has the ids of
query and document and a grade, after a line of titles. Documents are named by their externalId. A line of questions
may hold its judgements itself, as `"relevant": {"document": grade}`; then no second file is needed.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from local import LocalError, client_commands
from retrieval.settings import Settings
from retrieval_client import RetrievalClient, RetrievalError, models

DEFAULT = ("semantic=1", "keyword=0", "hybrid=0.5")
METRICS = ("ndcgAt10", "recallAt10", "recallAt100", "mrr", "spanRecallAt10")
PART = 500
"""Questions of one request: their judgements stay far below what a body may hold."""
GRADES = range(1, 5)
LOOK_SECONDS = 1.0

Question = dict[str, Any]


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Measure and print; 1 if the run failed, or a measure is below the one of `--minimum`."""
    settings_of_search = [setting(value) for value in options.setting or DEFAULT]
    least = minimum(options.minimum) if options.minimum else None
    questions = read(Path(options.file), Path(options.qrels) if options.qrels else None)
    try:
        with client_commands.connect(options, settings) as client:
            api = _Asked(client, client_commands.namespace_of(client, options.namespace))
            evaluation = api.made(Path(options.file).name, questions)
            try:
                unresolved = len(evaluation.unresolved or ())
                done = api.measured(evaluation.id, settings_of_search)
            finally:
                if not options.keep:
                    api.removed(evaluation.id)
    except RetrievalError as error:
        raise LocalError(f"{error.code}: {error.message}") from error
    if done["status"] != "COMPLETED":
        raise LocalError(f"The run failed: {done['error']}")
    print(json.dumps(done, indent=1) if options.json else _table(done, len(questions), unresolved))
    if options.keep and not options.json:
        print(f"Kept as {evaluation.id}.")
    return _judged(done, least)


def read(file: Path, qrels: Path | None) -> list[Question]:
    """Questions as the API takes them. Judgements come from the lines themselves, else from `qrels`, else from
    `qrels/test.tsv`, `qrels.tsv` or a file with the same name and `.tsv` beside the questions. LocalError, exit code 2,
    for what cannot be read; questions without a judgement above 0 are left out, as trec_eval does."""
    rows = list(_lines(file))
    grades = {str(row["_id"]): row["relevant"] for row in rows if isinstance(row.get("relevant"), dict)}
    if len(grades) < len(rows):
        judgements_file = qrels or next((candidate for candidate in _beside(file) if candidate.is_file()), None)
        if judgements_file is None and not grades:
            raise LocalError(f"{file} has no judgements: name the file that has them with --qrels.", exit_code=2)
        grades = (_judgements(judgements_file) if judgements_file else {}) | grades
    questions = [_question(row, grades.get(str(row["_id"]), {}), file) for row in rows]
    judged = [candidate for candidate in questions if candidate["relevant"]]
    if not judged:
        raise LocalError(f"{file}: no question has a judged document.", exit_code=2)
    return judged


def setting(text: str) -> dict[str, Any]:
    """A setting of `NAME=SEMANTIC_WEIGHT` or `NAME={JSON of a setting}`."""
    name, _, value = text.partition("=")
    try:
        fields = json.loads(value)
    except ValueError:
        fields = None
    if isinstance(fields, dict) and name:
        return {"name": name, **fields}
    if not name or isinstance(fields, bool) or not isinstance(fields, int | float) or not 0 <= fields <= 1:
        raise LocalError(f"--setting {text}: give NAME=WEIGHT, the weight of the meaning from 0 to 1.", exit_code=2)
    return {"name": name, "semanticWeight": fields, "keywordWeight": 1 - fields}


def minimum(text: str) -> tuple[str, float]:
    """A measure and its least value, of `METRIC=VALUE`."""
    name, _, value = text.partition("=")
    try:
        least = float(value)
    except ValueError:
        least = -1.0
    if name not in METRICS or not 0 <= least <= 1:
        raise LocalError(f"--minimum {text}: give one of {', '.join(METRICS)}, = and a value from 0 to 1.", exit_code=2)
    return name, least


class _Asked:
    """The calls that an evaluation takes."""

    def __init__(self, client: RetrievalClient, namespace: str) -> None:
        self._api, self._namespace = client.api, namespace

    def made(self, name: str, questions: Sequence[Question]) -> models.Evaluation:
        """The evaluation, sent in parts. One that cannot be made whole is removed again."""
        first: Any = {"namespaceId": self._namespace, "name": name, "questions": questions[:PART]}
        evaluation = self._api.create_evaluation(first).evaluation
        try:
            for start in range(PART, len(questions), PART):
                change: Any = {"namespaceId": self._namespace, "add": questions[start : start + PART]}
                evaluation = self._api.update_evaluation(evaluation.id, change).evaluation
        except RetrievalError:
            self.removed(evaluation.id)
            raise
        return evaluation

    def measured(self, evaluation: str, settings: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Finished run, as the API returns it."""
        body: Any = {"namespaceId": self._namespace, "settings": list(settings)}
        run = self._api.start_run(evaluation, body).run
        while run.status not in {"COMPLETED", "FAILED"}:
            time.sleep(LOOK_SECONDS)
            run = self._api.get_run(evaluation, run.id, namespace_id=self._namespace).run
        return dict(run.raw)

    def removed(self, evaluation: str) -> None:
        self._api.delete_evaluation(evaluation, namespace_id=self._namespace)


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(_text(file).splitlines(), 1):
        if not line.strip():
            continue
        try:
            row: Any = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict) or "_id" not in row or not isinstance(row.get("text"), str):
            raise LocalError(f'{file}, line {number}: not {{"_id": …, "text": "…"}}.', exit_code=2)
        yield row


def _judgements(file: Path) -> dict[str, dict[str, Any]]:
    """By query and document: lines of three columns between tabs, or four as trec_eval has them."""
    judgements: dict[str, dict[str, Any]] = {}
    rows = [row for row in csv.reader(_text(file).splitlines(), delimiter="\t") if row]
    for number, row in enumerate(rows, 1):
        grade = row[-1].strip()
        if number == 1 and not grade.lstrip("-").isdecimal():
            continue
        if len(row) not in {3, 4} or not grade.lstrip("-").isdecimal():
            raise LocalError(f"{file}, line {number}: not query, document and grade between tabs.", exit_code=2)
        judgements.setdefault(row[0], {})[row[-2]] = int(grade)
    return judgements


def _question(row: dict[str, Any], grades: dict[str, Any], file: Path) -> Question:
    relevant = []
    for document, grade in grades.items():
        if isinstance(grade, bool) or not isinstance(grade, int) or grade > max(GRADES):
            raise LocalError(f"{file}, question {row['_id']}: grades are whole numbers up to 4.", exit_code=2)
        if grade in GRADES:
            relevant.append({"externalId": document, "grade": grade})
    return {"query": row["text"], "relevant": relevant}


def _beside(file: Path) -> Iterator[Path]:
    yield from (file.parent / "qrels" / "test.tsv", file.parent / "qrels.tsv", file.with_suffix(".tsv"))


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise LocalError(f"{file} is not UTF-8.", exit_code=2) from error
    except OSError as error:
        raise LocalError(f"{file}: {error.strerror}.", exit_code=2) from error


def _judged(run: dict[str, Any], least: tuple[str, float] | None) -> int:
    """Tell whether some setting reaches the minimum of the measure."""
    if least is None:
        return 0
    name, value = least
    best = max((setting_result["metrics"][name] or {"value": 0.0})["value"] for setting_result in run["settings"])
    if best >= value:
        return 0
    raise LocalError(f"{name} is {best:.4f}, below {value:.4f}.")


def _table(run: dict[str, Any], questions: int, unresolved: int) -> str:
    width = max(7, *(len(setting_result["name"]) for setting_result in run["settings"]))
    lines = [f"{questions} questions"]
    if unresolved:
        many = (
            f"{unresolved}{' or more' if unresolved == 100 else ''} judged documents are not in the namespace and count"
        )
        note = "1 judged document is not in the namespace and counts" if unresolved == 1 else many
        lines[0] += f"; {note} as not found"
    lines.append("".join([f"{'setting':<{width}}", *(f"{name:>16}" for name in METRICS), f"{'p50 ms':>9}"]))
    for setting_result in run["settings"]:
        values = [setting_result["metrics"][name] for name in METRICS]
        cells = "".join(f"{value['value']:>16.4f}" if value else f"{'-':>16}" for value in values)
        lines.append(f"{setting_result['name']:<{width}}{cells}{setting_result['latencyMs']['p50']:>9.1f}")
    return "\n".join(lines)
