"""Subscriptions of Microsoft Graph to changes of a drive or mailbox."""

# learn.microsoft.com/graph/api/subscription-post-subscriptions: Graph checks the address before it answers, and repeats
# `clientState` in each notification. learn.microsoft.com/graph/api/resources/subscription has the longest times.

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote

from connectors.microsoft_graph.client import MISSING_STATUSES, Graph, GraphResponse
from retrieval.errors import Skippable
from retrieval.ports import TokenSource
from retrieval.ports.sources import Subscription

REFUSED_MESSAGE: Final = (
    "{title} refuses to announce changes at {address} ({code}): RETRIEVAL_PUBLIC_URL must be an address of the API that"
    " Microsoft reaches by https."
)
FORBIDDEN_MESSAGE: Final = "{title} does not let the app subscribe to changes: authorize the connection again."


@dataclass(frozen=True, slots=True)
class Watched:
    """Resource with changes to announce; `minutes`: longest time of a subscription."""

    resource: str
    change_type: str
    minutes: int


DRIVE: Final = Watched("/me/drive/root", "updated", 42_000)
MAILBOX: Final = Watched("/me/messages", "created,updated,deleted", 10_000)


def subscribe(
    graph: Graph, tokens: TokenSource, watched: Watched, address: str, secret: str, state: str | None
) -> Subscription:
    """Create a subscription, or renew the one of `state`. Skippable for a refusal."""
    ends = datetime.now(UTC) + timedelta(minutes=watched.minutes)
    expiration = {"expirationDateTime": ends.strftime("%Y-%m-%dT%H:%M:%SZ")}
    if state is not None:
        answer = graph.change(tokens, "PATCH", f"/subscriptions/{quote(state, safe='')}", expiration)
        if answer.status == 200:
            return _read_subscription(answer, state, ends)
    body = {
        "changeType": watched.change_type,
        "notificationUrl": address,
        "lifecycleNotificationUrl": address,
        "resource": watched.resource,
        "clientState": secret,
        **expiration,
    }
    answer = graph.change(tokens, "POST", "/subscriptions", body)
    if answer.status in {401, 403}:
        raise Skippable(FORBIDDEN_MESSAGE.format(title=graph.title))
    if answer.status != 201 or not isinstance(answer.body.get("id"), str):
        code = answer.code or answer.status
        raise Skippable(REFUSED_MESSAGE.format(title=graph.title, address=address, code=code))
    return _read_subscription(answer, answer.body["id"], ends)


def unsubscribe(graph: Graph, tokens: TokenSource, state: str) -> None:
    """End a subscription. Skippable unless it is gone then."""
    answer = graph.change(tokens, "DELETE", f"/subscriptions/{quote(state, safe='')}", None)
    if answer.status != 204 and answer.status not in MISSING_STATUSES:
        raise Skippable(f"{graph.title} did not end the subscription (status {answer.status}).")


def _read_subscription(answer: GraphResponse, state: str, default: datetime) -> Subscription:
    ends: Any = answer.body.get("expirationDateTime")
    try:
        moment = datetime.fromisoformat(str(ends))
    except ValueError:
        moment = default
    return Subscription(state, moment if moment.tzinfo else moment.replace(tzinfo=UTC))
