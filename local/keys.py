"""`retrieval key`: keys in the database of this machine, or of a server by its API."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from local import LocalError, admin
from retrieval.settings import Settings

if TYPE_CHECKING:
    from retrieval_client import RetrievalClient


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Create, list or revoke keys; with `--url` by the API, for the organization of `--key`. Return the exit code."""
    if options.url:
        return _run_remotely(options, settings)
    if options.key:
        raise LocalError("--key is the key of an API: name the API by --url.", exit_code=2)
    return admin.run(options, settings)


def _run_remotely(options: argparse.Namespace, settings: Settings) -> int:
    # Commands in the database do not load the HTTP client.
    from local.client import find_server
    from retrieval_client import RetrievalClient, RetrievalError
    from retrieval_client.cli.output import CommandError, explain_error

    if getattr(options, "org", None):
        raise LocalError("--org is for the database of this machine: over an API the key names it.", exit_code=2)
    url, api_key = find_server(options, settings)
    try:
        with RetrievalClient(url, api_key) as client:
            print(_run_verb(client, options))
    except RetrievalError as error:
        raise LocalError(explain_error(error, url)) from error
    except CommandError as error:
        raise LocalError(str(error), exit_code=error.exit_code) from error
    return 0


def _run_verb(client: RetrievalClient, options: argparse.Namespace) -> str:
    """Send the request of `options.verb`; return the text to print."""
    from retrieval_client.cli.content import find_namespace

    if options.verb == "revoke":
        client.api.revoke_key(options.id)
        return f"{options.id} is revoked."
    if options.verb == "list":
        return admin.format_keys(
            (key.id, key.name, key.hint, bool(key.revoked_at), key.namespace_id, key.tenant_id, key.scopes)
            for key in client.api.list_keys().keys
        )
    body = {
        "name": options.name,
        "scopes": options.scopes.split(",") if options.scopes else None,
        "namespaceId": find_namespace(client, options.namespace) if options.namespace else None,
        "tenantId": options.tenant,
    }
    created = client.api.create_key({name: value for name, value in body.items() if value})  # type: ignore[arg-type]
    return admin.format_key(created.key.id, created.api_key)
