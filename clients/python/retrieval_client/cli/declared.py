"""`apply`: create and update the namespaces and connections of a YAML file; nothing is deleted."""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retrieval_client import Record, RetrievalClient, RetrievalError
from retrieval_client.cli.output import CommandError

_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)\}")
_CONNECTION_FIELDS = frozenset(
    {"name", "connector", "config", "syncIntervalMinutes", "permissions", "clientRedirectUrl"}
)
# Fields that responses mask or leave out; they are sent at each run.
_SECRETS = re.compile(r"(?i)(key|secret|token|password|credentials)")


@dataclass(frozen=True, slots=True)
class DeclaredNamespace:
    """Namespace of the file: the body of its creation, and the bodies of its connections."""

    body: dict[str, Any]
    connections: list[dict[str, Any]]

    @property
    def name(self) -> str:
        return str(self.body["name"])


def apply_file(client: RetrievalClient, options: argparse.Namespace) -> int:
    """Create or update what the file declares; raise CommandError before the first request for a wrong file."""
    for namespace in read_declarations(options.cwd / options.file):
        with _naming(f"namespace {namespace.name}"):
            namespace_id = _apply_namespace(client, namespace, options)
            stored = client.api.list_connections(namespace_id=namespace_id).connections if namespace.connections else []
        for connection in namespace.connections:
            with _naming(f"connection {connection['name']} of {namespace.name}"):
                _apply_connection(client, namespace_id, connection, list(stored), options)
    return 0


@contextmanager
def _naming(subject: str) -> Iterator[None]:
    """Put the object's name before the message of a refused request."""
    try:
        yield
    except RetrievalError as error:
        error.message = f"{subject}: {error.message}"
        raise


def read_declarations(file: Path) -> list[DeclaredNamespace]:
    """Read the file with `${NAME}` replaced by environment variables; raise CommandError for a wrong one."""
    document = _load_yaml(file)
    entries = document.get("namespaces") if isinstance(document, dict) else None
    if not isinstance(entries, list) or not isinstance(document, dict) or set(document) != {"namespaces"}:
        raise CommandError(f"{file} must hold `namespaces`, a list, and nothing else.", exit_code=2)
    missing = sorted({name for text in _texts(entries) for name in _VARIABLE.findall(text) if name not in os.environ})
    if missing:
        raise CommandError(f"{file} names variables that are not set: {', '.join(missing)}.", exit_code=2)
    namespaces = [_read_namespace(file, entry) for entry in _expand(entries)]
    _require_unique(file, "namespaces", [namespace.name for namespace in namespaces])
    for namespace in namespaces:
        names = [connection["name"] for connection in namespace.connections]
        _require_unique(file, f"connections of {namespace.name}", names)
    return namespaces


def _load_yaml(file: Path) -> Any:
    try:
        import yaml
    except ImportError as error:
        raise CommandError("`apply` needs PyYAML: install retrieval-client[yaml].") from error
    try:
        return yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror}.", exit_code=2) from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark else ""
        raise CommandError(f"{file} is no YAML{place}.", exit_code=2) from error


def _read_namespace(file: Path, entry: Any) -> DeclaredNamespace:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise CommandError(f"{file}: each namespace needs a `name`.", exit_code=2)
    connections = entry.pop("connections", None) or []
    for connection in connections if isinstance(connections, list) else [None]:
        if not isinstance(connection, dict) or not {"name", "connector"} <= connection.keys():
            message = f"{file}: each connection of {entry['name']} needs a `name` and a `connector`."
            raise CommandError(message, exit_code=2)
        if unknown := sorted(connection.keys() - _CONNECTION_FIELDS):
            message = f"{file}: connections have no {', '.join(unknown)}; their fields are "
            raise CommandError(f"{message}{', '.join(sorted(_CONNECTION_FIELDS))}.", exit_code=2)
    return DeclaredNamespace(entry, connections)


def _require_unique(file: Path, subject: str, names: list[str]) -> None:
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise CommandError(f"{file}: several {subject} are called {', '.join(twice)}.", exit_code=2)


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in a value of YAML."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for member in value.values():
            yield from _texts(member)
    elif isinstance(value, list):
        for member in value:
            yield from _texts(member)


