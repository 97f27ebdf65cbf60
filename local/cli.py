"""Command `retrieval`."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from local import LocalError
from local.setting_warnings import SETTING_PREFIX, list_setting_warnings
from retrieval.config_file import PATH_VARIABLE
from retrieval.setting_values import WrongSetting
from retrieval.settings import CONFIG_FILE, DEFAULT_HOME, ENV_FILE, PROJECT_ROOT, Settings, load_settings

if TYPE_CHECKING:
    from retrieval_client.cli.parsers import Commands

Argument = tuple[tuple[str, ...], dict[str, Any]]
_ROLE_DESCRIPTIONS = {
    "api": "the HTTP API",
    "worker": "an ingestion worker",
    "dispatcher": "the dispatcher",
    "prefect": "a Prefect server",
    "ui": "the admin app",
    "metrics": "the endpoint for Prometheus",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return 0, 1 (failed or wrong setting), 2 (wrong usage) or 3 (`status`, `ready`: not all is up)."""
    arguments = sys.argv[1:] if arguments is None else arguments
    options = _parse_arguments(arguments)
    os.umask(0o077)
    try:
        return _run(options)
    except LocalError as error:
        message, code = str(error), error.exit_code
    except WrongSetting as error:
        message, code = error.sentence, 1
    except KeyboardInterrupt:
        return 130
    print(f"retrieval: {message}", file=sys.stderr)
    return code


def _run(options: argparse.Namespace) -> int:
    for name in [name for name in os.environ if name != name.upper() and name.upper().startswith(SETTING_PREFIX)]:
        os.environ.setdefault(name.upper(), os.environ.pop(name))  # as roles are handed them
    for name in ("RETRIEVAL_HOME", PATH_VARIABLE):
        if path := os.environ.get(name):
            os.environ[name] = str(Path(path).absolute())
    options.cwd = Path.cwd()
    for name in ("file", "directory", "secrets", "qrels", "mine", "out"):  # relative to where the command was given
        if getattr(options, name, None):
            setattr(options, name, str(Path(getattr(options, name)).absolute()))
    os.chdir(PROJECT_ROOT)  # where the roles' modules and the `.env` of a checkout are
    home_path = DEFAULT_HOME
    try:
        settings = load_settings()
        home_path = settings.home
        for sentence in list_setting_warnings(os.environ, ENV_FILE, settings.config or CONFIG_FILE):
            print(f"retrieval: {sentence}", file=sys.stderr)
        code = _import_handler(options.command)(options, settings)
    except OSError as error:
        if error.filename is None and error.errno not in (errno.EROFS, errno.ENOSPC):
            raise
        raise LocalError(_explain_file_error(error, home_path)) from error
    return code


def _import_handler(command: str) -> Callable[[argparse.Namespace, Settings], int]:
    """Import the function of a command."""
    # Only the command's own module: `retrieval status` need not wait for the imports of `up`.
    match command:
        case "up" | "down" | "env":
            from local import up

            handler = {"up": up.run, "down": up.stop, "env": up.print_variables}[command]
        case "status" | "ready":
            from local import health

            handler = health.print_status if command == "status" else health.probe_role
        case "completion":
            handler = _print_completion
        case "key":
            from local import keys

            handler = keys.run
        case "org" | "tenant" | "rotate-secrets" | "fsck":
            from local import admin

            handler = admin.run_fsck if command == "fsck" else admin.run
        case "backup" | "restore" | "export" | "import":
            from local import backup

            handler = backup.run if command in {"backup", "restore"} else backup.run_namespace
        case "source":
            from local import source_check

            handler = source_check.run
        case "prove":
            from local import prove

            handler = prove.run
        case _ if command in {*_ROLE_DESCRIPTIONS, "migrate", "register"}:
            from local import run_role

            handler = run_role.run
        case _:
            from local import client

            handler = {"mcp": client.serve_mcp, "demo": client.run_demo}.get(command, client.run)
    return handler


def _print_completion(options: argparse.Namespace, settings: Settings) -> int:  # noqa: ARG001
    """Print the completion script of a shell."""
    import shtab

    print(shtab.complete(make_parser(), shell=options.shell))
    return 0


def _explain_file_error(error: OSError, home: Path) -> str:
    """Describe a failed file operation with path, reason and remedy."""
    path = Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else home
    is_of_home = path in home.parents or any(
        path.is_relative_to(folder) for folder in (home.absolute(), home.resolve())
    )
    remedy = "choose another RETRIEVAL_HOME" if is_of_home else "choose another path"
    if isinstance(error, PermissionError):
        return f"{path} may not be read or written by this user: {remedy} or give the right to it."
    action = "written" if error.errno in (errno.EROFS, errno.ENOSPC) else "read or written"
    return f"{path} cannot be {action} ({error.strerror}): {remedy}."


class _UsageError(Exception):
    """Arguments unknown to the parser of administration commands."""


class _AdminParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _UsageError(message)


