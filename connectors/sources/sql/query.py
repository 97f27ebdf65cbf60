"""Address, query and columns of a connection, and the documents of its rows."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from retrieval.errors import Fatal
from retrieval.ports import RawContent, SourceItem

PORTS: Final = {"postgresql": 5432, "mysql": 3306}
ALIASES: Final = {"postgres": "postgresql", "mariadb": "mysql"}
COLUMNS: Final = ("key", "changed", "title", "text")
MAX_QUERY_LENGTH: Final = 20_000
TITLE_LENGTH: Final = 200
_COMMENTS: Final = re.compile(r"(\s|--[^\n]*(\n|$)|/\*.*?\*/)*", re.DOTALL)
_SELECT: Final = re.compile(r"(select|with|values|table|\()\b|\(", re.IGNORECASE)
_HOST: Final = re.compile(r"[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]+\]")
_DATABASE: Final = re.compile(r"[^\x00-\x1f\x7f/]{1,64}")


@dataclass(frozen=True, slots=True)
class Query:
    """A SELECT statement at a database; `key`, `changed`, `title` and `text` name columns, "" for none."""

    scheme: str
    host: str
    port: int
    database: str
    statement: str
    key: str
    changed: str
    title: str
    text: str
    user: str = field(repr=False)
    password: str = field(repr=False)

    @property
    def root(self) -> str:
        """Return the start of the rows' ids."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}/{quote(self.database)}/"

    @property
    def digest(self) -> str:
        """Return the hash of all that forms the documents."""
        return _digest([self.root, self.statement, self.key, self.changed, self.title, self.text])


def parse_query(config: Mapping[str, Any]) -> Query:
    """Parse the `config` of a connection. ValueError with the field and the problem."""
    scheme, host, port, database = _parse_url(str(config.get("url") or ""))
    statement = str(config.get("query") or "").strip().rstrip(";").rstrip()
    if not _SELECT.match(statement, _COMMENTS.match(statement).end()) or "\0" in statement:  # type: ignore[union-attr]
        raise ValueError("query", "must be one SELECT statement, as SELECT id, title, body FROM articles")
    if len(statement) > MAX_QUERY_LENGTH:
        raise ValueError("query", f"must have at most {MAX_QUERY_LENGTH} characters")
    columns = {name: str(config.get(name) or "") for name in COLUMNS}
    if not columns["key"]:
        raise ValueError("key", "must name the column that identifies a row, such as id")
    credentials = {name: str(value) for name, value in (config.get("credentials") or {}).items() if value}
    if credentials.keys() != {"user", "password"} or "\0" in "".join(credentials.values()):
        raise ValueError("credentials", "must hold user and password")
    known_names = {"url", "query", "credentials", *COLUMNS}
    if unknown := {name for name, value in config.items() if value} - known_names:
        raise ValueError(min(unknown), "is not for this connector")
    return Query(scheme, host, port, database, statement, **columns, **credentials)


def _parse_url(url: str) -> tuple[str, str, int, str]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("url", "is not a valid URL: its host or port cannot be read") from None
    scheme = ALIASES.get(parts.scheme, parts.scheme)
    if scheme not in PORTS:
        raise ValueError("url", "must begin with postgresql:// or mysql://")
    if "@" in parts.netloc:
        raise ValueError("url", "must not hold a user name or password: send them in credentials")
    database = unquote(parts.path.removeprefix("/"))
    host = parts.netloc.removesuffix(f":{port}")
    if parts.query or parts.fragment or not _HOST.fullmatch(host) or not _DATABASE.fullmatch(database):
        raise ValueError("url", f"must name a host and a database, as {scheme}://db.example.com/handbook")
    return scheme, host.strip("[]").lower(), port or PORTS[scheme], database


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of the columns of a query's rows, as the database spells them, "" for none."""

    key: str
    changed: str
    title: str
    text: str


def find_columns(query: Query, names: Sequence[str]) -> Columns:
    """Find the columns among those of the rows, also in another case. Fatal for a missing column."""
    spelled = {name.lower(): name for name in reversed(names)} | {name: name for name in names}
    columns = dict[str, str]()
    for role in COLUMNS:
        name = getattr(query, role)
        if name and name not in spelled and name.lower() not in spelled:
            known = ", ".join(names)
            raise Fatal(f"The query returns no column {name} for {role}; it returns {known}.", field=role)
        columns[role] = spelled.get(name) or spelled.get(name.lower(), "") if name else ""
    return Columns(**columns)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the query. `key`: its key as text."""

    query: Query
    columns: Columns
    values: Mapping[str, Any]

    @property
    def key(self) -> str:
        value = self.values[self.columns.key]
        if isinstance(value, bytes | bytearray | memoryview | list | dict | float):
            raise Fatal(
                f"The column {self.columns.key} is no key: it must hold text, whole numbers, UUIDs or dates; convert it"
                " in the query, such as HEX(id) AS id.",
                field="key",
            )
        return str(value)

    @property
    def title(self) -> str:
        value = format_value(self.values[self.columns.title]) if self.columns.title else ""
        return " ".join(value.split())[:TITLE_LENGTH] or f"{self.query.database} {self.key}"[:TITLE_LENGTH]

    def format_text(self) -> str:
        """Return the text column below the title, as Markdown, or all columns as lines."""
        if self.columns.text:
            return f"# {self.title}\n\n{format_value(self.values[self.columns.text])}\n"
        lines = [f"{name}: {text}" for name, value in self.values.items() if (text := format_value(value))]
        return "\n".join(lines) + "\n"

    def make_item(self) -> SourceItem:
        """Return the item; its version is the changed column, or the hash of the text."""
        url = f"{self.query.root}{quote(self.key, safe='')}"
        changed = self.values[self.columns.changed] if self.columns.changed else None
        version = _digest(
            [self.query.digest, self.format_text() if changed is None else format_value(changed), self.title]
        )
        properties = {"url": url, "path": self.key.replace("/", "-"), "title": self.title}
        if isinstance(changed, datetime):
            # A time without a zone is taken for UTC.
            moment = (changed if changed.tzinfo else changed.replace(tzinfo=UTC)).astimezone(UTC)
            properties["modifiedAt"] = moment.isoformat().replace("+00:00", "Z")
        return SourceItem(url, self.title, self.media_type, version, properties=properties)

    @property
    def media_type(self) -> str:
        return "text/markdown" if self.columns.text else "text/plain"

    def write(self, to: Path) -> RawContent:
        """Write the document of the row."""
        data = self.format_text().encode("utf-8", "replace")
        to.write_bytes(data)
        item = self.make_item()
        return RawContent(to, item.name, item.media_type, len(data), version=item.version, properties=item.properties)


def format_value(value: Any) -> str:
    """Return a value as people read it; "" for NULL and bytes."""
    if value is None or isinstance(value, bytes | bytearray | memoryview):
        return ""
    if isinstance(value, datetime):
        return value.isoformat(" ", "seconds")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple) and all(isinstance(part, str | int | float) for part in value):
        return ", ".join(map(str, value))
    if isinstance(value, list | tuple | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def _digest(values: Any) -> str:
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()
