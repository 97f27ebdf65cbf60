"""Parsers of the commands, for `argparse`."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn, Protocol


class CommandParser(argparse.ArgumentParser):
    """Parser that answers a mistyped command or option with the nearest one."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse as `argparse`; an unknown option is refused here, where the options of the command are known."""
        options, unknown = super().parse_known_args(args, namespace)
        for word in unknown:
            if word.startswith("-"):
                option = word.partition("=")[0]
                known = re.findall(r"(?<![\w-])--[a-z][a-z-]+", self.format_help())
                self.error(f"there is no option {option}.{_suggest(option, known)}")
        return options, unknown

    def error(self, message: str) -> NoReturn:
        """Print the error, the nearest command and the way to the help; exit code 2."""
        if wrong := re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message):
            choices = re.findall(r"'([^']+)'", wrong[2])
            kind = "command" if re.match(r"argument (COMMAND|VERB)", message) else "choice"
            message = f"there is no {kind} {wrong[1]}.{_suggest(wrong[1], choices)}"
            if kind == "choice":
                message += f" Choose from {', '.join(choices)}."
        self.exit(2, f"{self.prog}: {message}\nSee `{self.prog} --help`.\n")


def _suggest(word: str, known: Sequence[str]) -> str:
    nearest = get_close_matches(word, known, 1, 0.75)
    return f" Did you mean `{nearest[0]}`?" if nearest else ""


class Commands(Protocol):
    """What `ArgumentParser.add_subparsers` returns."""

    def add_parser(self, name: str, *, help: str) -> argparse.ArgumentParser: ...  # noqa: A002 - argparse's name


def add_commands(commands: Commands) -> None:
    """Add the parsers of all commands."""
    _add_eval(commands)
    ingest = _add_command(
        commands, "ingest", "ingest files, folders, URLs and connections, and wait until they can be searched"
    )
    ingest.add_argument(
        "what",
        nargs="+",
        metavar="PATH|URL|CONNECTION",
        help="files, folders (with all files in them), URLs of pages, URLs of storages such as s3://bucket/folder, and"
        " ids of connections",
    )
    ingest.add_argument(
        "--as", dest="kind", choices=("sitemap", "website"), help="kind of the URLs (default: single pages)"
    )
    ingest.add_argument("--metadata", type=_object, help="JSON object attached to the documents")
    ingest.add_argument("--ocr", action="store_true", help="recognise the text of scans and pictures among the files")
    ingest.add_argument(
        "--config",
        type=_object_file,
        metavar="FILE",
        help="JSON file of a storage's credentials, endpoint and region, - for stdin (default: AWS_* variables for s3)",
    )
    ingest.add_argument("--no-wait", action="store_true", help="return when everything is queued")
    ingest.add_argument("--dry-run", action="store_true", help="report what would be ingested, and store nothing")
    search = _add_command(commands, "search", "search a namespace")
    search.add_argument("query", help="a question or words, in quotes")
    search.add_argument("--top-k", type=int, default=5, help="number of results (default: 5)")
    search.add_argument(
        "--semantic", action="store_true", help="search by meaning only (default: by meaning and words)"
    )
    search.add_argument("--where", type=_object, help="a condition, as JSON")
    runs = _add_command(commands, "runs", "list job runs, or show one and what failed in it")
    runs.add_argument("id", nargs="?", help="a job run's id")
    runs.add_argument("--wait", action="store_true", help="wait until the job run is COMPLETED")
    retry = _add_command(
        commands, "retry", "run the failed documents of a job run again, and wait until they have ended"
    )
    retry.add_argument("id", metavar="RUN", help="a job run's id, as `runs` lists it")
    retry.add_argument("--ocr", action="store_true", help="recognise the text of scans and pictures this time")
    retry.add_argument("--no-wait", action="store_true", help="return when they are queued")
    retry.set_defaults(dry_run=False)
    documents = _add_command(commands, "documents", "list documents; `documents delete` deletes some")
    documents.add_argument("--status", help="list documents of this status, such as FAILED or SUCCESS")
    documents.add_argument("--where", type=_object, help="a condition, as JSON")
    verbs = documents.add_subparsers(dest="verb", metavar="VERB")
    delete_documents = _add_command(verbs, "delete", "delete documents from the namespace")
    delete_documents.add_argument("what", nargs="+", metavar="DOCUMENT", help="id, external id or name of a document")
    namespaces = _add_command(
        commands, "namespaces", "list namespaces; `namespaces create` and `namespaces delete` change them"
    )
    verbs = namespaces.add_subparsers(dest="verb", metavar="VERB")
    create = _add_command(verbs, "create", "create a namespace; by default it needs no account anywhere")
    create.add_argument("name", help="name of the namespace")
    create.add_argument("--config", type=_object, help="JSON object of the API's fields, such as embeddingModelConfig")
    delete_namespace = _add_command(verbs, "delete", "delete a namespace and everything in it")
    delete_namespace.add_argument("name", metavar="NAMESPACE", help="id or name of the namespace")
    apply = _add_command(
        commands, "apply", "create and update the namespaces and connections that a YAML file declares"
    )
    apply.add_argument("-f", "--file", required=True, help="YAML file; ${NAME} stands for an environment variable")
    for command in (delete_documents, delete_namespace):
        command.add_argument("--yes", action="store_true", help="delete without asking")
    for command in (ingest, search, runs, retry, documents):
        command.add_argument("--namespace", help=_NAMESPACE)
    for command in (ingest, search, runs, retry, documents, namespaces, apply):
        command.add_argument("--json", action="store_true", help=_JSON)
    for command in (ingest, search, runs, retry, documents, namespaces, apply):
        add_server_options(command)
    # A verb's option that is not given must not replace the one that was given before the verb.
    delete_documents.add_argument("--namespace", default=argparse.SUPPRESS, help=_NAMESPACE)
    for command in (delete_documents, create, delete_namespace):
        command.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help=_JSON)
        add_server_options(command, default=argparse.SUPPRESS)


