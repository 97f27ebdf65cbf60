"""Address and credentials that a connection takes in a request."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

Secret = Annotated[str, Meta(min_length=1, max_length=16_384)]


class SourceCredentials(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """Credentials of a storage or service, sealed at rest; responses never show them."""

    access_key_id: Annotated[Secret | None, Meta(description="The access key of S3.")] = None
    secret_access_key: Annotated[Secret | None, Meta(description="The secret of the access key.")] = None
    session_token: Annotated[Secret | None, Meta(description="The session token of temporary keys.")] = None
    user: Annotated[Secret | None, Meta(description="The user that an API token belongs to, often an e-mail.")] = None
    token: Annotated[Secret | None, Meta(description="The access token of a service such as GITHUB.")] = None


class SourceAddress(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """Address and credentials of a connector without an app, such as OBJECTS."""

    url: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=2048,
            description="The bucket, folder, or what to read of a service, such as a repository.",
            examples=["s3://handbooks/2026", "https://github.com/octo-org/handbook"],
        ),
    ]
    credentials: SourceCredentials | None = None
    endpoint: (
        Annotated[str, Meta(max_length=2048, description="The endpoint of S3-compatible storage; null for AWS.")] | None
    ) = None
    region: Annotated[str, Meta(max_length=100, description="The region of the bucket.")] | None = None


NewConfig = Annotated[
    SourceAddress | None,
    Meta(description="Address and credentials of a connector without an app, whose connection is ACTIVE at once."),
]
