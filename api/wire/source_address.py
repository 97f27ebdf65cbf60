"""Address and credentials of a connection in a request."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from connectors import registry
from retrieval.sources import CREDENTIAL_SOURCES

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
# Organizations of content services: connector, display name and example URL by form.
_ORGANIZATION_EXAMPLES = {
    "google-workspace": ("GOOGLE_DRIVE", "Google Drive of an organization", "https://drive.google.com/a/example.com"),
    "gmail-workspace": ("GMAIL", "Gmail of an organization", "https://mail.google.com/a/example.com"),
    "sharepoint-organization": ("SHAREPOINT", "SharePoint of an organization", "https://contoso.sharepoint.com"),
    "onedrive-organization": ("ONEDRIVE", "OneDrive of an organization", "https://contoso-my.sharepoint.com"),
    "box-enterprise": ("BOX", "Box of an enterprise", "https://example.app.box.com"),
    "dropbox-team": ("DROPBOX", "Dropbox of a team", "https://www.dropbox.com"),
}
_GOOGLE_FORMS = ["google-workspace", "gmail-workspace"]
_MICROSOFT_FORMS = ["sharepoint-organization", "onedrive-organization"]
_APP_FORMS = [*_MICROSOFT_FORMS, "box-enterprise", "dropbox-team"]
_SERVICE_INFOS = {name: registry.load_source_infos()[name] for name in CREDENTIAL_SOURCES if name != "OBJECTS"}
# Sources without an app, by scheme or connector; forms are generated from these.
_SOURCE_FORMS = {
    **{key: {"connector": "OBJECTS", "title": name, "example": url} for key, (name, url) in _STORAGE_EXAMPLES.items()},
    **{
        key: {"connector": connector, "title": name, "example": url}
        for key, (connector, name, url) in _ORGANIZATION_EXAMPLES.items()
    },
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
            [*_SERVER_SCHEMES, *_GOOGLE_FORMS, *_services_with("user")],
            "User of a server, or of an API token, often an e-mail. Of an organization: its administrator.",
        ),
    ] = None
    token: Annotated[
        Secret | None,
        _describe_for(
            ["dropbox-team", *_services_with("token")],
            "Access token, API token or application password of a service; of a Dropbox team the refresh token.",
        ),
    ] = None
    client_id: Annotated[
        Secret | None,
        _describe_for([*_APP_FORMS, *_services_with("clientId")], "Client id of an app, in place of a token."),
    ] = None
    client_secret: Annotated[
        Secret | None,
        _describe_for([*_APP_FORMS, *_services_with("clientSecret")], "Client secret of that app."),
    ] = None
    password: Annotated[
        Secret | None,
        _describe_for([*_SERVER_SCHEMES, *_services_with("password")], "Password of the user, or of the private key."),
    ] = None
    private_key: Annotated[
        Secret | None,
        _describe_for(
            ["sftp", *_GOOGLE_FORMS, *_MICROSOFT_FORMS],
            "Private key of the user, of the organization's service account or of the app's certificate, its whole"
            " file.",
            multiline=True,
        ),
    ] = None
    public_certificate: Annotated[
        Secret | None,
        _describe_for(
            _MICROSOFT_FORMS, "Certificate of the app with the private key, as PEM; no clientSecret.", multiline=True
        ),
    ] = None


class SourceAddress(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """Address and credentials of a connector without an app, such as OBJECTS, or of an organization."""

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
    full_listing_minutes: (
        Annotated[
            int,
            Meta(
                ge=15,
                le=43_200,
                description="Longest time between listings of everything for a service other than OBJECTS, which find"
                " deletions that its lists of changes do not name. By default a day.",
                examples=[240],
            ),
        ]
        | None
    ) = None
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
    query: (
        Annotated[
            Annotated[str, Meta(max_length=20_000)],
            _describe_for(["SQL"], "SELECT statement whose rows are documents.", multiline=True),
        ]
        | None
    ) = None
    key: Annotated[Short, _describe_for(["SQL"], "Column that identifies a row, such as id.")] | None = None
    changed: (
        Annotated[Short, _describe_for(["SQL"], "Column that changes with a row; null compares the whole row.")] | None
    ) = None
    title: Annotated[Short, _describe_for(["SQL"], "Column with the title of a row.")] | None = None
    text: (
        Annotated[Short, _describe_for(["SQL"], "Column with the text, as Markdown; null for all columns as lines.")]
        | None
    ) = None
    tenant_id: (
        Annotated[Short, _describe_for(_MICROSOFT_FORMS, "Microsoft Entra tenant of the app, by id or domain.")] | None
    ) = None
    enterprise_id: (
        Annotated[Short, _describe_for(["box-enterprise"], "Id of the enterprise, as the Admin Console shows it.")]
        | None
    ) = None
    sites: (
        Annotated[
            str,
            Meta(
                max_length=65_536,
                description="Addresses of the sites to read, one a line; without it all sites. With Sites.Selected the"
                " granted ones.",
                extra_json_schema={"x-sources": ["sharepoint-organization"], "x-multiline": True},
            ),
        ]
        | None
    ) = None
    people: (
        Annotated[
            bool, _describe_for(["google-workspace"], "Also read the drives of the organization's people.", flag=True)
        ]
        | None
    ) = None


NewConfig = Annotated[
    SourceAddress | None,
    Meta(
        description="Address and credentials of a connector without an app of the namespace, or of an organization. Its"
        " connection is ACTIVE at once, or after the authorization of a service's OAuth2 app."
    ),
]
