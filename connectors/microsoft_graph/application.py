"""Organizations of Microsoft 365 by the application permissions of an app, and their drives."""

# learn.microsoft.com/graph/auth-v2-service: the client credentials flow with a secret or a certificate.

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from connectors.http.no_authorizer import NoAuthorizer
from connectors.http.responses import Cursors
from connectors.microsoft_graph import auth, changes, items, sharing
from connectors.microsoft_graph.client import Graph
from connectors.microsoft_graph.items import Drive
from connectors.organization import CredentialsEnded, MemberTokens, PartUnavailable
from retrieval.errors import AppRefused, Fatal, Retryable
from retrieval.ports import FolderPage, Page, RawContent, SourceAccess, SourceItem, Tokens, TokenSource
from retrieval.settings import Settings

_ADDRESS: Final = re.compile(r"https://[a-z0-9-]+\.sharepoint(?:-mil)?\.(?:com|us|cn)/?", re.IGNORECASE)
_TENANT: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z.-]{0,252}")
# Hosts of Graph whose tokens have a scope of their own.
_NATIONAL_CLOUDS: Final = (".microsoft.us", ".chinacloudapi.cn")

CREDENTIALS_MESSAGE: Final = (
    "Microsoft does not accept the app {client} in the tenant {tenant}, or its secret or certificate expired or was"
    " deleted: create a client secret or upload a certificate under Certificates & secrets of the app registration, and"
    " send the connection's config with it."
)


def read_config(config: Mapping[str, Any], fields: frozenset[str] = frozenset()) -> Tokens:
    """Check the `config` of a connection; `fields` are further ones. ValueError with field and reason."""
    url = str(config.get("url") or "")
    if not _ADDRESS.fullmatch(url):
        raise ValueError("url", "must be the address of the organization's SharePoint, https://contoso.sharepoint.com")
    if unknown := config.keys() - {"url", "tenantId", "credentials", *fields}:
        raise ValueError(min(unknown), "is not for this connector")
    if not _TENANT.fullmatch(str(config.get("tenantId") or "")):
        raise ValueError("tenantId", "must be the id or domain of the Microsoft Entra tenant")
    credentials = config.get("credentials") or {}
    if credentials.keys() == {"clientId", "privateKey", "publicCertificate"}:
        _check_certificate(credentials["privateKey"], credentials["publicCertificate"])
    elif credentials.keys() != {"clientId", "clientSecret"}:
        words = "must hold clientId and clientSecret, or clientId, privateKey and publicCertificate"
        raise ValueError("credentials", words)
    return Tokens(json.dumps(dict(config)), account=url.rstrip("/").lower())


def _check_certificate(private_key: str, certificate: str) -> None:
    try:
        key = serialization.load_pem_private_key(private_key.encode(), None).public_key()
    except (ValueError, TypeError):
        raise ValueError("credentials.privateKey", "must be a private key as PEM, without a password") from None
    try:
        certified = x509.load_pem_x509_certificate(certificate.encode()).public_key()
    except ValueError:
        raise ValueError("credentials.publicCertificate", "must be a certificate as PEM") from None
    if certified != key:
        raise ValueError("credentials.publicCertificate", "must be the certificate of the private key")


