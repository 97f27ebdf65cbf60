"""Organizations of Microsoft 365 on loopback: tokens of an app, all sites, and people with a OneDrive each."""
# learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow: the secret or the assertion, and the
# refusal `invalid_client`. learn.microsoft.com/graph/api/site-getallsites: Sites.Read.All only, with `isPersonalSite`.
# learn.microsoft.com/graph/api/user-list. App-only tokens have no `/me`.

from __future__ import annotations

import datetime as dt
import json
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from retrieval.setting_values import Endpoint, OAuthEndpoints
from tests.standins import account, onedrive
from tests.standins.account import Served
from tests.standins.onedrive import OneDriveAccount
from tests.standins.sharepoint import HOST, SharePointAccount

if TYPE_CHECKING:
    from collections.abc import Iterator

    from retrieval.settings import Settings
    from tests.standins.faults import Handler

TOKEN = "/{tenant}/oauth2/v2.0/token"
TENANT, CLIENT, SECRET = "72f988bf-86f1-41af-91ab-2d7cd011db47", "app-1", "canary-app-secret"
ADA, BEN = "ada@contoso.com", "ben@contoso.com"


@cache
def make_certificate() -> tuple[str, str]:
    """Return a private key and its certificate, as PEM."""
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "sync")])
    now = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    certificate = builder.not_valid_before(now).not_valid_after(now + dt.timedelta(days=1)).sign(key, hashes.SHA256())
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    return pem, certificate.public_bytes(serialization.Encoding.PEM).decode()


class _App(Served):
    """An app with application permissions. `secret`: the valid one, "" for none; `granted`: permissions."""

    url = f"https://{HOST}"

    def __init__(self) -> None:
        super().__init__()
        self.secret = SECRET
        self.has_certificate = False
        self.expires_in = 3599
        self.minted = 0
        self.granted = {"Sites.Read.All", "User.Read.All", "Files.Read.All"}

    @property
    def settings(self) -> Settings:
        endpoints = {self.connector: OAuthEndpoints(token=self.base + TOKEN.format(tenant="organizations"))}
        return super().settings.model_copy(update={"oauth_endpoints": endpoints})

    @property
    def config(self) -> dict[str, Any]:
        return {
            "url": self.url,
            "tenantId": TENANT,
            "credentials": {"clientId": CLIENT, "clientSecret": SECRET},
        }

    @property
    def certificate_config(self) -> dict[str, Any]:
        key, certificate = make_certificate()
        return {**self.config, "credentials": {"clientId": CLIENT, "privateKey": key, "publicCertificate": certificate}}

    def _oauth(self, handler: Handler, path: str, body: bytes) -> None:
        form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        if path != TOKEN.format(tenant=TENANT):  # learn.microsoft.com/entra/identity-platform/reference-error-codes
            handler.reply(400, {"error": "unauthorized_client", "error_description": "SECRET AADSTS700016"})
            return
        assert form["grant_type"] == "client_credentials"
        assert form["scope"] == "https://graph.microsoft.com/.default"
        if form["client_id"] != CLIENT or not self._is_known(form):
            error = {"error": "invalid_client", "error_description": "SECRET AADSTS7000222", "error_codes": [7000222]}
            handler.reply(401, error)
            return
        token = f"canary-access-{self.minted}"
        self.minted += 1
        self.good.add(token)
        handler.reply(200, {"token_type": "Bearer", "expires_in": self.expires_in, "access_token": token})

    def _is_known(self, form: dict[str, str]) -> bool:
        if "client_assertion" not in form:
            return bool(self.secret) and form.get("client_secret") == self.secret
        certificate = x509.load_pem_x509_certificate(make_certificate()[1].encode())
        header = jwt.get_unverified_header(form["client_assertion"])
        claims = jwt.decode(
            form["client_assertion"],
            certificate.public_key(),
            algorithms=["PS256", "RS256"],
            options={"verify_aud": False},
        )
        return self.has_certificate and claims["iss"] == claims["sub"] == CLIENT and "x5t#S256" in header


