"""Access lists of items of described services.

Each layer of a service's permissions, such as project and issue, is a limit; users must be within all limits.
"""

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
"""Maximum age of cached answers; each listing renews all."""
MAX_LIST_PAGES: Final = 100
"""Pages of one list of users or groups; Skippable for more."""


@dataclass(frozen=True, slots=True)
class Limit:
    """Principals admitted by a layer. `users`: e-mail addresses by user id, "" if hidden; `groups`: ids."""

    users: Mapping[str, str]
    groups: frozenset[str]


@dataclass(frozen=True, slots=True)
class AnswerCache:
    """Answers and refusals by connection and URL, kept for FRESH_SECONDS. Thread-safe."""

    # Time of the request, and the answer or the Skippable.
    values: dict[tuple[str, str], tuple[float, Any]] = field(default_factory=dict)
    locks: dict[tuple[str, str], Lock] = field(default_factory=dict)

    def get_or_load(self, connection: str, url: str, load: Callable[[], Any]) -> Any:
        """Return the cached answer or raise the cached refusal; call `load` for a missing or old one."""
        key = connection, url
        with self.locks.setdefault(key, Lock()):
            loaded_at, value = self.values.get(key, (-inf, None))
            if time.monotonic() - loaded_at >= FRESH_SECONDS:
                try:
                    value = load()
                except Skippable as refusal:
                    value = refusal
                self.values[key] = time.monotonic(), value
            if isinstance(value, Skippable):
                raise value
            return value

    def forget(self, connection: str) -> None:
        """Remove the answers of a connection."""
        # Copies of the keys: other connections add theirs in other threads.
        for key in [key for key in {*list(self.values), *list(self.locks)} if key[0] == connection]:
            self.values.pop(key, None)
            self.locks.pop(key, None)


@lru_cache(maxsize=1)
def shared_answers() -> AnswerCache:
    """Return the cache of this process."""
    # Steps of a run have connectors of their own.
    return AnswerCache()


