"""`retrieval source`: check a description of a service, by itself and against the service."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from connectors.http.retries import Unauthorized
from connectors.sources.described import connector, custom
from connectors.sources.described.description import Description
from retrieval.errors import Fatal, StepError
from retrieval.ports import SourceItem
from retrieval.settings import Settings

CREDENTIALS_VARIABLE: Final = "SOURCE_CREDENTIALS"
MAX_PAGES: Final = 3


@dataclass(slots=True)
class CheckedTokens:
    """Credentials of the check in place of a connection's tokens."""

    access_token: str
    connection_id: str = "check"

    def token(self) -> str:
        return self.access_token

    def renew(self, refused: str) -> str:
        return refused

    def end_authorization(self, _reason: str, _refused: str) -> StepError:
        return Fatal(f"The service refuses the credentials: check {CREDENTIALS_VARIABLE}.")


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Check the description in a file; with --url, list and read items of the service. Return 1 with problems."""
    file = Path(options.file)
    try:
        about = custom.load_description(file)
        streams = ", ".join(dict.fromkeys(stream.name for stream in about.streams))
        print(f"{file.name} is a valid description of {about.title}: {streams}.")
        if options.url:
            _read_items(file.stem.upper(), about, options.url, settings)
    except ValueError as error:
        print(f"retrieval: {' '.join(map(str, error.args))}", file=sys.stderr)
        return 1
    except (StepError, Unauthorized) as error:
        print(f"retrieval: {error}", file=sys.stderr)
        return 1
    return 0


def _read_items(name: str, about: Description, url: str, settings: Settings) -> None:
    """Print the number of items of the first pages, and the size of one item of each list."""
    try:
        credentials = json.loads(os.environ.get(CREDENTIALS_VARIABLE) or "null")
    except ValueError as error:
        raise ValueError(f'{CREDENTIALS_VARIABLE} must be JSON, such as {{"token": "…"}}.') from error
    tokens = CheckedTokens(
        connector.check_config(name, about, {"url": url, "credentials": credentials}, settings).access_token
    )
    described = connector.make_connector(name, about, settings)
    read = set[str]()
    print(f"Reads {json.loads(tokens.token())['url']}.")
    for number, page in enumerate(islice(described.iter_changes(tokens, None), MAX_PAGES), 1):
        print(f"Page {number}: {len(page.items)} items{', the last one' if page.done else ''}.")
        for item in page.items:
            if item.above[:1] and item.above[0] not in read:
                read.add(item.above[0])
                _read_item(described, tokens, item)


def _read_item(described: connector.Described, tokens: CheckedTokens, item: SourceItem) -> None:
    with tempfile.TemporaryDirectory() as folder:
        raw = item.content or described.fetch(tokens, item, Path(folder) / "item")
        size = raw.size if raw else 0
        path = item.properties.get("path", "")
    print(f"{item.above[0]}: {item.name!r} at {path!r} has {size:,} bytes; its address is {item.external_id}.")