def _parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments; exit with code 2 and the nearest command or option if wrong."""
    command = arguments[0] if arguments else ""
    if command in (*_COMMAND_ARGUMENTS, *_ROLE_DESCRIPTIONS, *_VERB_ARGUMENTS):
        with suppress(_UsageError):
            return make_parser(_AdminParser, with_client=False).parse_args(arguments)
    # Loads the HTTP client, which the commands above do without.
    from retrieval_client.cli.parsers import CommandParser

    return make_parser(CommandParser).parse_args(arguments)


def make_parser(
    parser_class: type[argparse.ArgumentParser] = argparse.ArgumentParser, *, with_client: bool = True
) -> argparse.ArgumentParser:
    """Build the parser of all commands; commands of client users only `with_client`."""
    parser = parser_class(
        prog="retrieval",
        description=(
            f"Run and administer the retrieval service. Its state is in RETRIEVAL_HOME (default: {DEFAULT_HOME})."
        ),
    )
    parser.add_argument("--version", action="version", version=metadata.version("retrieval-service"))
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (description, *arguments) in _COMMAND_ARGUMENTS.items():
        subparser = _add_command(commands, name, description)
        subparser.set_defaults(verb="")
        _add_arguments(subparser, arguments)
    for role, description in _ROLE_DESCRIPTIONS.items():
        _add_command(commands, role, f"run {description} in the foreground")
    if with_client:
        _add_client_commands(commands)
    for noun, (description, verbs) in _VERB_ARGUMENTS.items():
        subparsers = _add_command(commands, noun, f"administer {description}").add_subparsers(
            dest="verb", required=True, metavar="VERB"
        )
        for verb, (help_text, *arguments) in verbs.items():
            _add_arguments(_add_command(subparsers, verb, help_text), arguments)
    return parser


def _add_command(commands: Commands, name: str, summary: str) -> argparse.ArgumentParser:
    """Add a command, with the summary in the list of commands and in the command's help."""
    parser = commands.add_parser(name, help=summary)
    parser.description = f"{summary[0].upper()}{summary[1:]}."
    return parser


def _add_client_commands(commands: Commands) -> None:
    from retrieval_client.cli import parsers

    parsers.add_commands(commands)
    mcp = _add_command(commands, "mcp", "speak the Model Context Protocol over stdin and stdout, for language models")
    parsers.add_server_options(mcp)
    mcp.add_argument("--namespace", help="id or name of the namespace for calls that name none")


def _add_arguments(parser: argparse.ArgumentParser, arguments: Iterable[Argument]) -> None:
    for names, options in arguments:
        parser.add_argument(*names, **options)


def _argument(*names: str, **options: Any) -> Argument:
    return names, options


def _flag(name: str, description: str) -> Argument:
    return (name,), {"action": "store_true", "help": description}


def _read_bound(text: str) -> str:
    # An unset variable of a script would create a key without bounds.
    if not text.strip():
        raise argparse.ArgumentTypeError("must not be empty")
    return text


