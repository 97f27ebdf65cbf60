"""Entries of RSS and Atom feeds: identity, people, dates and text."""

from __future__ import annotations

import calendar
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from io import BytesIO
from typing import Any, Final
from urllib.parse import quote

from connectors.http import html
from retrieval.ports import SourceItem

TITLE_LENGTH: Final = 200
# Characters of a description below which the page of the entry is read in its place.
SUMMARY_LENGTH: Final = 1000
# Relations of the next page of a feed (RFC 5005).
NEXT_PAGES: Final = frozenset({"next", "prev-archive"})
FEED_TYPES: Final = ("application/rss+xml", "application/atom+xml", "application/rdf+xml")
_CUT: Final = re.compile(
    r"(\.\.\.|…|\[…\]|\[\.\.\.\]|\b(read more|continue reading|weiterlesen|lire la suite))[\W_]*$", re.IGNORECASE
)
_MEDIA: Final = re.compile(r"(audio|video)/", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry with its text as HTML; `is_summary`: the page at `link` has more."""

    key: str
    title: str
    link: str
    text: str
    is_summary: bool
    properties: Mapping[str, str]

    @property
    def digest(self) -> str:
        """Return the hash of all that is read of the entry."""
        return hashlib.sha256(repr((self.title, self.link, self.text)).encode()).hexdigest()

    @property
    def mark(self) -> str:
        """Return a short hash of the key."""
        return hashlib.sha256(self.key.encode()).hexdigest()[:12]

    def make_item(self, feed_url: str) -> SourceItem:
        name = self.link if self.is_summary else self.title
        properties = {"url": self.link or feed_url, "path": _path(self), "title": self.title, **self.properties}
        return SourceItem(identify(feed_url, self.key), name, "text/html", self.digest, properties=properties)


@dataclass(frozen=True, slots=True)
class Feed:
    """Entries of a page of a feed, and the address of the next page, or "". `is_broken`: the page breaks off."""

    entries: Sequence[Entry]
    next_page: str
    is_broken: bool


def identify(feed_url: str, key: str) -> str:
    """Return the `external_id` of an entry."""
    return f"{feed_url}#{quote(key, safe=':/?=&')}"


def parse_feed(data: bytes, url: str, media_type: str) -> Feed | None:
    """Parse a page of a feed from `url`; None for anything but a feed."""
    import feedparser

    parsed = feedparser.parse(BytesIO(data), response_headers={"content-type": media_type, "content-location": url})
    if not parsed.get("version"):
        return None
    author = _name_people(parsed.feed)
    entries = {entry.key: entry for entry in (_read_entry(raw, url, author) for raw in reversed(parsed.entries))}
    links = [link for link in parsed.feed.get("links", []) if link.get("rel") in NEXT_PAGES]
    is_broken = isinstance(parsed.get("bozo_exception"), Exception) and not isinstance(
        parsed.bozo_exception, feedparser.CharacterEncodingOverride | feedparser.NonXMLContentType
    )
    next_page = html.absolute_link(url, links[0].get("href") or "") if links else ""
    return Feed(list(reversed(entries.values())), next_page, is_broken)


def find_feed(data: bytes, url: str, media_type: str) -> str:
    """Return the address of the feed that a page names, or ""."""
    parsed = html.parse_page(data, media_type)
    for node in parsed.css('link[rel~="alternate" i][href]'):
        if (node.attributes.get("type") or "").strip().lower() in FEED_TYPES:
            return html.absolute_link(html.read_about(parsed, url).base, node.attributes.get("href") or "")
    return ""


def _read_entry(raw: Mapping[str, Any], url: str, feed_author: str) -> Entry:
    link = html.absolute_link(url, raw.get("link") or "")
    title, body, is_whole = _plain(raw.get("title_detail") or {}), *_read_body(raw)
    plain = _plain({"type": "text/html", "value": body})
    enclosures = raw.get("enclosures") or []
    is_media = any(_MEDIA.match(enclosure.get("type") or "") for enclosure in enclosures)
    # An entry without a title is its own text, as those of microblogs.
    is_summary = (
        bool(link and title)
        and not is_media
        and (_CUT.search(plain) is not None or (not is_whole and len(plain) < SUMMARY_LENGTH))
    )
    author, created, modified = _name_people(raw) or feed_author, _time(raw, "published"), _time(raw, "updated")
    name = (title or plain or link or "Entry")[:TITLE_LENGTH]
    lines = {
        "Author": escape(author),
        "Published": _day(created or modified),
        "Updated": _day(modified) if created and _day(modified) != _day(created) else "",
        "Categories": escape(", ".join(filter(None, (_tag(tag) for tag in raw.get("tags") or [])))),
        "Duration": escape(str(raw.get("itunes_duration") or "")),
        "Link": _anchor(link),
        "Files": ", ".join(
            filter(None, (_anchor(html.absolute_link(url, file.get("href") or "")) for file in enclosures))
        ),
    }
    about = "<br>".join(f"{label}: {line}" for label, line in lines.items() if line)
    text = f'<meta charset="utf-8">\n<h1>{escape(name)}</h1>\n<p>{about}</p>\n{body}\n'
    properties = {"createdAt": created or modified, "modifiedAt": modified or created, "owner": author}
    key = str(raw.get("id") or link or hashlib.sha256(f"{name}{body}".encode()).hexdigest())
    return Entry(key, name, link, text, is_summary, {name: value for name, value in properties.items() if value})


def _read_body(raw: Mapping[str, Any]) -> tuple[str, bool]:
    """Return the longest text of an entry as HTML, and True for content instead of a summary."""
    contents = [_markup(content) for content in raw.get("content") or []]
    content = max(contents, key=len, default="")
    summary = _markup(raw.get("summary_detail") or {})
    return (content, True) if content and len(content) >= len(summary) else (summary, bool(content))


def _markup(detail: Mapping[str, Any]) -> str:
    """Return a text of the feed as HTML."""
    value = str(detail.get("value") or "").strip()
    if "html" in str(detail.get("type") or ""):
        return value
    return "".join(f"<p>{escape(part).replace(chr(10), '<br>')}</p>" for part in re.split(r"\n\s*\n", value) if part)


def _plain(detail: Mapping[str, Any]) -> str:
    """Return a text of the feed as one line without markup."""
    body = html.parse_page(f"<body>{_markup(detail)}".encode(), "text/html; charset=utf-8").body
    return " ".join(body.text(separator=" ").split()) if body else ""


def _name_people(raw: Mapping[str, Any]) -> str:
    people = [str(person.get("name") or "") for person in raw.get("authors") or []]
    return ", ".join(filter(None, dict.fromkeys(people))) or str((raw.get("author_detail") or {}).get("name") or "")


def _time(raw: Mapping[str, Any], name: str) -> str:
    # The keys of feedparser's dictionaries have fallbacks: `updated` is `published` where it is missing.
    moment = raw[f"{name}_parsed"] if f"{name}_parsed" in raw.keys() else None  # noqa: SIM118
    try:
        return datetime.fromtimestamp(calendar.timegm(moment), UTC).isoformat().replace("+00:00", "Z") if moment else ""
    except (ValueError, OverflowError, OSError):
        return ""


def _day(moment: str) -> str:
    return f"{datetime.fromisoformat(moment):%-d %B %Y}" if moment else ""


def _tag(tag: Mapping[str, Any]) -> str:
    return str(tag.get("label") or tag.get("term") or "")


def _anchor(link: str) -> str:
    return f'<a href="{escape(link)}">{escape(link)}</a>' if link else ""


def _path(entry: Entry) -> str:
    return entry.title.replace("/", "-").strip(". ") or "entry"
