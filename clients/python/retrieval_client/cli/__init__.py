"""Commands of a server's users: `retrieval-client`, and the same commands of `retrieval`, which know its instance."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from retrieval_client import RetrievalClient, RetrievalError
from retrieval_client.cli import content, declared, parsers
from retrieval_client.cli.output import CommandError, explain_error, explain_silence


def main() -> int:
    """Exit codes: 0 done, 1 failed, 2 wrong usage."""
    parser: argparse.ArgumentParser = parsers.CommandParser(
        prog="retrieval-client", description="Use a server of the Retrieval Service."
    )
    parsers.add_commands(parser.add_subparsers(dest="command", required=True, metavar="COMMAND"))
    options = parser.parse_args()
    options.cwd = Path.cwd()
    url, key = options.url or os.environ.get("RETRIEVAL_API_URL"), options.key or os.environ.get("RETRIEVAL_API_KEY")
    if not url or not key:
        parser.error("name the server by --url or RETRIEVAL_API_URL, and the key by --key or RETRIEVAL_API_KEY")
    try:
        return run(options, url, key)
    except CommandError as error:
        print(f"retrieval-client: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130


def run(options: argparse.Namespace, url: str, key: str, namespace: str | None = None) -> int:
    """Run the command. Exit code 1 where a document or a job run failed.

    `namespace`: taken where none is named and the key may not list them.
    """
    _require_listener(url)
    try:
        with RetrievalClient(url, key, tenant=options.tenant) as client:
            if options.command == "apply":
                return declared.apply_file(client, options)
            if options.command == "namespaces":
                return content.change_namespaces(client, options)
            namespace = content.find_namespace(client, options.namespace, namespace)
            return content.COMMANDS[options.command](client, namespace, options)
    except RetrievalError as error:
        raise CommandError(explain_error(error, url)) from error
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _require_listener(url: str) -> None:
    """Raise CommandError at once if nothing listens at an address of this machine, instead of after all retries."""
    address = urlsplit(url)
    if address.hostname not in _LOOPBACK or not address.port:
        return
    with suppress(TimeoutError):
        try:
            socket.create_connection((address.hostname, address.port), timeout=1).close()
        except ConnectionRefusedError as error:
            raise CommandError(explain_silence(url, "nothing listens there")) from error


_LOOPBACK = ("127.0.0.1", "localhost", "::1")