@dataclass(slots=True)
class Application:
    """Requests of an app with application permissions, and the opened drives by id of the part."""

    graph: Graph
    tokens: MemberTokens = field(repr=False)
    drives: dict[str, GraphDrive] = field(default_factory=dict, repr=False)

    @classmethod
    def open(
        cls, connector: str, title: str, settings: Settings, config: Mapping[str, Any], tokens: TokenSource
    ) -> Application:
        graph = Graph(connector, title, settings)
        host = urlsplit(graph.base).hostname or ""
        audience = host if host.endswith(_NATIONAL_CLOUDS) else "graph.microsoft.com"
        credentials, tenant = config["credentials"], config["tenantId"]
        app = {"clientId": credentials["clientId"], "clientSecret": "", "tenantId": tenant}
        flow = auth.make_oauth(connector, title, app, settings, scope=".default", more="", tenant=tenant)
        credential = credentials.get("clientSecret") or {
            "private_key": credentials["privateKey"],
            "public_certificate": credentials["publicCertificate"],
        }

        def request() -> Tokens:
            try:
                msal_app = auth.make_msal_app(flow, credential)
                answer = msal_app.acquire_token_for_client([f"https://{audience}/.default"])
                lifetime = timedelta(seconds=int(answer.get("expires_in", 3600)))
                return Tokens(answer["access_token"], expires_at=datetime.now(UTC) + lifetime)
            except AppRefused as error:
                if error.__cause__ is not None:  # a blocked address
                    raise
                raise CredentialsEnded(CREDENTIALS_MESSAGE.format(client=flow.client_id, tenant=tenant)) from None
            except (LookupError, TypeError, ValueError, AttributeError):
                raise Retryable("Microsoft answered without an access token.") from None

        return cls(graph, MemberTokens(tokens, request))

    def drive(self, key: str, drive: Drive) -> GraphDrive:
        """Return the connector of a drive."""
        return self.drives.setdefault(key, GraphDrive(self.graph, drive))

    def read(self, path: str) -> Mapping[str, Any] | None:
        """Return an object; None if it is gone. Raises PartUnavailable for a refusal."""
        answer = self.graph.get(self.tokens, path)
        if answer.status == 200:
            return answer.body
        if answer.status in {404, 410}:
            return None
        raise PartUnavailable

    def list_all(self, path: str, refused: str) -> Iterator[Mapping[str, Any]]:
        """Yield the entries of all pages of a collection. Fatal with `refused` for a refusal."""
        cursors = Cursors(f"{self.graph.title}'s listing")
        while path:
            answer = self.graph.get(self.tokens, path)
            if answer.status != 200:
                raise Fatal(refused)
            entries = answer.body.get("value")
            if not isinstance(entries, list):
                raise Retryable(f"{self.graph.title}'s listing broke off: its answer holds no entries.")
            yield from (entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("id"), str))
            link = answer.body.get("@odata.nextLink")
            path = self.graph.path(link) if link else ""
            if path:
                cursors.follow(path, brought=bool(entries))


@dataclass(frozen=True, slots=True)
class GraphDrive:
    """`Connector` of a drive of an organization."""

    graph: Graph
    drive: Drive
    authorizer: NoAuthorizer = field(default_factory=NoAuthorizer)
    homes: dict[str, tuple[Drive, str]] = field(default_factory=dict, repr=False)

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        try:
            yield from changes.list_changes(self.graph, tokens, self.drive, cursor, homes=self.homes)
        except changes.Unlisted as error:
            raise PartUnavailable from error

    def browse(self, tokens: TokenSource, parent: str | None, cursor: str | None) -> FolderPage:
        return items.list_folder(self.graph, tokens, self.drive, parent, cursor)

    def access(self, tokens: TokenSource, external_id: str) -> SourceAccess:
        home = self.homes.get(external_id) or changes.find_home(self.graph, tokens, self.drive, external_id)
        return sharing.read_access(self.graph, tokens, *home)

    def version(self, tokens: TokenSource, external_id: str) -> str:
        return changes.current_version(self.graph, tokens, self.drive, external_id)

    def fetch(self, tokens: TokenSource, item: SourceItem, to: Path) -> RawContent:
        return self.graph.call(tokens, lambda session: changes.fetch_item(session, self.drive, item.external_id, to))

    def is_deleted(self, tokens: TokenSource, external_id: str) -> bool:
        # A closed drive refuses its items too.
        if not changes.is_deleted(self.graph, tokens, self.drive, external_id):
            return False
        return self.graph.get(tokens, self.drive.place).status == 200