def _expand(value: Any) -> Any:
    if isinstance(value, str):
        return _VARIABLE.sub(lambda match: os.environ[match[1]], value)
    if isinstance(value, dict):
        return {key: _expand(member) for key, member in value.items()}
    return [_expand(member) for member in value] if isinstance(value, list) else value


def _apply_namespace(client: RetrievalClient, declared: DeclaredNamespace, options: argparse.Namespace) -> str:
    """Create or update the namespace of this name and print the outcome; return its id."""
    found = [namespace for namespace in client.namespaces.list() if namespace.name == declared.name]
    if len(found) > 1:
        raise CommandError(f"{len(found)} namespaces are called {declared.name}: rename all but one.")
    if not found:
        created = client.api.create_namespace(declared.body).namespace  # type: ignore[arg-type]
        _report("created", "namespace", created.id, declared.name, options)
        return str(created.id)
    changes = {key: value for key, value in declared.body.items() if key != "name"}
    outcome = _compare(changes, found[0])
    if outcome != "unchanged":
        client.api.update_namespace(found[0].id, changes)  # type: ignore[arg-type]
    _report(outcome, "namespace", found[0].id, declared.name, options)
    return str(found[0].id)


def _apply_connection(
    client: RetrievalClient,
    namespace_id: str,
    declared: Mapping[str, Any],
    stored: list[Any],
    options: argparse.Namespace,
) -> None:
    """Create or update the connection of this name; print the outcome, and where a person authorizes it."""
    found = [entry for entry in stored if entry.name == declared["name"] and entry.status != "REVOKED"]
    if len(found) > 1:
        raise CommandError(f"{len(found)} connections are called {declared['name']}: rename all but one.")
    if not found:
        body = {"namespaceId": namespace_id, **declared}
        created = client.api.create_connection(body)  # type: ignore[arg-type]
        _report("created", "connection", created.connection.id, declared["name"], options, created.authorization_url)
        return
    if found[0].connector != declared["connector"]:
        raise CommandError(
            f"The connection {declared['name']} is one of {found[0].connector}: revoke it, or use another name."
        )
    changes = {key: value for key, value in declared.items() if key not in ("name", "connector")}
    # Of a connection's config, responses show the address only.
    address = str(declared.get("config", {}).get("url", ""))
    is_moved = address.rstrip("/") != str(found[0].raw.get("config", {}).get("url", "")).rstrip("/")
    shown = {key: value for key, value in changes.items() if key != "config"}
    outcome = "updated" if is_moved else _compare(shown, found[0])
    if outcome == "unchanged" and declared.get("config"):
        outcome = "secrets sent"
    if outcome != "unchanged":
        client.api.update_connection(found[0].id, {"namespaceId": namespace_id} | changes)  # type: ignore[arg-type]
    _report(outcome, "connection", found[0].id, declared["name"], options)


def _compare(changes: Mapping[str, Any], stored: Record) -> str:
    """Return `updated` for a difference, else `unchanged`, or `secrets sent` if there are any to send."""
    if any(not _is_stored(value, stored.raw.get(key)) for key, value in changes.items()):
        return "updated"
    return "secrets sent" if any(_has_secrets(key, value) for key, value in changes.items()) else "unchanged"


def _is_stored(value: Any, stored: Any) -> bool:
    """Return whether a response shows the value, apart from secrets."""
    if isinstance(value, dict):
        members = {key: member for key, member in value.items() if not _has_secrets(key, member)}
        return isinstance(stored, dict) and all(_is_stored(member, stored.get(key)) for key, member in members.items())
    return bool(value == stored)


def _has_secrets(key: str, value: Any) -> bool:
    if isinstance(value, dict):
        return any(_has_secrets(name, member) for name, member in value.items())
    return isinstance(value, str) and _SECRETS.search(key) is not None


def _report(
    outcome: str, kind: str, object_id: str, name: str, options: argparse.Namespace, address: str | None = None
) -> None:
    if options.json:
        record = {"outcome": outcome, "kind": kind, "id": object_id, "name": name, "authorizationUrl": address}
        print(json.dumps({key: value for key, value in record.items() if value is not None}, ensure_ascii=False))
    else:
        print(f"{outcome:<12}  {kind:<10}  {object_id}  {name}" + (f"\n  authorize it: {address}" if address else ""))
