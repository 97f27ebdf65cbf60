"""`retrieval eval`: judged questions from files, measured through the API of a running instance.

The files are those of BEIR: a line of `queries.jsonl` is `{"_id", "text"}`, a line of `qrels/test.tsv` has the ids of
query and document and a grade, after a line of titles. Documents are named by their externalId. A line of questions
may hold its judgements itself, as `"relevant": {"document": grade}`; then no second file is needed. `"relevant": {}`
says that nothing answers the question.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from retrieval_client import RetrievalClient, RetrievalError, models
from retrieval_client.cli.output import CommandError

DEFAULT = ("semantic=1", "keyword=0", "hybrid=0.5")
METRICS = ("ndcgAt10", "recallAt10", "recallAt100", "mrr", "spanRecallAt10")
PART = 500
"""Questions of one request: their judgements stay far below what a body may hold."""
GRADES = range(1, 5)
LOOK_SECONDS = 1.0

Question = dict[str, Any]


def run(client: RetrievalClient, namespace: str, options: argparse.Namespace) -> int:
    """Measure and print; 1 if the run failed, or a measure is below the one of `--minimum`."""
    settings = [parse_setting(value) for value in options.setting or DEFAULT]
    minimum = parse_minimum(options.minimum) if options.minimum else None
    questions = read_questions(options.cwd / options.file, options.cwd / options.qrels if options.qrels else None)
    evaluation = _create(client, namespace, Path(options.file).name, questions)
    try:
        unresolved = len(evaluation.unresolved or ())
        run = _measure(client, namespace, evaluation.id, settings)
    finally:
        if not options.keep:
            client.api.delete_evaluation(evaluation.id, namespace_id=namespace)
    if run["status"] != "COMPLETED":
        raise CommandError(f"The run failed: {run['error']}")
    print(json.dumps(run, indent=1) if options.json else _format_table(run, len(questions), unresolved))
    if options.keep and not options.json:
        print(f"Kept as {evaluation.id}.")
    if minimum:
        _check_minimum(run, *minimum)
    return 0


def read_questions(file: Path, qrels: Path | None) -> list[Question]:
    """Return the questions for the API. CommandError, exit code 2, for an unreadable file.

    The judgements are in the lines, in `qrels`, or in the questions' folder: `qrels/test.tsv`, `qrels.tsv` or a file
    with the same name and `.tsv`. Questions without a judgement above 0 are left out, as by trec_eval.
    """
    rows = list(_lines(file))
    grades = {str(row["_id"]): row["relevant"] for row in rows if isinstance(row.get("relevant"), dict)}
    if len(grades) < len(rows):
        judgements_file = qrels or next((path for path in _judgement_files(file) if path.is_file()), None)
        if judgements_file is None and not grades:
            raise CommandError(f"{file} has no judgements: name the file that has them with --qrels.", exit_code=2)
        grades = (_judgements(judgements_file) if judgements_file else {}) | grades
    questions = [_question(row, grades.get(str(row["_id"]), {}), file) for row in rows]
    judged = [
        question
        for row, question in zip(rows, questions, strict=True)
        if question["relevant"] or row.get("relevant") == {}
    ]
    if not any(question["relevant"] for question in judged):
        raise CommandError(f"{file}: no question has a judged document.", exit_code=2)
    return judged


def parse_setting(text: str) -> dict[str, Any]:
    """A setting of `NAME=SEMANTIC_WEIGHT` or `NAME={JSON of a setting}`."""
    name, _, value = text.partition("=")
    try:
        fields = json.loads(value)
    except ValueError:
        fields = None
    if isinstance(fields, dict) and name:
        return {"name": name, **fields}
    if not name or isinstance(fields, bool) or not isinstance(fields, int | float) or not 0 <= fields <= 1:
        raise CommandError(f"--setting {text}: give NAME=WEIGHT, the weight of the meaning from 0 to 1.", exit_code=2)
    return {"name": name, "semanticWeight": fields, "keywordWeight": 1 - fields}


def parse_minimum(text: str) -> tuple[str, float]:
    """A measure and its least value, of `METRIC=VALUE`."""
    name, _, value = text.partition("=")
    try:
        least = float(value)
    except ValueError:
        least = -1.0
    if name not in METRICS or not 0 <= least <= 1:
        raise CommandError(
            f"--minimum {text}: give one of {', '.join(METRICS)}, = and a value from 0 to 1.", exit_code=2
        )
    return name, least


def _create(client: RetrievalClient, namespace: str, name: str, questions: Sequence[Question]) -> models.Evaluation:
    """The evaluation, sent in parts. One that cannot be made whole is removed again."""
    body: Any = {"namespaceId": namespace, "name": name, "questions": questions[:PART]}
    evaluation = client.api.create_evaluation(body).evaluation
    try:
        for start in range(PART, len(questions), PART):
            change: Any = {"namespaceId": namespace, "add": questions[start : start + PART]}
            evaluation = client.api.update_evaluation(evaluation.id, change).evaluation
    except RetrievalError:
        client.api.delete_evaluation(evaluation.id, namespace_id=namespace)
        raise
    return evaluation


def _measure(
    client: RetrievalClient, namespace: str, evaluation: str, settings: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Finished run, as the API returns it."""
    body: Any = {"namespaceId": namespace, "settings": list(settings)}
    run = client.api.start_run(evaluation, body).run
    while run.status not in {"COMPLETED", "FAILED"}:
        time.sleep(LOOK_SECONDS)
        run = client.api.get_run(evaluation, run.id, namespace_id=namespace).run
    return dict(run.raw)


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(_text(file).splitlines(), 1):
        if not line.strip():
            continue
        try:
            row: Any = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict) or "_id" not in row or not isinstance(row.get("text"), str):
            raise CommandError(f'{file}, line {number}: not {{"_id": …, "text": "…"}}.', exit_code=2)
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
            raise CommandError(f"{file}, line {number}: not query, document and grade between tabs.", exit_code=2)
        judgements.setdefault(row[0], {})[row[-2]] = int(grade)
    return judgements


def _question(row: dict[str, Any], grades: dict[str, Any], file: Path) -> Question:
    relevant = []
    for document, grade in grades.items():
        if isinstance(grade, bool) or not isinstance(grade, int) or grade > max(GRADES):
            raise CommandError(f"{file}, question {row['_id']}: grades are whole numbers up to 4.", exit_code=2)
        if grade in GRADES:
            relevant.append({"externalId": document, "grade": grade})
    return {"query": row["text"], "relevant": relevant}


def _judgement_files(file: Path) -> Iterator[Path]:
    yield from (file.parent / "qrels" / "test.tsv", file.parent / "qrels.tsv", file.with_suffix(".tsv"))


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise CommandError(f"{file} is not UTF-8.", exit_code=2) from error
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror}.", exit_code=2) from error


def _check_minimum(run: dict[str, Any], metric: str, minimum: float) -> None:
    """CommandError unless some setting reaches the minimum of the metric."""
    best = max((setting["metrics"][metric] or {"value": 0.0})["value"] for setting in run["settings"])
    if best < minimum:
        raise CommandError(f"{metric} is {best:.4f}, below {minimum:.4f}.")


def _format_table(run: dict[str, Any], questions: int, unresolved: int) -> str:
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
