"""Push of connections in requests and responses."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from api.wire.common import DataAnswer, NamespaceId, ObjectReference, Timestamp
from retrieval.connections.push_vendors import PUSH_VENDORS
from retrieval.connections.queries_push import PushRow

Trigger = Annotated[
    Literal["PUSH"],
    Meta(description="PUSH: a hint of the content service began the run; absent for requests and schedules."),
]


class Push(Struct, rename="camel", kw_only=True):
    """Address for hints of the content service. A hint starts an ingestion within seconds; its body is not read."""

    url: Annotated[
        str,
        Meta(
            description="The address to enter at the content service.",
            examples=["https://retrieval.example.com/v1/push/3q2-7wEXAMPLE"],
        ),
    ]
    setup: Annotated[str, Meta(description="What to enter at the content service.")]
    setup_url: Annotated[str, Meta(description="The content service's documentation.")]
    confirmed_at: Annotated[
        Timestamp | None, Meta(description="Time of the first request with a right signature; null before.")
    ]
    hints: Annotated[int, Meta(description="Number of hints.")]
    last_hint_at: Annotated[Timestamp | None, Meta(description="Time of the last hint; null before the first.")]
    refusals: Annotated[int, Meta(description="Number of requests with a missing, wrong or late signature.")]
    last_refusal_at: Annotated[Timestamp | None, Meta(description="Time of the last of them; null without one.")]
    subscribed_until: Annotated[
        Timestamp | None,
        Meta(
            description="End of the subscription at GOOGLE_DRIVE, ONEDRIVE or OUTLOOK_MAIL, which is renewed before it;"
            " null before the first one, and for services without subscriptions."
        ),
    ] = None
    problem: Annotated[
        str | None,
        Meta(
            description="Why the last attempt to create or renew the subscription failed, and what to do; null after a"
            " successful one.",
            examples=["Google refuses to announce changes at the address of push: …"],
        ),
    ] = None

    @classmethod
    def from_row(cls, row: PushRow, base_url: str) -> Push:
        def show(moment: datetime | None) -> Timestamp | None:
            return None if moment is None else Timestamp.from_datetime(moment)

        vendor = PUSH_VENDORS[row.connector]
        return cls(
            url=f"{base_url}/v1/push/{row.address}",
            setup=vendor.setup,
            setup_url=vendor.page,
            confirmed_at=show(row.confirmed_at),
            hints=row.hints,
            last_hint_at=show(row.hinted_at),
            refusals=row.refusals,
            last_refusal_at=show(row.refused_at),
            subscribed_until=show(row.expires_at),
            problem=row.problem,
        )


class TurnPushOn(Struct, rename="camel", kw_only=True):
    """The connection's namespace, and the secret of the content service."""

    namespace_id: NamespaceId
    secret: Annotated[
        Annotated[str, Meta(min_length=16, max_length=200)] | None,
        Meta(
            description="Secret of the signatures: of SLACK the signing secret of the app, which is required; of "
            "DROPBOX the app secret, by default that of the namespace; of GITHUB by default a new one. Not for others. "
            "No response shows a sent secret.",
            extra_json_schema={"x-origins": {name: vendor.secret_origin for name, vendor in PUSH_VENDORS.items()}},
        ),
    ] = None


class PushQuery(Struct, rename="camel"):
    """The namespace of the connection."""

    namespace_id: NamespaceId


class PushData(Struct):
    """The push of a connection."""

    push: Push
    secret: Annotated[
        str | None,
        Meta(
            description="The secret to enter at the content service, shown only here: of GITHUB a new one, of NOTION "
            "the token that Notion sent to the address; null otherwise."
        ),
    ]


class PushAnswer(DataAnswer[PushData]):
    """Push is on."""


class PushDeletedAnswer(DataAnswer[ObjectReference]):
    """Push is off."""
