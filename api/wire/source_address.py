"""Address and credentials of a connection in a request."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from connectors import registry
from retrieval.sources import DESCRIBED_SOURCES

Secret = Annotated[str, Meta(min_length=1, max_length=16_384)]
Short = Annotated[str, Meta(max_length=2048)]

_BUCKET_SCHEMES = ["s3", "gs"]
_SERVER_SCHEMES = ["sftp", "webdav+https", "smb", "ftps", "imaps"]
# Display name and example URL by scheme.
_STORAGE_EXAMPLES = {
    "s3": ("S3, R2, MinIO and others", "s3://handbooks/2026"),
    "gs": ("Google Cloud Storage", "gs://handbooks/2026"),
    "azure": ("Azure Blob Storage", "azure://account/container/2026"),
    "webdav+https": ("WebDAV, such as Nextcloud", "webdav+https://cloud.example.com/remote.php/dav/files/ada/2026"),
    "sftp": ("SFTP", "sftp://files.example.com/srv/handbooks"),
    "smb": ("Windows share, by SMB", "smb://files.example.com/share/handbooks"),
    "ftps": ("FTP with TLS", "ftps://files.example.com/handbooks"),
    "imaps": ("Mailbox, by IMAP", "imaps://mail.example.com/INBOX"),
    "file": ("A folder of the server", "file:///srv/handbooks"),
}
_SERVICE_INFOS = {name: registry.load_source_infos()[name] for name in (*DESCRIBED_SOURCES, "CUSTOM")}
# Sources without an app, by scheme or connector; forms are generated from these.
_SOURCE_FORMS = {
    **{key: {"connector": "OBJECTS", "title": name, "example": url} for key, (name, url) in _STORAGE_EXAMPLES.items()},
    **{key: {"connector": key, "title": info.title, "example": info.example} for key, info in _SERVICE_INFOS.items()},
}


def _services_with(credential: str) -> list[str]:
    """Return the services with a credential."""
    return [name for name, info in _SERVICE_INFOS.items() if credential in info.credentials]


def _describe_for(names: list[str], description: str, **extra: bool) -> Meta:
    """Describe a field of these sources only."""
    return Meta(
        description=description,
        extra_json_schema={"x-sources": names} | {f"x-{name}": value for name, value in extra.items()},
    )


class SourceCredentials(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """Credentials of a storage or service, encrypted; responses never show credentials."""

    access_key_id: Annotated[
        Secret | None, _describe_for(_BUCKET_SCHEMES, "Access key of S3, or HMAC key of Google.")
    ] = None
    secret_access_key: Annotated[Secret | None, _describe_for(_BUCKET_SCHEMES, "Secret of the access key.")] = None
    session_token: Annotated[Secret | None, _describe_for(["s3"], "Session token of temporary keys.")] = None
    account_key: Annotated[
        Secret | None, _describe_for(["azure"], "Key of the storage account, or a SAS token instead.")
    ] = None
    sas_token: Annotated[Secret | None, _describe_for(["azure"], "SAS token that may list and read the container.")] = (
        None
    )
    user: Annotated[
        Secret | None,
        _describe_for(
            [*_SERVER_SCHEMES, *_services_with("user")], "User of a server, or of an API token, often an e-mail."
        ),
    ] = None
    token: Annotated[
        Secret | None,
        _describe_for(_services_with("token"), "Access token, API token or application password of a service."),
    ] = None
    password: Annotated[
        Secret | None, _describe_for(_SERVER_SCHEMES, "Password of the user, or of the private key.")
    ] = None
    private_key: Annotated[
        Secret | None, _describe_for(["sftp"], "Private key of the user, its whole file.", multiline=True)
    ] = None


class SourceAddress(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """Address and credentials of a connector without an app, such as OBJECTS."""

    url: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=2048,
            extra_json_schema={"x-sources": _SOURCE_FORMS},
            description="The bucket, folder, or what to read of a service, such as a repository.",
            examples=[source["example"] for source in _SOURCE_FORMS.values()],
        ),
    ]
    credentials: SourceCredentials | None = None
    endpoint: (
        Annotated[
            Short, _describe_for(["s3", "azure"], "Endpoint of S3-compatible storage; null for the vendor's own.")
        ]
        | None
    ) = None
    region: Annotated[Short, _describe_for(["s3"], "Region of the bucket, such as us-east-1.")] | None = None
    host_key: (
        Annotated[
            Short, _describe_for(["sftp"], "Key of the server as `ssh-keygen -lf` shows it, SHA256:…, or several.")
        ]
        | None
    ) = None


NewConfig = Annotated[
    SourceAddress | None,
    Meta(description="Address and credentials of a connector without an app, whose connection is ACTIVE at once."),
]