_NAMESPACE = "id or name of the namespace; may be left out if there is only one"
_JSON = "print JSON, one object a line"
_URL = "URL of the API (default: RETRIEVAL_API_URL, else the instance of RETRIEVAL_HOME)"
_KEY = "API key (default: RETRIEVAL_API_KEY, else the key of that instance)"
_TENANT = "act for this tenant"


def _add_command(commands: Commands, name: str, summary: str) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=summary)
    parser.description = f"{summary[0].upper()}{summary[1:]}."
    return parser


def add_server_options(command: argparse.ArgumentParser, default: str | None = None) -> None:
    """Add the options that name a server and the way to it."""
    command.add_argument("--url", default=default, help=_URL)
    command.add_argument("--key", default=default, help=_KEY)
    command.add_argument("--tenant", default=default, help=_TENANT)


def _add_eval(commands: Commands) -> None:
    measure = _add_command(commands, "eval", "measure searches of a running instance over judged questions")
    measure.add_argument(
        "file",
        help='BEIR\'s queries.jsonl: {"_id", "text"} a line; optional "relevant": {id: grade}',
    )
    measure.add_argument(
        "--qrels",
        help="file of query, document and grade, separated by tabs (default: qrels/test.tsv or qrels.tsv)",
    )
    measure.add_argument(
        "--setting",
        action="append",
        metavar="NAME=WEIGHT",
        help="a search setting to measure, by its semantic weight or its JSON; may be repeated (default: semantic,"
        " keyword and hybrid)",
    )
    measure.add_argument(
        "--minimum",
        metavar="METRIC=VALUE",
        help="exit code 1 unless a setting reaches this value, such as ndcgAt10=0.40",
    )
    measure.add_argument("--keep", action="store_true", help="leave the evaluation in the namespace")
    measure.add_argument("--namespace", help=_NAMESPACE)
    add_server_options(measure)
    measure.add_argument("--json", action="store_true", help="print the run as JSON")


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError("not a JSON object")
    return value


def _object_file(path: str) -> dict[str, Any]:
    try:
        return _object(sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise argparse.ArgumentTypeError(f"{path} cannot be read: {getattr(error, 'strerror', error)}") from error