_ORG_OPTION = _argument("--org", help="organization id; may be left out if there is only one")
_SERVER_OPTIONS = (
    _argument("--url", help="URL of an API, to manage its keys over it (default: the database of this machine)"),
    _argument("--key", help="API key with the scope admin, with --url (default: RETRIEVAL_API_KEY)"),
)
_TENANT_ID = _argument("tenant", help="id of the tenant, as requests send it in X-Tenant-ID")
_ORG_OPTIONS = (
    _argument("--plan", choices=("pilot", "pro", "team", "custom"), help="sets the request limit"),
    _argument("--requests", type=int, help="requests per minute, instead of the plan's"),
    _argument("--namespaces", type=int, help="maximum number of namespaces"),
    _argument("--tenants", choices=("open", "registered"), help="whether unknown tenants are accepted"),
    _argument("--tenant-required", choices=("yes", "no"), help="whether every request must name a tenant"),
)
_ENV_HELP = """print lines that set up a shell for the running instance (API, API_KEY, NAMESPACE, Prefect's variables, \
PATH), for eval "$(retrieval env)\""""
_READY_HELP = """probe a role, by default the one started last by its own command in this home: exit code 0 if it is \
ready, else 3 and the reasons"""
_PROVE_HELP = """measure a fresh instance (search against hosted services, reading, isolation, kills, cost) and write \
a page; exit code 1 unless all promises hold"""
_COMMAND_ARGUMENTS: Mapping[str, tuple[Any, ...]] = {
    "up": (
        "start everything on this machine; Ctrl-C stops it",
        _flag("--detach", "return once it is ready and leave it running"),
        _flag("--for-a-log", argparse.SUPPRESS),
    ),
    "down": ("stop what `up` started",),
    "status": ("show the roles; exit code 3 unless all are up", _flag("--json", "print JSON")),
    "env": (_ENV_HELP,),
    "ready": (
        _READY_HELP,
        _argument(
            "role", nargs="?", choices=("api", "dispatcher", "worker", "prefect", "ui"), help="the role to probe"
        ),
    ),
    "completion": (
        "print the completion script of a shell",
        _argument("shell", choices=("bash", "zsh", "fish"), help="the shell to print it for"),
    ),
    "demo": ("start a fresh instance, ingest a small corpus, search it, stop",),
    "prove": (
        _PROVE_HELP,
        _argument("--mine", metavar="FOLDER", help="measure how well the files of this folder are found instead"),
        _argument(
            "--out", default="proof", metavar="FOLDER", help="where prove.html and prove.json go (default: proof)"
        ),
        _flag("--quick", "take small sets, without the comparison: two minutes or less"),
    ),
    "migrate": (
        "bring the database to the newest schema",
        _flag("--check", "change nothing; exit code 1 and a list if migrations are pending"),
    ),
    "register": (
        "create the work pool and the deployments in Prefect; may be repeated",
        _argument("--pool", help="move the deployments to this pool of the type process, docker or kubernetes"),
        _argument("--notify", metavar="URL", help="create an automation that posts failed flow runs to this webhook"),
    ),
    "fsck": (
        "check tables, files and vector stores against each other; exit code 1 with findings",
        _flag("--repair", "repair the findings; exit code 1 if some remain"),
        _flag("--json", "print JSON"),
    ),
    "backup": (
        "copy the running instance into a directory: database, files, key",
        _argument("directory", help="an empty or new directory"),
    ),
    "restore": (
        "restore a backup into a home in which nothing runs",
        _argument("directory", help="a directory that `backup` has written"),
    ),
    "export": (
        "write a namespace to a file: documents, vectors, files, no secrets",
        _argument("namespace", help="id of the namespace, or its name if it is the only one of that name"),
        _argument("file", help="the tar file to write"),
    ),
    "import": (
        "create a namespace from an exported file; prints its id",
        _argument("file", help="a file that `export` has written"),
        _argument("--name", help="name of the new namespace (default: the name at export)"),
        _ORG_OPTION,
        _argument(
            "--secrets",
            help="JSON file of secrets by their dotted path; needed for a bucket or an index at a vendor",
        ),
    ),
    "rotate-secrets": ("encrypt stored secrets again with the first of several keys",),
}
_VERB_ARGUMENTS: Mapping[str, tuple[str, Mapping[str, tuple[Any, ...]]]] = {
    "key": (
        "API keys",
        {
            "create": (
                "create a key; it is shown once",
                _argument("--name", required=True, help="name of the key in listings"),
                _ORG_OPTION,
                _argument(
                    "--scopes",
                    type=_read_bound,
                    help="comma-separated, such as search,documents:read (default: all that its bounds allow, except "
                    "admin)",
                ),
                _argument("--namespace", type=_read_bound, help="bind the key to this namespace"),
                _argument("--tenant", type=_read_bound, help="bind the key to this tenant"),
                *_SERVER_OPTIONS,
            ),
            "list": ("list the keys of an organization", _ORG_OPTION, *_SERVER_OPTIONS),
            "revoke": (
                "revoke a key at once",
                _argument("id", help="id of the key, as `key list` shows it"),
                *_SERVER_OPTIONS,
            ),
        },
    ),
    "org": (
        "organizations",
        {
            "create": (
                "create an organization",
                _argument("name", help="name of the organization"),
                *_ORG_OPTIONS,
            ),
            "list": ("list the organizations",),
            "update": (
                "change the plan or limits of an organization",
                _argument("id", help="id of the organization, as `org list` shows it"),
                *_ORG_OPTIONS,
            ),
            "set": (
                "set quotas of an organization or a tenant; `none` removes one",
                _ORG_OPTION,
                _argument("--tenant", help="set the quotas of this tenant instead of the organization's"),
                *(
                    _argument(option, dest=name, metavar="N", help=description)
                    for option, name, description in (
                        ("--documents", "documents", "maximum number of documents"),
                        ("--stored-bytes", "storedBytes", "maximum size of the original documents in bytes"),
                        (
                            "--tokens-per-month",
                            "tokensPerMonth",
                            "maximum number of tokens embedded in a calendar month",
                        ),
                        ("--concurrent-runs", "concurrentRuns", "maximum number of unfinished job runs"),
                    )
                ),
            ),
        },
    ),
    "source": (
        "descriptions of services",
        {
            "check": (
                "check a description; with --url read the service with the JSON credentials in SOURCE_CREDENTIALS",
                _argument("file", help="YAML file of the description"),
                _argument("--url", help="address to read, as the `url` of a connection"),
            ),
        },
    ),
    "tenant": (
        "tenants of an organization",
        {
            "create": ("register a tenant", _TENANT_ID, _ORG_OPTION),
            "delete": ("refuse a tenant's requests; its data is kept", _TENANT_ID, _ORG_OPTION),
            "list": ("list the tenants of an organization", _ORG_OPTION),
        },
    ),
}


if __name__ == "__main__":
    sys.exit(main())