@dataclass(frozen=True, slots=True)
class AccessReader:
    """Reader of a connection's access lists.

    `item_fields`: fields identifying an item in addresses. `require_endpoint`: raises Retired for an address refused
    for all items.
    """

    service: Service
    tokens: TokenSource
    site: Site
    permissions: Permissions
    item_fields: frozenset[str]
    answers: AnswerCache
    require_endpoint: Callable[[str, Mapping[str, str], Refused], None]

    def read(self, values: Mapping[str, str]) -> SourceAccess:
        """Return the users and groups within all limits of an item. Skippable with the reason if unknown."""
        limits = list(self._read_limits(dict(values)))
        if not limits:
            return SourceAccess(public=True)
        first, *further = limits
        users = {
            user: address
            for user, address in first.users.items()
            if all(self._is_within(user, limit) for limit in further)
        }
        groups = set[str]()
        for group in first.groups:
            strict_limits = [limit for limit in further if group not in limit.groups]
            members = self._load_members(group) if strict_limits else {}
            admitted = {user for user in members if all(self._is_within(user, limit) for limit in strict_limits)}
            # A group without known members stays only if no other limit applies.
            if len(admitted) == len(members) and (members or not strict_limits):
                groups.add(group)
            else:
                users |= {user: members[user] for user in admitted}
        prefix = self.service.name.lower()
        addresses = sorted({address for address in users.values() if address})
        # Users with hidden addresses appear as groups of one.
        hidden_users = sorted(f"{prefix}:user:{user}" for user, address in users.items() if not address)
        group_names = sorted(f"{prefix}:{group}" for group in groups if not group.startswith("user:"))
        return SourceAccess(tuple(addresses), (*group_names, *hidden_users))

    def _read_limits(self, values: dict[str, str]) -> Iterator[Limit]:
        """Yield the limits of all layers. `values`: fields for addresses; layers add theirs."""
        for layer in self.permissions.layers:
            if self._is_open(layer, values):
                if layer.open and (group := fill_text(layer.open.group, values)):
                    yield Limit({}, frozenset({group}))
                continue
            documents = self._load_documents(layer.get, layer, values)
            own_documents = [split for path in layer.within for split in _split_documents(documents, path)]
            for limit_documents in (*own_documents, *self._load_parents(layer, values)):
                limit = self._read_limit(layer, limit_documents)
                is_empty = not (limit.users or limit.groups)
                if is_empty and not layer.optional:
                    raise self._unreported()
                # An empty limit of listed, but inactive principals admits nobody; one without entries limits nothing.
                has_entries = any(self._principal_lists(layer.users, limit_documents)) or any(
                    self._principal_lists(layer.groups, limit_documents)
                )
                if not is_empty or has_entries:
                    yield limit
            values |= {name: str(read_field(documents[0], source)) for name, source in layer.fields.items()}

    def _is_open(self, layer: Layer, values: Mapping[str, str]) -> bool:
        """Check for a layer open to everybody or to a group."""
        if layer.open is None:
            return False
        return is_kept(self._load_documents(layer.open.get, layer, values)[0], layer.open.when, values)

    def _load_parents(self, layer: Layer, values: Mapping[str, str]) -> Iterator[Sequence[Any]]:
        """Yield the layer's answers for each parent. Skippable for a parent with an unreported limit."""
        above = layer.above
        if above is None:
            return
        for answer in self._load_documents(above.get, layer, values):
            entries = read_field(answer, above.items)
            if not isinstance(entries, list):
                raise self._unreported()
            if not all(is_kept(entry, above.keep, {}) for entry in entries):
                raise Skippable(above.why)
            for entry in entries:
                names = {name: str(read_field(entry, source)) for name, source in above.fields.items()}
                if not all(names.values()):
                    raise self._unreported()
                yield self._load(fill_address(layer.get, {**values, **names}), layer, _require_present)

    def _read_limit(self, layer: Layer, documents: Sequence[Any]) -> Limit:
        """Return the active users and the groups listed by the documents."""
        users = dict[str, str]()
        if layer.users:
            for user, entry in self._principal_entries(layer.users, documents):
                address = self._find_address(layer.users, user, entry)
                if address is not None:
                    users[user] = address
        groups = frozenset(group for group, _ in self._principal_entries(layer.groups, documents))
        return Limit(users, groups)

    def _principal_entries(self, principals: Principals | None, documents: Sequence[Any]) -> Iterator[tuple[str, Any]]:
        """Yield id and entry of each listed user or group."""
        if principals is None:
            return
        for entries in self._principal_lists(principals, documents):
            for entry in entries:
                principal_id = read_field(entry, principals.id)
                if isinstance(principal_id, str) and principal_id and is_kept(entry, principals.keep, {}):
                    yield principal_id, entry

    def _principal_lists(self, principals: Principals | None, documents: Sequence[Any]) -> Iterator[list[Any]]:
        """Yield the list of users or groups of each document. Skippable for a document without a list."""
        if principals is None:
            return
        for document in documents:
            entries = read_field(document, principals.items)
            if not isinstance(entries, list):
                raise self._unreported()
            yield entries

    def _find_address(self, principals: Principals, user: str, entry: Any) -> str | None:
        """Return the e-mail address of a user, "" for a hidden address; None for an inactive user."""
        if principals.look_up:
            try:
                entry = self._load(fill_address(principals.look_up, {"id": user}), None)[0]
            except Skippable:
                return None if principals.active else ""
            if not is_kept(entry, principals.active, {}):
                return None
        address = read_field(entry, principals.address) if principals.address else ""
        return address if isinstance(address, str) and "@" in address else ""

    def _load_members(self, group: str) -> Mapping[str, str]:
        """Return e-mail addresses of a group's members by user id; {} if the service does not report them."""
        if self.permissions.members is None:
            return {}
        try:
            members = self._load(fill_address(self.permissions.members.get, {"id": group}), self.permissions.members)
            return self._read_limit(self.permissions.members, members).users
        except Skippable:
            return {}

    def _is_within(self, user: str, limit: Limit) -> bool:
        return user in limit.users or any(user in self._load_members(group) for group in limit.groups)

    def _load_documents(self, template: str, layer: Layer, values: Mapping[str, str]) -> list[Any]:
        """Return the answers of an address; answers without a field of the item are cached."""
        url = fill_address(template, values)
        paged_layer = layer if template == layer.get else None
        names = find_names(template)
        if self.item_fields & names:
            return self._request(url, paged_layer, lambda refused: self.require_endpoint(template, values, refused))
        # Another layer's answer has just named the object: a 404 means that the vendor removed the address.
        layer_fields = {name for any_layer in self.permissions.layers for name in any_layer.fields}
        check = _require_answered if names & layer_fields else _require_present
        return self._load(url, paged_layer, check)

    def _load(
        self, url: str, layer: Layer | None, check: Callable[[Refused], None] = lambda _refused: None
    ) -> list[Any]:
        """Return the documents of `_request`, from the cache if possible."""
        # A PATCH of the connection may change the base.
        full_url = self.site.base + url
        documents: list[Any] = self.answers.get_or_load(
            self.tokens.connection_id, full_url, lambda: self._request(url, layer, check)
        )
        return documents

    def _request(self, url: str, layer: Layer | None, check: Callable[[Refused], None]) -> list[Any]:
        """Return all pages of an answer. Skippable without permission, Retired for a removed endpoint.

        `layer`: paging of the list. `check`: raises Retired for a refusal by a removed endpoint.
        """
        address, visited, documents = self.site.base + url, Cursors("The list of permissions"), list[Any]()
        for _ in range(MAX_LIST_PAGES):
            try:
                answer = self.service.get(self.tokens, address)
            except Refused as refused:
                if refused.status in self.service.about.missing:
                    check(refused)
                raise self._unreported() from refused
            documents.append(self.service.read_json(answer))
            principals = layer and (layer.users or layer.groups)
            entries = read_field(documents[-1], principals.items) if principals else ()
            paging = layer.paging if layer else None
            address = self.service.next_page(paging, self.site, answer, entries) if paging else ""
            if not address:
                return documents
            visited.follow(address, brought=bool(entries))
        raise self._unreported()

    def _unreported(self) -> Skippable:
        """Return the error for permissions not reported by the service."""
        return Skippable(
            f"{self.service.about.title} does not show the connection's credentials who may see this: they need"
            f" {self.permissions.needs}."
        )


def _require_answered(refused: Refused) -> None:
    """Raise Retired for 404 and 410 of an address with a field of another layer's answer."""
    if refused.status in {404, 410}:
        raise refused.retire()


def _require_present(refused: Refused) -> None:
    """Raise Retired for 410 of an address without an item."""
    if refused.status == 410:
        raise refused.retire()


def _split_documents(documents: Sequence[Any], path: str) -> Iterator[Sequence[Any]]:
    """Yield the documents of each limit: the whole answer for the path "", else each object of the field."""
    if not path:
        yield documents
        return
    for document in documents:
        inner = read_field(document, path)
        for limit_object in inner if isinstance(inner, list) else [inner]:
            yield [limit_object]
