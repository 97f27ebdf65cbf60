"""Access lists of items of described services, from layers of limits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from connectors.http.responses import Cursors
from connectors.sources.described.fields import fill_address, fill_text, find_names, is_kept, read_field
from connectors.sources.described.permission_layers import Layer, Permissions, Principals
from connectors.sources.described.service import Refused
from retrieval.errors import Skippable
from retrieval.ports import SourceAccess

if TYPE_CHECKING:
    from connectors.sources.described.service import Service, Site
    from retrieval.ports import TokenSource

FRESH_SECONDS: Final = 300.0
"""Age of answers that the fetches of a run still use; its listing requests all of them anew."""
PAGES: Final = 100
"""Pages that one list of users or groups may have."""


@dataclass(frozen=True, slots=True)
class Limit:
    """Principals within a limit: e-mail addresses by user id, "" for hidden addresses; group ids."""

    users: Mapping[str, str]
    groups: frozenset[str]


@dataclass(frozen=True, slots=True)
class Answers:
    """Shared answers and refusals of a connection, renewed after FRESH_SECONDS and for a new listing."""

    values: dict[tuple[str, str], tuple[float, Any]] = field(default_factory=dict)
    locks: dict[tuple[str, str], Lock] = field(default_factory=dict)

    def keep(self, connection: str, url: str, load: Callable[[], Any]) -> Any:
        key = connection, url
        with self.locks.setdefault(key, Lock()):
            read_at, value = self.values.get(key, (-inf, None))
            if time.monotonic() - read_at >= FRESH_SECONDS:
                try:
                    value = load()
                except Skippable as refusal:
                    value = refusal
                self.values[key] = time.monotonic(), value
            if isinstance(value, Skippable):
                raise value
            return value

    def forget(self, connection: str) -> None:
        # Copies of the keys: other connections add theirs in other threads.
        for key in [key for key in {*list(self.values), *list(self.locks)} if key[0] == connection]:
            self.values.pop(key, None)
            self.locks.pop(key, None)


@lru_cache(maxsize=1)
def share_answers() -> Answers:
    """Return the answers of this process, shared by connectors of several steps."""
    return Answers()


@dataclass(frozen=True, slots=True)
class AccessReader:
    """Reader of a connection's access lists; `require_endpoint` raises Retired for an address refused for all items."""

    service: Service
    tokens: TokenSource
    site: Site
    about: Permissions
    item_fields: frozenset[str]
    answers: Answers
    require_endpoint: Callable[[str, Mapping[str, str], Refused], None]

    def read(self, values: Mapping[str, str]) -> SourceAccess:
        """Return the access list of an item. Skippable with the reason for unreported access."""
        limits = list(self._limits(dict(values)))
        if not limits:
            return SourceAccess(public=True)
        first, *further = limits
        users = {
            key: address for key, address in first.users.items() if all(self._passes(key, limit) for limit in further)
        }
        groups = set[str]()
        for group in first.groups:
            strict_limits = [limit for limit in further if group not in limit.groups]
            members = self._members(group) if strict_limits else {}
            passing = {key for key in members if all(self._passes(key, limit) for limit in strict_limits)}
            if len(passing) == len(members) and (members or not strict_limits):
                groups.add(group)
            else:
                users |= {key: members[key] for key in passing}
        prefix = self.service.name.lower()
        unaddressed = [f"{prefix}:user:{key}" for key, address in users.items() if not address]
        names = sorted(f"{prefix}:{name}" for name in groups if not name.startswith("user:"))
        return SourceAccess(tuple(sorted(set(filter(None, users.values())))), (*names, *sorted(unaddressed)))

    def _limits(self, values: dict[str, str]) -> Iterator[Limit]:
        for layer in self.about.layers:
            if layer.open and is_kept(self._documents(layer.open.get, layer, values)[0], layer.open.when, values):
                if group := fill_text(layer.open.group, values):
                    yield Limit({}, frozenset({group}))
                continue
            documents = self._documents(layer.get, layer, values)
            parts = [part for path in layer.within for part in _split(documents, path)]
            for part in (*parts, *self._parents(layer, values)):
                limit = self._limit(layer, part)
                is_empty = not (limit.users or limit.groups)
                if is_empty and not layer.optional:
                    raise self._untold()
                if not is_empty or any(self._lists(layer.users, part)) or any(self._lists(layer.groups, part)):
                    yield limit
            values |= {name: str(read_field(documents[0], source)) for name, source in layer.fields.items()}

    def _parents(self, layer: Layer, values: Mapping[str, str]) -> Iterator[Sequence[Any]]:
        """Yield the layer's answers for each parent. Skippable for a parent with an unreported limit."""
        above = layer.above
        if above is None:
            return
        for answer in self._documents(above.get, layer, values):
            entries = read_field(answer, above.items)
            if not isinstance(entries, list):
                raise self._untold()
            if not all(is_kept(entry, above.keep, {}) for entry in entries):
                raise Skippable(above.why)
            for entry in entries:
                names = {name: str(read_field(entry, source)) for name, source in above.fields.items()}
                if not all(names.values()):
                    raise self._untold()
                yield self._load(fill_address(layer.get, {**values, **names}), layer, _require_present)

    def _limit(self, layer: Layer, documents: Sequence[Any]) -> Limit:
        users = dict[str, str]()
        for key, entry in self._entries(layer.users, documents):
            if (address := self._find_address(layer.users, key, entry) if layer.users else "") is not None:
                users[key] = address
        return Limit(users, frozenset(key for key, _ in self._entries(layer.groups, documents)))

    def _entries(self, principals: Principals | None, documents: Sequence[Any]) -> Iterator[tuple[str, Any]]:
        for entries in self._lists(principals, documents):
            for entry in entries:
                key = read_field(entry, principals.id) if principals else ""
                if isinstance(key, str) and key and principals and is_kept(entry, principals.keep, {}):
                    yield key, entry

    def _lists(self, principals: Principals | None, documents: Sequence[Any]) -> Iterator[list[Any]]:
        """Yield the lists of users or groups. Skippable without lists."""
        for document in documents if principals else ():
            entries = read_field(document, principals.items) if principals else ()
            if not isinstance(entries, list):
                raise self._untold()
            yield entries

    def _find_address(self, principals: Principals, key: str, entry: Any) -> str | None:
        """Return the e-mail address of a user, "" for a hidden address; None for an inactive user."""
        if principals.look_up:
            try:
                entry = self._load(fill_address(principals.look_up, {"id": key}), None)[0]
            except Skippable:
                return None if principals.active else ""
            if not is_kept(entry, principals.active, {}):
                return None
        address = read_field(entry, principals.address) if principals.address else ""
        return address if isinstance(address, str) and "@" in address else ""

    def _members(self, group: str) -> Mapping[str, str]:
        """Return the users of a group; none for an unreported group."""
        if self.about.members is None:
            return {}
        try:
            members = self._load(fill_address(self.about.members.get, {"id": group}), self.about.members)
            return self._limit(self.about.members, members).users
        except Skippable:
            return {}

    def _passes(self, key: str, limit: Limit) -> bool:
        return key in limit.users or any(key in self._members(group) for group in limit.groups)

    def _documents(self, template: str, layer: Layer, values: Mapping[str, str]) -> list[Any]:
        url = fill_address(template, values)
        paged = layer if template == layer.get else None
        names = find_names(template)
        if not self.item_fields & names:
            # What another layer has just named exists: a 404 for it is the vendor's removal of the address.
            layer_fields = {name for any_layer in self.about.layers for name in any_layer.fields}
            check = _require_answered if names & layer_fields else _require_present
            return self._load(url, paged, check)
        return self._request(url, paged, lambda refused: self.require_endpoint(template, values, refused))

    def _load(
        self, url: str, layer: Layer | None, check: Callable[[Refused], None] = lambda _refused: None
    ) -> list[Any]:
        name = self.site.base + url  # another after a PATCH of the connection
        documents: list[Any] = self.answers.keep(
            self.tokens.connection_id, name, lambda: self._request(url, layer, check)
        )
        return documents

    def _request(self, url: str, layer: Layer | None, check: Callable[[Refused], None]) -> list[Any]:
        """Return all pages of an answer. Skippable without permission, Retired for a removed endpoint."""
        address, pages, documents = self.site.base + url, Cursors("The list of permissions"), list[Any]()
        for _ in range(PAGES):
            try:
                answer = self.service.get(self.tokens, address)
            except Refused as refused:
                if refused.status in self.service.about.missing:
                    check(refused)
                raise self._untold() from refused
            documents.append(self.service.read_json(answer))
            listed = layer and (layer.users or layer.groups)
            entries = read_field(documents[-1], listed.items) if listed else ()
            paging = layer.paging if layer else None
            address = self.service.next_page(paging, self.site, answer, entries) if paging else ""
            if not address:
                return documents
            pages.follow(address, brought=bool(entries))
        raise self._untold()

    def _untold(self) -> Skippable:
        return Skippable(
            f"{self.service.about.title} does not show the connection's credentials who may see this: they need"
            f" {self.about.needs}."
        )


def _require_answered(refused: Refused) -> None:
    """Raise Retired for 404 and 410 of an address with a field of another layer's answer."""
    if refused.status in {404, 410}:
        raise refused.retire()


def _require_present(refused: Refused) -> None:
    """Raise Retired for 410 of an address without an item."""
    if refused.status == 410:
        raise refused.retire()


def _split(documents: Sequence[Any], path: str) -> Iterator[Sequence[Any]]:
    """Yield the documents of each limit: the answer, or each object of a field."""
    if not path:
        yield documents
        return
    for document in documents:
        inner = read_field(document, path)
        for part in inner if isinstance(inner, list) else [inner]:
            yield [part]
