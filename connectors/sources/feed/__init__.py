"""Feeds of websites: RSS 0.9 to 2.0 and Atom."""

from __future__ import annotations

from connectors.info import ConnectorInfo

INFO = ConnectorInfo(
    title="RSS and Atom feeds",
    account="A feed of a website",
    documents="Entries of an RSS or Atom feed",
    example="https://blog.example.com/feed.xml",
)
