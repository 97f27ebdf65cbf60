"""Description of a content service, source of its contract, flows, deployments and forms."""

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
    """Wire types of `include` and `exclude` entries, with descriptions."""

    # Entries of `include`; `without` are entries of `exclude`.
    part: type[Part] = Part
    without: type[Part] = Part
    about: str = "Which files and folders to read, by id, path or type; all of them without it."
    # Description of the whole selection.
    scope: str = "All that the connection gives access to, or what `include` and `exclude` leave of it."


class ConnectorInfo(Struct, frozen=True, kw_only=True):
    """Content service in the words of users. ValueError for an unsealed secret of the app."""

    # `connectors/sources/<name>/__init__.py` exports it as `INFO`; the API imports it at startup, so no SDK is imported
    # there.
    # Also in the title of the page in docs/connectors/.
    title: str
    # Ingested account or folder, with article.
    account: str
    documents: str
    # Site for app registration, if different from `title`.
    vendor: str = ""
    # Config of the app; subclasses add fields, optional ones UNSET.
    app: type[ConnectorApp] = ConnectorApp
    # Descriptions of additional fields by wire name.
    fields: Mapping[str, str] = {}
    choice: Choice = Choice()
    # URL of a connection without app.
    example: str = ""
    # Possible credentials of such a connection.
    credentials: frozenset[str] = frozenset()
    # Such a connection can read access lists.
    shares: bool = False
    # Apps accept `http://localhost` as redirect URI, but not `http://127.0.0.1`.
    localhost: bool = False

    def __post_init__(self) -> None:
        for field in structs.fields(self.app):
            if (Secret in (field.type, *get_args(field.type))) != (field.encode_name in SECRET_FIELDS):
                raise ValueError(
                    f"{self.title}: {field.encode_name} must be a Secret and stand in SECRET_FIELDS of "
                    "retrieval/namespaces/namespaces.py, or neither: only the names there are sealed at rest."
                )
