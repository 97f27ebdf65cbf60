"""Description of a content service; its contract, flows, deployments and forms are made from it.

`connectors/sources/<name>/__init__.py` has it as `INFO`. The API reads it when it starts, so it imports no SDK.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, get_args

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from retrieval.namespaces.namespaces import SECRET_FIELDS

Text = Annotated[str, Meta(min_length=1, max_length=2048)]
Secret = Annotated[str, Meta(min_length=1, max_length=8192)]
HttpsUrl = Annotated[str, Meta(pattern=r"^https://\S+$", max_length=2048)]

ItemId = Annotated[
    str,
    Meta(min_length=1, max_length=500, description="The service's id of a file or folder, as browsing says it."),
]
ItemPath = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=2000,
        description="From the top of the account, names with / between them; * stands for any part of a name, ** for"
        " any number of folders.",
        examples=["plans/2026", "clients/*/invoices", "**/drafts"],
    ),
]
MimeType = Annotated[
    str,
    Meta(
        min_length=3,
        max_length=200,
        description="As browsing says it; image/* for all of a kind.",
        examples=["image/*"],
    ),
]


class ConnectorApp(Struct, rename="camel", omit_defaults=True):
    """The app of {services} that users authorize."""  # `services`: the titles of those that have such an app

    client_id: Text
    client_secret: Secret


class Part(Struct, rename="camel", omit_defaults=True):
    """A file or folder with all below it, by its id or its path, or a type of files: one of them."""

    id: ItemId | UnsetType = UNSET
    path: ItemPath | UnsetType = UNSET
    mime_type: MimeType | UnsetType = UNSET


class Choice(Struct, frozen=True):
    """Choice of parts of an account: `part` describes an entry of `include`, whose description is `about`, `without`
    one of `exclude`, `scope` all of it."""

    part: type[Part] = Part
    without: type[Part] = Part
    about: str = "Which files and folders to read, by id, path or type; all of them without it."
    scope: str = "All that the connection gives access to, or what `include` and `exclude` leave of it."


class ConnectorInfo(Struct, frozen=True, kw_only=True):
    """A content service in the words that people read. ValueError where a secret of the app would not be sealed."""

    title: str
    """Its name for people; its page in docs/connectors/ bears it."""
    account: str
    """What is ingested, with its article."""
    documents: str
    """What its documents are."""
    vendor: str = ""
    """Where apps are registered, if that is not `title`."""
    app: type[ConnectorApp] = ConnectorApp
    """What the namespace's config of the app holds: a subclass with more fields, optional ones UNSET."""
    fields: Mapping[str, str] = {}
    """What those fields mean, by their names in the contract; `apiKey` is known."""
    choice: Choice = Choice()
    example: str = ""
    """URL of a connection without an app."""
    credentials: frozenset[str] = frozenset()
    """Names of the credentials that such a connection may need."""
    shares: bool = False
    """Whether such a connection can read access lists."""
    localhost: bool = False
    """Whether apps may name `http://localhost` as redirect URI but not `http://127.0.0.1`."""

    def __post_init__(self) -> None:
        for field in structs.fields(self.app):
            if (Secret in (field.type, *get_args(field.type))) != (field.encode_name in SECRET_FIELDS):
                raise ValueError(
                    f"{self.title}: {field.encode_name} must be a Secret and stand in SECRET_FIELDS of "
                    "retrieval/namespaces/namespaces.py, or neither: only the names there are sealed at rest."
                )
