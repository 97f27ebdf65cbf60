"""Text of an item: template or fields, then comments."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from connectors.http.responses import Cursors
from connectors.sources.described import templates
from connectors.sources.described.attachments import Attachment, find_attachments
from connectors.sources.described.description import Comments, Content, Stream
from connectors.sources.described.fields import fill_address, has_field, is_kept, read_field, read_value
from connectors.sources.described.names import NameReader
from retrieval.errors import Skippable

if TYPE_CHECKING:
    import httpx

COMMENT_PAGES: Final = 100
"""Maximum number of pages of comments per document."""
MISSING: Final = "It is no longer there, or may not be read with these credentials."


@dataclass(frozen=True, slots=True)
class ContentReader:
    """Reader of texts of a connection; `attachments`: collects the files of the items that are read."""

    names: NameReader
    attachments: list[Attachment] | None = None

    def read_answer(self, stream: Stream, values: Mapping[str, str], answer: httpx.Response) -> bytes:
        """Return the text of an item from the answer to a request. Skippable for a missing item."""
        content, service = stream.content, self.names.service
        if content.pages and not content.raw:
            return b"".join(self._read_pages(answer, content.pages))
        if not (content.text or content.body or content.comments or content.keep):
            return answer.content
        document = service.read_json(answer)
        if content.keep and not is_kept(document, content.keep, values):
            raise Skippable("It is no longer one of the items that are listed.")
        if stream.group:
            entries = list(self.list_group(stream, values, answer))
            return self.read_entries(stream, values, entries)
        if not (content.text or content.body or content.comments):
            return answer.content
        entry = read_field(document, content.entry)
        if content.entry and not isinstance(entry, Mapping):
            raise Skippable(MISSING)
        return self._join(stream, values, entry, answer)

    def read_entries(self, stream: Stream, values: Mapping[str, str], entries: Sequence[Any]) -> bytes:
        """Return the text of an item from list entries. Skippable without entries."""
        if not entries:
            raise Skippable(MISSING)
        if not stream.group:
            return self._join(stream, values, entries[0], None)
        ordered = list(reversed(entries)) if stream.group.newest_first else entries
        template = stream.content.comments.text if stream.content.comments else ""
        for entry in ordered:
            self._collect(stream.content, entry, values)
        parts = [self.render(template, entry, values) for entry in ordered]
        return "\n\n".join(filter(None, [self.render(stream.content.text, ordered[0], values), *parts])).encode()

    def list_group(self, stream: Stream, values: Mapping[str, str], answer: httpx.Response) -> Iterator[Any]:
        """Yield the entries of a group from the answer, and the following pages."""
        service, pages = self.names.service, Cursors(f"{self.names.service.about.title}'s list")
        for _ in range(COMMENT_PAGES):
            entries = service.read_list(answer, stream.content.entries)
            yield from (entry for entry in entries if is_kept(entry, stream.keep, values))
            following = service.next_page(stream.paging, self.names.site, answer, entries)
            if not following:
                return
            pages.follow(following, brought=bool(entries))
            answer = service.get(self.names.tokens, following)

    def _read_pages(self, first: httpx.Response, parameter: str) -> Iterator[bytes]:
        """Yield the pages of a text up to an empty one."""
        service = self.names.service
        yield first.content
        for number in range(2, COMMENT_PAGES):
            url = str(first.url.copy_set_param(parameter, str(number)))
            answer = service.get(self.names.tokens, url, passing=service.about.missing)
            if answer.status_code != 200 or not answer.content:
                return
            yield answer.content

    def _join(self, stream: Stream, values: Mapping[str, str], entry: Any, answer: httpx.Response | None) -> bytes:
        return "\n\n".join(filter(None, self._texts(stream.content, values, entry, answer))).encode()

    def _texts(
        self, content: Content, values: Mapping[str, str], entry: Any, answer: httpx.Response | None
    ) -> Iterator[str]:
        """Yield title, body and comments, each below its author."""
        is_html = content.media_type == "text/html"
        self._collect(content, entry, values)
        if content.title:
            if not has_field(entry, content.title):
                raise self.names.service.unreadable()
            if not content.text:
                yield _heading(str(read_field(entry, content.title)), is_html=is_html)
        if content.text:
            yield self.render(content.text, entry, values)
        elif content.body:
            yield str(read_field(entry, content.body))
        if content.raw:
            answer = self.names.service.get(
                self.names.tokens,
                self.names.site.base + fill_address(content.raw, values),
                headers={"Accept": "text/plain"},
            )
            yield b"\n\n".join(self._read_pages(answer, content.pages)).decode("utf-8", "replace")
        for comments in content.comment_lists:
            yield from self._comment_texts(content, comments, values, entry, answer)

    def _comment_texts(
        self,
        content: Content,
        comments: Comments,
        values: Mapping[str, str],
        entry: Any,
        answer: httpx.Response | None,
    ) -> Iterator[str]:
        """Yield comments, each above its replies."""
        for comment in self._sort_comments(comments, values, entry, answer):
            self._collect(content, comment, values)
            body = str(read_field(comment, comments.body))
            yield self.render(comments.text, comment, values) if comments.text else body
            if comments.replies:
                names = {**values, "comment": str(read_field(comment, "id"))}
                yield from self._comment_texts(content, comments.replies, names, comment, None)

    def is_complete(self, content: Content, entry: Any) -> bool:
        """Check if the text of a list entry needs no request."""
        return content.in_list and not any(
            _find_listed(comments, entry) is None for comments in content.comment_lists if comments.get
        )

    def find_attachments(self, content: Content, entry: Any, values: Mapping[str, str]) -> list[Attachment]:
        return list(find_attachments(content, entry, values, self.names.site.base))

    def _collect(self, content: Content, entry: Any, values: Mapping[str, str]) -> None:
        if self.attachments is not None:
            self.attachments.extend(self.find_attachments(content, entry, values))

    def _sort_comments(
        self, comments: Comments, values: Mapping[str, str], entry: Any, answer: httpx.Response | None
    ) -> Iterable[dict[str, Any]]:
        """Return the comments in the order of the text."""
        entries = self._comments(comments, values, entry, answer)
        order = comments.order
        return sorted(entries, key=lambda comment: str(read_field(comment, order))) if order else entries

    def _comments(
        self, comments: Comments, values: Mapping[str, str], entry: Any, answer: httpx.Response | None
    ) -> Iterator[dict[str, Any]]:
        """Yield the comments in the item, in the answer or in separate lists."""
        service = self.names.service
        if (listed := _find_listed(comments, entry)) is not None:
            yield from (comment for comment in listed if is_kept(comment, comments.keep, values))
            return
        if comments.get:
            answer = service.get(self.names.tokens, self.names.site.base + fill_address(comments.get, values))
        pages = Cursors(f"{service.about.title}'s list of comments")
        for _ in range(COMMENT_PAGES):
            if answer is None:
                return
            document = service.read_json(answer)
            entries = read_field(document, comments.items) if comments.items else document
            for comment in entries or ():
                if is_kept(comment, comments.keep, values):
                    yield comment
            following = service.next_page(comments.paging, self.names.site, answer, entries)
            if not following:
                return
            pages.follow(following, brought=True)
            answer = service.get(self.names.tokens, following)

    def render(self, text: str, entry: Any, values: Mapping[str, str]) -> str:
        """Fill a template with the fields of an entry, also as `entry`, and `item` with the values of the stream."""
        look_ups = tuple(self.names.service.about.look_ups)
        fields = {"entry": entry, **(entry if isinstance(entry, Mapping) else {}), "item": values}
        try:
            return templates.render(text, fields, self.names.find_name, look_ups)
        except templates.TemplateFault as error:
            raise self.names.service.unreadable() from error


def _find_listed(comments: Comments, entry: Any) -> list[Any] | None:
    """Return the comments of an item; None for comments to request."""
    count = read_value(entry, comments.count) if comments.count else None
    if comments.count and not count:
        return []
    listed = read_field(entry, comments.listed) if comments.listed else None
    has_more = bool(comments.more and read_field(entry, comments.more))
    is_whole = not isinstance(count, int) or (isinstance(listed, list) and count <= len(listed))
    return listed if isinstance(listed, list) and is_whole and not has_more else None


def split_groups(stream: Stream, entries: Sequence[Any]) -> list[list[Any]]:
    """Split entries into items, or into groups of consecutive entries."""
    if stream.group is None:
        return [[entry] for entry in entries]
    by = stream.group.by
    return [list(group) for _, group in groupby(entries, lambda entry: read_value(entry, by))]


def _heading(text: str, *, is_html: bool) -> str:
    return f"<h1>{html.escape(html.unescape(text))}</h1>" if is_html else f"# {text}"