class SitesOrganization(_App, SharePointAccount):
    """All sites of an organization; with `selected`, only these open and no listing."""

    def __init__(self) -> None:
        super().__init__()
        self.selected: set[str] | None = None

    def _answer_site(self, handler: Handler, path: str, query: dict[str, str]) -> None:
        if path in {library.place for library in self.libraries.values() if library.path in self.closed}:
            handler.reply(403, onedrive.error_answer("accessDenied"))
        elif path.startswith("/me/"):
            handler.reply(400, onedrive.error_answer("BadRequest"))
        elif path == "/sites/getAllSites" and ("Sites.Read.All" not in self.granted):
            handler.reply(403, onedrive.error_answer("accessDenied"))
        elif path == "/sites/getAllSites":
            sites = [{**self._site(site), "isPersonalSite": site.startswith("personal/")} for site in self.sites]
            self._page(handler, path, sites, query)
        else:
            super()._answer_site(handler, path, query)

    def remove_site(self, site: str) -> None:
        self.sites[self.sites.index(site)] = f"deleted-{site}"
        for path in [path for path, library in self.libraries.items() if library.site == site]:
            del self.libraries[path]
        self.sites = [path for path in self.sites if not path.startswith("deleted-")]

    def _site(self, site: str) -> dict[str, Any]:
        name = site.replace("/", "-") or "root"
        return {**super()._site(site), "id": f"{HOST},collection-{name},web-{name}"}


class _PersonDrive(OneDriveAccount):
    def __init__(self, number: int) -> None:
        super().__init__()
        self.place = f"/users/person-{number}/drive"
        self.number = number

    def _signed(self, item_id: str) -> str:
        return super()._signed(f"{self.number}~{item_id}")

    def _download(self, handler: Handler, item_id: str, signature: str) -> None:
        super()._download(handler, item_id.rpartition("~")[2], signature)


class PeopleOrganization(_App):
    """People with a OneDrive each; `closed` ones have none now."""

    connector = "ONEDRIVE"
    url = "https://contoso-my.sharepoint.com"

    def __init__(self) -> None:
        super().__init__()
        self.people: dict[str, _PersonDrive] = {}
        self.hired = 0
        self.closed: set[str] = set()
        self.unauthorized = onedrive.error_answer("InvalidAuthenticationToken")
        self.complaints: list[str] = []
        self.hire(ADA)
        self.hire(BEN)

    @property
    def settings(self) -> Settings:
        endpoint = Endpoint(base_url=self.base + "/v1.0")
        return super().settings.model_copy(update={"endpoints": {self.connector: endpoint}})

    def is_open(self, path: str) -> bool:
        return path.startswith(onedrive.SIGNED)

    def hire(self, address: str) -> None:
        self.people[address] = _PersonDrive(self.hired)
        self.hired += 1

    def key(self, address: str) -> str:
        return self.people[address].place.split("/")[2]

    def put(self, address: str, path: str, text: str) -> str:
        return f"{self.key(address)}/{self.people[address].put(path, text)}"

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        for address, drive in self.people.items():
            drive.base, drive.page = self.base, self.page
            is_signed = path.startswith(f"{onedrive.SIGNED}{drive.number}~")
            if is_signed or path.startswith(f"/v1.0{drive.place}/"):
                if address in self.closed:
                    return handler.reply(404, onedrive.error_answer("ResourceNotFound"))
                return drive.answer(handler, method, path, query, body)
        return self._answer_people(handler, path.removeprefix("/v1.0"), query)

    def _answer_people(self, handler: Handler, path: str, query: dict[str, str]) -> None:
        people = {self.key(address): address for address in self.people}
        key = path.removeprefix("/users/").removesuffix("/drive")
        if "User.Read.All" not in self.granted:
            return handler.reply(403, onedrive.error_answer("Authorization_RequestDenied"))
        if path == "/users":
            assert query["$select"] == "id,userPrincipalName"
            entries = [{"id": number, "userPrincipalName": address} for number, address in people.items()]
            at = int(query.get("$skiptoken", 0))
            answer: dict[str, Any] = {"value": entries[at : at + self.page]}
            if at + self.page < len(entries):
                link = f"{self.base}/v1.0/users?$select=id,userPrincipalName&$skiptoken={at + self.page}"
                answer["@odata.nextLink"] = link
            return handler.reply(200, answer)
        if key not in people or (path.endswith("/drive") and people[key] in self.closed):
            return handler.reply(404, onedrive.error_answer("Request_ResourceNotFound"))
        if path.endswith("/drive"):
            return handler.reply(200, {"id": f"b!{key}", "driveType": "business"})
        return handler.reply(200, {"id": key, "userPrincipalName": people[key]})


@contextmanager
def serving(organization: type[Served]) -> Iterator[Any]:
    """Serve an organization; complaints of its drives fail the test."""
    served: Any = organization()
    with account.serving(served):
        yield served
    drives = [*getattr(served, "libraries", {}).values(), *getattr(served, "people", {}).values()]
    complaints = [*served.complaints, *(text for drive in drives for text in drive.complaints)]
    assert not complaints, json.dumps(complaints)
