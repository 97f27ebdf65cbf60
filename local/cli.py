"""The `retrieval` command."""

from __future__ import annotations

import argparse
import errno
import json
import os
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from local import LocalError
from retrieval.setting_values import WrongSetting
from retrieval.settings import Settings

_ORGANIZATION = "organization id; may be left out if there is only one"
_ROLES = ("api", "worker", "dispatcher", "prefect", "ui", "metrics", "migrate", "register")
_SERVERS = ("up", *_ROLES)
"""Commands that warn of variables that look like settings and are none."""
_CLIENT = frozenset({"ingest", "search", "runs", "retry", "documents", "namespaces"})
_CONTENT = _CLIENT | {"mcp", "eval", "fsck", "export", "import", "backup", "restore"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 done, 1 failed, 2 wrong usage or setting, 3 not all is up (`status`) or ready (`ready`)."""
    options = _parser().parse_args(arguments)
    os.umask(0o077)
    try:
        return _run(options)
    except LocalError as error:
        print(f"retrieval: {error}", file=sys.stderr)
        return error.exit_code
    except WrongSetting as error:
        print(f"retrieval: {error.sentence}", file=sys.stderr)
        return 2
    except PermissionError as error:
        print(
            f"retrieval: {error.filename} may not be read or written by this user: choose another "
            "RETRIEVAL_HOME or give the right to it.",
            file=sys.stderr,
        )
        return 1
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.ENOSPC):
            raise
        print(
            f"retrieval: {error.filename} cannot be written ({error.strerror}): choose another RETRIEVAL_HOME.",
            file=sys.stderr,
        )
        return 1
    except KeyboardInterrupt:
        return 130


def _run(options: argparse.Namespace) -> int:
    from retrieval.settings import PROJECT, load

    for name in [name for name in os.environ if name != name.upper() and name.upper().startswith("RETRIEVAL_")]:
        os.environ.setdefault(name.upper(), os.environ.pop(name))  # as roles are handed them
    if home := os.environ.get("RETRIEVAL_HOME"):
        os.environ["RETRIEVAL_HOME"] = str(Path(home).absolute())
    options.cwd = Path.cwd()
    for name in ("file", "directory", "secrets", "qrels"):  # relative to where the command was given
        if getattr(options, name, None):
            setattr(options, name, str(Path(getattr(options, name)).absolute()))
    os.chdir(PROJECT)  # where `.env` lies, for us and for every role
    settings = load()
    if options.command in _SERVERS:
        from local import unknown_settings

        for sentence in unknown_settings.warnings(os.environ, PROJECT / ".env"):
            print(f"retrieval: {sentence}", file=sys.stderr)
    match options.command:
        case "up" | "down" | "status" | "env":
            return _control(options, settings)
        case "demo":
            from local import demo

            return demo.run(settings.home / "demo")
        case "ready":
            from local import health

            return health.probe_role(options.role, settings)
        case role if role in _ROLES:
            from local import run_role

            return run_role.run(options.command, settings, check=getattr(options, "check", False))
        case name if name in _CONTENT:
            return _content(options, settings)
        case _:
            from local import admin

            return admin.run(options, settings)


def _content(options: argparse.Namespace, settings: Settings) -> int:
    if options.command in _CLIENT:
        from local import client_commands

        return client_commands.run(options, settings)
    if options.command == "mcp":
        from local import mcp_stdio

        return mcp_stdio.run(options, settings)
    if options.command == "eval":
        from local import evaluate

        return evaluate.run(options, settings)
    if options.command == "fsck":
        from local import fsck

        return fsck.run(options, settings)
    if options.command in {"backup", "restore"}:
        from local import backup

        return backup.run(options, settings)
    from local import moving

    return moving.run(options, settings)


def _control(options: argparse.Namespace, settings: Settings) -> int:
    from local import health, up

    match options.command:
        case "down":
            return up.stop(settings)
        case "status":
            return health.print_status(settings, as_json=options.json)
        case "env":
            return up.print_variables(settings)
    return up.run_detached(settings) if options.detach else up.run(settings, show_key=not options.for_a_log)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="retrieval",
        description="Run and administer the retrieval service. Its state is in RETRIEVAL_HOME (default: .retrieval).",
    )
    parser.add_argument("--version", action="version", version=metadata.version("retrieval-service"))
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="start everything on this machine; Ctrl-C stops it")
    up.add_argument("--detach", action="store_true", help="return once it is ready and leave it running")
    up.add_argument("--for-a-log", action="store_true", help=argparse.SUPPRESS)
    commands.add_parser("down", help="stop what `up` started")
    status = commands.add_parser("status", help="show the roles; exit code 3 unless all are up")
    status.add_argument("--json", action="store_true", help="print JSON")
    commands.add_parser(
        "env",
        help="print lines that set up a shell for the running instance (API, API_KEY, NAMESPACE, Prefect's variables, "
        'PATH), for eval "$(retrieval env)"',
    )
    ready = commands.add_parser(
        "ready",
        help="probe a role, by default the one started last by its own command in this home: exit code 0 if it is "
        "ready, else 3 and the reasons",
    )
    ready.add_argument(
        "role", nargs="?", choices=("api", "dispatcher", "worker", "prefect", "ui"), help="the role to probe"
    )
    commands.add_parser("demo", help="start a fresh instance, ingest a small corpus, search it, stop")
    migrate = commands.add_parser("migrate", help="bring the database to the newest schema")
    migrate.add_argument(
        "--check", action="store_true", help="change nothing; exit code 1 and a list if migrations are pending"
    )
    commands.add_parser("register", help="create the work pool and the deployments in Prefect; may be repeated")
    fsck = commands.add_parser(
        "fsck", help="check tables, files and vector stores against each other; exit code 1 with findings"
    )
    fsck.add_argument("--repair", action="store_true", help="repair the findings; exit code 1 if some remain")
    fsck.add_argument("--json", action="store_true", help="print JSON")
    fsck.set_defaults(verb="")
    backup = commands.add_parser("backup", help="copy the running instance into a directory: database, files, key")
    backup.add_argument("directory", help="an empty or new directory")
    restore = commands.add_parser("restore", help="restore a backup into a home in which nothing runs")
    restore.add_argument("directory", help="a directory that `backup` has written")
    export = commands.add_parser("export", help="write a namespace to a file: documents, vectors, files, no secrets")
    export.add_argument("namespace", help="id of the namespace, or its name if it is the only one of that name")
    export.add_argument("file", help="the tar file to write")
    importing = commands.add_parser("import", help="create a namespace from an exported file; prints its id")
    importing.add_argument("file", help="a file that `export` has written")
    importing.add_argument("--name", help="name of the new namespace (default: the name at export)")
    importing.add_argument("--org", help=_ORGANIZATION)
    importing.add_argument(
        "--secrets",
        help="JSON file of secrets by their dotted path; needed for a bucket or an index at a vendor",
    )
    importing.set_defaults(verb="")
    _add_eval(commands)
    for role, does in (
        ("api", "the HTTP API"),
        ("worker", "an ingestion worker"),
        ("dispatcher", "the dispatcher"),
        ("prefect", "a Prefect server"),
        ("ui", "the admin app"),
        ("metrics", "the port for Prometheus"),
    ):
        commands.add_parser(role, help=f"run {does} alone, in the foreground")
    _add_client(commands)
    _add_admin(commands)
    return parser


def _add_eval(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    measure = commands.add_parser("eval", help="measure searches of a running instance over judged questions")
    measure.add_argument(
        "file",
        help='BEIR\'s queries.jsonl: {"_id", "text"} a line; optional "relevant": {id: grade}',
    )
    measure.add_argument("--qrels", help="query, document and grade between tabs; else qrels/test.tsv or qrels.tsv")
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
    measure.add_argument("--url", help=_URL)
    measure.add_argument("--key", help=_KEY)
    measure.add_argument("--namespace", help=_NAMESPACE)
    measure.add_argument("--tenant", help=_TENANT)
    measure.add_argument("--json", action="store_true", help="print the run as JSON")


def _add_admin(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    key = _verbs(commands, "key", "API keys")
    create = key.add_parser("create", help="create a key; it is shown once")
    create.add_argument("--name", required=True, help="name of the key in listings")
    create.add_argument("--org", help=_ORGANIZATION)
    create.add_argument(
        "--scopes",
        help="comma-separated, such as search,documents:read (default: all that its bounds allow, except admin)",
    )
    create.add_argument("--namespace", help="bind the key to this namespace")
    create.add_argument("--tenant", help="bind the key to this tenant")
    key.add_parser("list", help="list the keys of an organization").add_argument("--org", help=_ORGANIZATION)
    key.add_parser("revoke", help="revoke a key at once").add_argument(
        "id", help="id of the key, as `key list` shows it"
    )
    org = _verbs(commands, "org", "organizations")
    create = org.add_parser("create", help="create an organization")
    create.add_argument("name", help="name of the organization")
    _org_options(create)
    org.add_parser("list", help="list the organizations")
    update = org.add_parser("update", help="change the plan or limits of an organization")
    update.add_argument("id", help="id of the organization, as `org list` shows it")
    _org_options(update)
    quotas = org.add_parser("set", help="set quotas of an organization or a tenant; `none` removes one")
    quotas.add_argument("--org", help=_ORGANIZATION)
    quotas.add_argument("--tenant", help="set the quotas of this tenant instead of the organization's")
    for option, name, does in (
        ("--documents", "documents", "most documents"),
        ("--stored-bytes", "storedBytes", "most bytes of documents as they were sent"),
        ("--tokens-per-month", "tokensPerMonth", "most tokens embedded in a calendar month"),
        ("--concurrent-runs", "concurrentRuns", "most unfinished job runs"),
    ):
        quotas.add_argument(option, dest=name, metavar="N", help=does)
    tenant = _verbs(commands, "tenant", "tenants of an organization")
    for verb, does in (("create", "register a tenant"), ("delete", "refuse a tenant's requests; its data is kept")):
        sub = tenant.add_parser(verb, help=does)
        sub.add_argument("tenant", help="id of the tenant, as requests send it in X-Tenant-ID")
        sub.add_argument("--org", help=_ORGANIZATION)
    tenant.add_parser("list", help="list the tenants of an organization").add_argument("--org", help=_ORGANIZATION)
    rotate = commands.add_parser("rotate-secrets", help="encrypt stored secrets again with the first of several keys")
    rotate.set_defaults(verb="")


def _add_client(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    ingest = commands.add_parser("ingest", help="ingest files, folders and URLs, and wait until they can be searched")
    ingest.add_argument("what", nargs="+", metavar="PATH|URL", help="files, folders (with all files in them) and URLs")
    ingest.add_argument(
        "--as", dest="kind", choices=("sitemap", "website"), help="kind of the URLs (default: single pages)"
    )
    ingest.add_argument("--metadata", type=_object, help="JSON object attached to the documents")
    ingest.add_argument("--ocr", action="store_true", help="recognise the text of scans and pictures among the files")
    ingest.add_argument("--no-wait", action="store_true", help="return when everything is queued")
    ingest.add_argument("--dry-run", action="store_true", help="report what would be ingested, and store nothing")
    search = commands.add_parser("search", help="search a namespace")
    search.add_argument("query", help="a question or words, in quotes")
    search.add_argument("--top-k", type=int, default=5, help="number of results (default: 5)")
    search.add_argument(
        "--semantic", action="store_true", help="search by meaning alone (default: by meaning and words)"
    )
    search.add_argument("--where", type=_object, help="a condition, as JSON")
    runs = commands.add_parser("runs", help="list job runs, or show one and what failed in it")
    runs.add_argument("id", nargs="?", help="a job run's id")
    runs.add_argument("--wait", action="store_true", help="wait until the job run is COMPLETED")
    retry = commands.add_parser(
        "retry", help="run the failed documents of a job run again, and wait until they have ended"
    )
    retry.add_argument("id", metavar="RUN", help="a job run's id, as `runs` lists it")
    retry.add_argument("--ocr", action="store_true", help="recognise the text of scans and pictures this time")
    retry.add_argument("--no-wait", action="store_true", help="return when they are queued")
    retry.set_defaults(dry_run=False)
    documents = commands.add_parser("documents", help="list documents; `documents delete` deletes some")
    documents.add_argument("--status", help="list documents of this status, such as FAILED or SUCCESS")
    documents.add_argument("--where", type=_object, help="a condition, as JSON")
    verbs = documents.add_subparsers(dest="verb", metavar="VERB")
    delete_documents = verbs.add_parser("delete", help="delete documents from the namespace")
    delete_documents.add_argument("what", nargs="+", metavar="DOCUMENT", help="id, external id or name of a document")
    namespaces = commands.add_parser(
        "namespaces", help="list namespaces; `namespaces create` and `namespaces delete` change them"
    )
    verbs = namespaces.add_subparsers(dest="verb", metavar="VERB")
    create = verbs.add_parser("create", help="create a namespace; by default it needs no account anywhere")
    create.add_argument("name", help="name of the namespace")
    create.add_argument("--config", type=_object, help="JSON object of the API's fields, such as embeddingModelConfig")
    delete_namespace = verbs.add_parser("delete", help="delete a namespace and everything in it")
    delete_namespace.add_argument("name", metavar="NAMESPACE", help="id or name of the namespace")
    for command in (delete_documents, delete_namespace):
        command.add_argument("--yes", action="store_true", help="delete without asking")
    mcp = commands.add_parser("mcp", help="speak the Model Context Protocol over stdin and stdout, for language models")
    for command in (ingest, search, runs, retry, documents):
        command.add_argument("--namespace", help=_NAMESPACE)
    for command in (ingest, search, runs, retry, documents, namespaces):
        command.add_argument("--json", action="store_true", help=_JSON)
    for command in (ingest, search, runs, retry, documents, namespaces, mcp):
        _add_server(command)
    # A verb's option that is not given must not replace the one that was given before the verb.
    delete_documents.add_argument("--namespace", default=argparse.SUPPRESS, help=_NAMESPACE)
    for command in (delete_documents, create, delete_namespace):
        command.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help=_JSON)
        _add_server(command, default=argparse.SUPPRESS)


_NAMESPACE = "id or name of the namespace; may be left out if there is only one"
_JSON = "print JSON, one object a line"
_URL = "URL of the API (default: RETRIEVAL_API_URL, else the instance of RETRIEVAL_HOME)"
_KEY = "API key (default: RETRIEVAL_API_KEY, else the key of that instance)"
_TENANT = "act for this tenant"


def _add_server(command: argparse.ArgumentParser, default: str | None = None) -> None:
    command.add_argument("--url", default=default, help=_URL)
    command.add_argument("--key", default=default, help=_KEY)
    command.add_argument("--tenant", default=default, help=_TENANT)


def _verbs(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], noun: str, what: str
) -> argparse._SubParsersAction[argparse.ArgumentParser]:
    parser = commands.add_parser(noun, help=f"administer {what}")
    return parser.add_subparsers(dest="verb", required=True, metavar="VERB")


def _org_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--plan", choices=("pilot", "pro", "team", "custom"), help="sets the request limit")
    parser.add_argument("--requests", type=int, help="requests per minute, instead of the plan's")
    parser.add_argument("--namespaces", type=int, help="most namespaces")
    parser.add_argument("--tenants", choices=("open", "registered"), help="whether unknown tenants are accepted")
    parser.add_argument("--tenant-required", choices=("yes", "no"), help="whether every request must name a tenant")


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError("not a JSON object")
    return value


if __name__ == "__main__":
    sys.exit(main())
