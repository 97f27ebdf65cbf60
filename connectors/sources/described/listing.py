"""Listing of a connection: the lists of all streams, one for each parent, page by page from a cursor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from connectors.http.responses import Cursors
from connectors.sources.described import templates
from connectors.sources.described.content import split_groups
from connectors.sources.described.counts import count_created, read_total
from connectors.sources.described.description import Stream
from connectors.sources.described.fields import fill_address, fill_known, fill_text, is_kept, read_field, read_value
from connectors.sources.described.items import ItemMaker
from connectors.sources.described.parents import ParentReader
from connectors.sources.described.position import Position, Target
from connectors.sources.described.service import Site
from retrieval.errors import Fatal, Skippable
from retrieval.ports import Page, SourceItem
from retrieval.sync_filter import SyncFilter, SyncItem

if TYPE_CHECKING:
    import httpx

    from connectors.sources.described.names import NameReader


NOT_MODIFIED: Final = 304
MAX_PATTERNS: Final = 500
"""Maximum number of id patterns of a listing; missing items beyond are removed by the next full listing."""


class ExpiredPage(Exception):
    """The page of the cursor has expired at the service, or there are more changes than it lists."""


@dataclass(slots=True)
class PendingGroup:
    """Group continued on the next page; `url`: first page, `key`: value."""

    entries: list[Any] = field(default_factory=list)
    url: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """Lists of a connection; `streams`: of the edition, `chosen`: of the choice."""

    names: NameReader
    items: ItemMaker
    streams: Sequence[Stream]
    chosen: Sequence[Stream]
    choice: SyncFilter
    parents: ParentReader

    @property
    def site(self) -> Site:
        """Edition of the connection."""
        return self.names.site

    def iter_pages(self, cursor: str | None) -> Iterator[Page[SourceItem]]:
        """List pages from a cursor, or everything after an expired page."""
        longest = self.site.full_listing
        position = Position.read_cursor(cursor, self.site.location["url"], len(self.streams)).begin(longest)
        try:
            yield from self._iter_pages(position)
        except ExpiredPage:
            yield from self._iter_pages(Position(position.url).begin(longest))

    def find_targets(self) -> list[Target]:
        """Return the lists of the chosen streams: one for each chosen parent, in the order of their ids."""
        self.parents.left_out.clear()
        return [
            target
            for number, stream in enumerate(self.streams)
            if not stream.within and not self._companions(stream).isdisjoint(item.name for item in self.chosen)
            for target in self._find_targets(number, stream)
        ]

    def find_list(self, stream: Stream, values: Mapping[str, str]) -> Target | None:
        """Return the list of an item with these values; None without a chosen parent."""
        parents = self.names.service.about.parents.get(stream.parents)
        key = values[next(iter(parents.fields))] if parents else ""
        head = stream.within or stream.name
        targets = (target for target in self.find_targets() if target.stream.name == head and target.parent == key)
        return next(targets, None)

    def has_parent(self, stream: Stream, values: Mapping[str, str]) -> bool:
        """Check if the service lists the parent of an item, chosen or not."""
        name = next(iter(self.names.service.about.parents[stream.parents].fields))
        return any(
            above[name] == values[name] for _, above in self.parents.iter_parents(stream.parents, all_entries=True)
        )

    def list_page(self, target: Target, url: str = "") -> tuple[list[SourceItem], str]:
        """Return the items on a page of a list, the first one without `url`, and the address of the next page."""
        stream = target.stream
        answer = self._request(stream, url or self.list_url(target, None))
        entries = [] if self._is_empty(stream, answer) else self._entries(stream, answer)
        items = [
            self.items.make_item(part, target.values, group)
            for part in self._parts(stream)
            for group in split_groups(part, self._kept(part, target, entries))
        ]
        return items, self.names.service.next_page(stream.paging, self.site, answer, entries)

    def list_url(self, target: Target, changed_after: datetime | None) -> str:
        """Return the address of the first page of a list, of its changes after a time."""
        import httpx

        stream, moment = target.stream, dict[str, str]()
        changes = stream.changes if target.parents else None
        query = dict(changes.query if changes else stream.query)
        if changed_after is not None:
            query |= stream.since if not changes else {}
            minutes = (datetime.now(UTC) - changed_after) // timedelta(minutes=1) + 1
            time, unix = changed_after.strftime("%Y-%m-%dT%H:%M:%SZ"), str(int(changed_after.timestamp()))
            moment = {"time": time, "unix": unix, "minutes": str(minutes)}
        values = {**target.values, **moment}
        template = changes.list if changes else (moment and stream.since_list) or stream.list
        address = self.site.base + fill_address(template, values)
        params = {name: fill_known(text, values) for name, text in query.items()}
        return str(httpx.URL(address, params=params)) if params else address

    def _iter_pages(self, position: Position) -> Iterator[Page[SourceItem]]:
        targets = self.find_targets()
        marks = sorted({target.mark for target in targets if target.parent and not target.stream.is_whole})
        if not position.full and not set(position.parents) <= set(marks):
            position = position.begin_full()  # items of a lost parent are removed
        whole = position.full or all(target.stream.is_whole for target in targets)
        # In the order of cursors: a list of all changes before the lists of new parents.
        selected = sorted(self._select(targets, position), key=lambda target: (target.number, target.parent))
        reached_at = position.stream, position.parent
        remaining = [target for target in selected if (target.number, target.parent) >= reached_at]
        items: list[SourceItem] = []
        for target, following in zip(remaining, [*remaining[1:], None], strict=False):
            for items, reached in self._iter_list(target, position.enter(target), whole=whole):
                position = reached
                if not reached.next and (list_to_count := self._find_counted(target, following, full=position.full)):
                    expected = reached.expect(list_to_count)
                    position = reached.count(list_to_count, read_total(self.names, list_to_count, expected))
                if position.next or following:
                    at = position.enter(following) if following and not position.next else position
                    yield Page(items, str(at), done=False)
                    self._remove_files(items)
        if position.has_lost:
            yield Page(items, str(position.begin_full()), done=False)
            yield from self._iter_pages(position.begin_full())
            return
        yield Page(
            items,
            str(position.end(marks)),
            done=True,
            whole=whole,
            whole_pattern="" if whole else "|".join(position.patterns),
            skipped=dict(self.parents.left_out),
        )

    def _select(self, targets: Sequence[Target], position: Position) -> Iterator[Target]:
        """Yield the lists to request: of changed parents, or one list of all changes."""
        since, selected = position.changed_after, set[str]()
        for target in targets:
            stream = target.stream
            if since is None and stream.only_changes:
                continue
            if since is None or not target.parent or target.mark not in position.parents:
                yield target
            elif stream.changes and stream.parents not in self.parents.fallbacks:
                if stream.name not in selected:
                    values = {item.parent: item.values for item in targets if item.stream == stream}
                    yield Target(target.number, stream, self.site.location, parents=values)
                selected.add(stream.name)
            else:
                moment = templates.read_moment(target.changed_at) if stream.changed else None
                if moment is None or moment >= since - timedelta(minutes=stream.changed_lag):
                    yield target

    def _iter_list(
        self, target: Target, position: Position, *, whole: bool
    ) -> Iterator[tuple[list[SourceItem], Position]]:
        """Yield the items of each page, with the next position; without `next` on the last."""
        stream, service, ids = target.stream, self.names.service, set[str]()
        is_new = bool(target.parent) and not stream.is_whole and target.mark not in position.parents
        changed_after = None if is_new else position.changed_after
        url, skip = position.next or self.list_url(target, changed_after), position.skip
        expired = stream.expired if position.next else ()
        pages, pending = Cursors(f"{service.about.title}'s list"), PendingGroup()
        while True:
            tag = position.tags.get(target.mark, "") if stream.conditional and not whole else ""
            answer = self._request(stream, url, expired, tag)
            if answer.status_code == NOT_MODIFIED:
                yield [], replace(position, next="", skip="")
                return
            is_empty = self._is_empty(stream, answer)
            if (answer.status_code in expired and not is_empty) or (
                changed_after and self._has_too_many(stream, answer)
            ):
                raise ExpiredPage
            expired = ()
            entries = [] if is_empty else self._entries(stream, answer)
            following = service.next_page(stream.paging, self.site, answer, entries)
            if stream.conditional:
                kept_tag = answer.headers.get("etag", "") if not following else ""
                position = replace(position, tags={**position.tags, target.mark: kept_tag})
            if _ends_before(stream, entries, changed_after):
                following = ""
            items = []
            for part in self._parts(stream):
                kept_entries = self._kept(part, target, entries)
                if part.reread:
                    kept_entries = self._reread(part, target, kept_entries)
                if part.group:
                    groups = self._cut_groups(part, kept_entries, pending, url, skip, is_last=not following)
                    skip = ""
                else:
                    groups = split_groups(part, kept_entries)
                values = [_values(target, group[0]) for group in groups]
                items += [
                    self.items.make_item(part, own_values, group)
                    for own_values, group in zip(values, groups, strict=True)
                ]
            if stream.count:
                position = replace(position, created=position.created + count_created(target, entries, position))
            if not whole:
                patterns = self._patterns(target, entries, changed_after, is_last=not following)
                position = replace(
                    position, patterns=tuple(dict.fromkeys((*position.patterns, *patterns)))[-MAX_PATTERNS:]
                )
            if not following:
                yield items, replace(position, next="", skip="")
                return
            pages.follow(following, brought=not ids.issuperset(item.external_id for item in items))
            ids.update(item.external_id for item in items)
            yield items, replace(position, next=pending.url or following, skip=pending.key)
            url = following

    def _is_empty(self, stream: Stream, answer: httpx.Response) -> bool:
        service, is_listed = self.names.service, answer.status_code in stream.empty
        return is_listed and (not stream.empty_if or is_kept(service.read_json(answer), stream.empty_if, {}))

    def _has_too_many(self, stream: Stream, answer: httpx.Response) -> bool:
        document = self.names.service.read_json(answer) if stream.too_many else None
        return bool(document and templates.evaluate(stream.too_many, document))

    def _reread(self, stream: Stream, target: Target, entries: Sequence[Any]) -> list[Any]:
        fields = stream.reread_by or stream.fields
        ids = {str(read_value(entry, next(iter(fields.values())))): entry for entry in entries}
        current = [self.items.request_entry(stream, target.values, entry) for entry in ids.values()]
        return [entry for entry in current if entry]

    def _patterns(
        self, target: Target, entries: Sequence[Any], changed_after: datetime | None, *, is_last: bool
    ) -> Iterator[str]:
        """Yield patterns of ids listed in full up to this page."""
        stream = target.stream
        if is_last and changed_after is not None and (stream.is_whole or stream.changed):
            yield from (part.find_ids(target.values) for part in self._parts(stream))
        for part in self._parts(stream):
            if part.each and not part.reread and changed_after is not None and not stream.is_whole:
                for entry in entries:
                    values = {name: str(read_value(entry, path)) for name, path in stream.fields.items()}
                    yield part.find_ids({**_values(target, entry), **values})

    def _find_counted(self, target: Target, following: Target | None, *, full: bool) -> Target | None:
        """Return the finished list with a number of items: one of a parent, or of all with a list of all changes."""
        is_last = following is None or following.stream is not target.stream
        if not target.stream.count or (target.parent and target.stream.changes and not (full and is_last)):
            return None
        return replace(target, parent="", values=self.site.location) if target.stream.changes else target

    def _cut_groups(
        self, stream: Stream, kept: list[Any], pending: PendingGroup, url: str, skip: str, *, is_last: bool
    ) -> list[list[Any]]:
        """Return the complete groups of this page; an incomplete last group is `pending`."""
        by = stream.group.by if stream.group else ""
        groups = split_groups(stream, [*pending.entries, *kept])
        while skip and groups and str(read_value(groups[0][0], by)) != skip:
            groups.pop(0)
        if not groups or is_last:
            pending.entries, pending.url, pending.key = [], "", ""
            return groups
        is_same = len(groups) == 1 and pending.entries
        pending.entries = groups.pop()
        if not is_same:
            pending.url, pending.key = url, str(read_value(pending.entries[0], by))
        return groups

    def _find_targets(self, number: int, stream: Stream) -> Iterator[Target]:
        location, about = self.site.location, self.names.service.about
        if not stream.parents:
            yield Target(number, stream, location)
            return
        parents = about.parents[stream.parents]
        targets = [
            Target(
                number,
                stream,
                values,
                values[next(iter(parents.fields))],
                fill_text(parents.path, values),
                str(read_value(entry, stream.changed)) if stream.changed else "",
            )
            for entry, values in self.parents.iter_parents(stream.parents)
        ]
        known_ids = {target.parent for target in targets} | {item.name for item in self.streams}
        has_other_ids = not {entry["id"] for entry in self.choice.include if "id" in entry} <= known_ids
        for target in sorted(targets, key=lambda target: target.parent):
            subject = SyncItem(target.parent, target.path, above=(stream.name,))
            if not self.choice or self.choice.may_hold(subject, ids=has_other_ids):
                yield target

    def _companions(self, stream: Stream) -> set[str]:
        return {stream.name, *(item.name for item in self.streams if item.within == stream.name)}

    def _parts(self, stream: Stream) -> list[Stream]:
        """Return the chosen streams within a stream's lists."""
        names = self._companions(stream)
        return [item for item in self.chosen if item.name in names]

    def _kept(self, stream: Stream, target: Target, entries: Sequence[Any]) -> list[Any]:
        if stream.each:
            entries = [{**child, "above": entry} for entry in entries for child in _children(entry, stream.each)]
        if target.parents:
            entries = [entry for entry in entries if _find_parent(target, entry) in target.parents]
        return [entry for entry in entries if is_kept(entry, stream.keep, target.values)]

    def _request(self, stream: Stream, url: str, expired: Sequence[int] = (), tag: str = "") -> httpx.Response:
        headers = {"If-None-Match": tag} if tag else {}
        passing = (*stream.empty, *expired, *([NOT_MODIFIED] if tag else []))
        try:
            return self.names.service.get(self.names.tokens, url, passing=passing, headers=headers)
        except Skippable as error:
            raise Fatal(f'{error} To leave out the whole list: "exclude": [{{"id": "{stream.name}"}}].') from error

    def _entries(self, stream: Stream, answer: httpx.Response) -> list[Any]:
        service = self.names.service
        if answer.status_code in stream.empty:
            raise service.refusal(answer)
        if stream.incomplete and read_field(service.read_json(answer), stream.incomplete):
            raise Fatal(f"{service.about.title} does not list all {stream.name}: there are too many.")
        return service.read_list(answer, stream.items)

    def _remove_files(self, items: Sequence[SourceItem]) -> None:
        for item in items:
            if item.content:
                item.content.path.unlink(missing_ok=True)


def _children(entry: Any, path: str) -> list[Any]:
    children = read_field(entry, path)
    children = [children] if isinstance(children, Mapping) else children
    return [child for child in children if isinstance(child, Mapping)] if isinstance(children, list) else []


def _find_parent(target: Target, entry: Any) -> str:
    changes, outer = target.stream.changes, entry.get("above")
    return str(read_value(outer if isinstance(outer, Mapping) else entry, changes.parent)) if changes else ""


def _values(target: Target, entry: Any) -> Mapping[str, str]:
    """Return template values of an entry: the parent's."""
    return target.parents.get(_find_parent(target, entry), target.values) if target.parents else target.values


def _ends_before(stream: Stream, entries: Sequence[Any], changed_after: datetime | None) -> bool:
    """Check for items of the last listing in a list from the newest; unreadable times do not count."""
    if not stream.newest or changed_after is None or not entries:
        return False
    times = [templates.read_moment(read_field(entry, stream.newest)) for entry in entries]
    return all(time is not None and time < changed_after for time in times)
