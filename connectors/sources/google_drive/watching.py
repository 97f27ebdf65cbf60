"""Channels of Google Drive, announcing changes of the account and of shared drives."""

# developers.google.com/workspace/drive/api/guides/push: a channel lasts a week at most and cannot be renewed, so that a
# new one replaces it; each notification repeats the channel's token.

from __future__ import annotations

import json
import uuid
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from connectors.google.transport import NotFound
from connectors.sources.google_drive import api
from connectors.sources.google_drive.client import Drive
from retrieval.errors import Skippable
from retrieval.ports.sources import Subscription

CHANNEL_LIFETIME: Final = timedelta(days=7) - timedelta(minutes=1)
# Further shared drives wait for the interval of the connection.
MAX_WATCHED_DRIVES: Final = 50


def subscribe(drive: Drive, address: str, secret: str, state: str | None) -> Subscription:
    """Open channels of the account and of shared drives, then close the channels of `state`."""
    ends = datetime.now(UTC) + CHANNEL_LIFETIME
    logs = ["", *list(drive.list_shared_drives())[:MAX_WATCHED_DRIVES]]
    channels, expirations = list[dict[str, str]](), [ends]
    for log in logs:
        # A shared drive that may not be listed has no changes to announce.
        with suppress(*([api.Forbidden, api.CursorExpired] if log else [])):
            answer = drive.watch_changes(
                log,
                {
                    "id": str(uuid.uuid4()),
                    "type": "web_hook",
                    "address": address,
                    "token": secret,
                    "expiration": str(int(ends.timestamp() * 1000)),
                },
            )
            channels.append({"id": str(answer["id"]), "resourceId": str(answer["resourceId"])})
            expirations.append(_read_moment(answer, ends))
    if state is not None:
        with suppress(Skippable):  # they end by themselves
            unsubscribe(drive, state)
    return Subscription(json.dumps(channels, separators=(",", ":")), min(expirations))


def unsubscribe(drive: Drive, state: str) -> None:
    """Close the channels of `state`."""
    for channel in json.loads(state):
        with suppress(NotFound):
            drive.stop_channel(channel)


def _read_moment(answer: dict[str, Any], default: datetime) -> datetime:
    try:
        return datetime.fromtimestamp(int(answer["expiration"]) / 1000, UTC)
    except (LookupError, ValueError, TypeError, OverflowError):
        return default
