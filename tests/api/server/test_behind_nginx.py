"""nginx with the documented proxy configuration in front of the API."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from api.rates import ADDRESS_REQUESTS_PER_MINUTE
from local import roles
from local.environment import build_ui
from retrieval.accounts import api_keys
from retrieval.accounts.queries import organizations
from retrieval.settings import Settings
from tests.api.process import PROJECT, free_port, running
from tests.api.server.test_away import until
from tests.api.support import Organization, client_of, wait_for_fresh_minute

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
AROUND = """
daemon off;
pid {home}/nginx.pid;
error_log {home}/error.log;
{user}
events {{ worker_connections 8192; }}
http {{
    client_body_temp_path {home}/body;
    proxy_temp_path {home}/proxy;
    fastcgi_temp_path {home}/fastcgi;
    uwsgi_temp_path {home}/uwsgi;
    scgi_temp_path {home}/scgi;
{block}
}}
"""

pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed; continuous integration installs it")


def block() -> str:
    """Return the documented server block, with the locations below a path."""
    documentation = (PROJECT / "docs" / "operations" / "proxy.md").read_text()
    server, below_a_path = re.findall(r"```nginx\n(.*?)```", documentation, re.DOTALL)
    return str(server).rstrip().removesuffix("}") + str(below_a_path) + "}\n"


def certificate(home: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "retrieval.example.com")])
    issued_at = datetime.now(UTC)
    signed = x509.CertificateBuilder(name, name, key.public_key(), 1, issued_at, issued_at + timedelta(days=1)).sign(
        key, hashes.SHA256()
    )
    (home / "retrieval.crt").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    written = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    (home / "retrieval.key").write_bytes(written)


@pytest.fixture
def behind(api_database, ring, tmp_path):
    """Yield the address of nginx in front of a trusting API, and the log folder."""
    certificate(tmp_path)
    port, app_port = free_port(), free_port()
    values = {
        "RETRIEVAL_TRUSTED_PROXIES": "127.0.0.1",
        "RETRIEVAL_PUBLIC_URL": f"https://127.0.0.1:{port}/retrieval",
        "RETRIEVAL_OIDC_ISSUER": "https://login.example.com",
        "RETRIEVAL_OIDC_AUDIENCE": "retrieval",
    }
    with running(tmp_path, api_database, ring, **values) as (address, api, _):
        config = block()
        for theirs, replacement in (
            ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
            ("server 127.0.0.1:8000", f"server {address.removeprefix('http://')}"),
            ("127.0.0.1:8501", f"127.0.0.1:{app_port}"),
            ("/etc/nginx/", f"{tmp_path}/"),
            ("/var/log/nginx/", f"{tmp_path}/"),
        ):
            assert theirs in config
            config = config.replace(theirs, replacement)
        user = "user root;" if Path(tmp_path).owner() == "root" else ""
        conf = tmp_path / "nginx.conf"
        conf.write_text(AROUND.format(home=tmp_path, block=config, user=user))
        with subprocess.Popen([str(NGINX), "-p", str(tmp_path), "-c", str(conf)], stderr=subprocess.PIPE) as nginx:
            try:
                yield _ready(f"https://127.0.0.1:{port}", nginx), tmp_path, api.pid
            finally:
                nginx.terminate()
                nginx.wait(10)


def _ready(base: str, nginx: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + 20
    while True:
        assert nginx.poll() is None, nginx.stderr and nginx.stderr.read()
        assert time.monotonic() < deadline
        try:
            if httpx.get(f"{base}/health", verify=False, trust_env=False).status_code == 200:
                return base
        except httpx.TransportError:
            time.sleep(0.1)


def client_from(base: str, source: str) -> httpx.Client:
    return httpx.Client(base_url=base, transport=httpx.HTTPTransport(verify=False, local_address=source), timeout=30)


def test_the_documented_proxy_tells_clients_apart_and_passes_files(behind, api_db, ring):
    base, home, _ = behind
    owner = organizations.create_organization(api_db, "proxied", requests_per_minute=1_000_000)
    key = api_keys.create_key(api_db, ring, owner.id, "proxied")
    with client_of(base, key.api_key) as client:
        org = Organization(owner.id, client, key.api_key, api_db, ring, base)
        space = org.namespace()
        content = b"The harbour seal dives. " * 400_000
        upload = client.post("/v1/ingest/file", data={"namespaceId": space}, files={"file": ("a.txt", content)})
        assert upload.status_code == 200, upload.text
        assert client.get("/v1/files/doc_x/raw?expires=1&signature=secret-signature").status_code == 404
    wait_for_fresh_minute()
    with client_from(base, "127.0.4.1") as first_client, client_from(base, "127.0.4.2") as second_client:
        wrong = {"Authorization": "Bearer rtr_wrong"}
        assert {
            first_client.get("/v1/namespaces", headers=wrong).status_code for _ in range(ADDRESS_REQUESTS_PER_MINUTE)
        } == {401}
        assert first_client.get("/v1/namespaces", headers=wrong).status_code == 429
        assert first_client.get("/v1/namespaces", headers={**wrong, "X-Forwarded-For": "127.0.4.9"}).status_code == 429
        assert second_client.get("/v1/namespaces", headers=wrong).status_code == 401
    log = (home / "retrieval.log").read_text()
    assert "/v1/files/doc_x/raw" in log
    assert "signature" not in log


def test_links_metadata_and_pages_follow_a_path(behind, api_db, ring):
    base, _, _ = behind
    owner = organizations.create_organization(api_db, "below a path", requests_per_minute=1_000_000)
    key = api_keys.create_key(api_db, ring, owner.id, "below a path")
    with client_of(f"{base}/retrieval", key.api_key) as client:
        description = client.get("/openapi.json").json()
        assert description["servers"] == [{"url": f"{base}/retrieval"}]
        for page in ("/", "/docs", "/docs/"):
            address = client.get(page).url
            for asset in re.findall(r'(?:href|src)="([^"]+(?:css|js|json))"', client.get(page).text):
                assert client.get(address.join(asset)).status_code == 200, (page, asset)
        refused = client.post("/mcp", json={}, headers={"Authorization": "Bearer wrong"})
        (metadata,) = re.findall(r'resource_metadata="([^"]+)"', refused.headers["WWW-Authenticate"])
        places = (metadata, f"{base}/.well-known/oauth-protected-resource/retrieval/mcp")
        assert {client.get(url).json()["resource"] for url in places} == {f"{base}/retrieval/mcp"}
        space = Organization(owner.id, client, key.api_key, api_db, ring, base).namespace()
        upload = client.post(
            "/v1/ingest/file", data={"namespaceId": space}, files={"file": ("a.txt", b"A seal dives.")}
        )
        assert upload.status_code == 200, upload.text
        user = {"schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"], "userName": "ada@example.com"}
        created = client.post(f"/v1/namespaces/{space}/scim/v2/Users", json=user)
        location = created.json()["meta"]["location"]
        assert location.startswith(f"{base}/retrieval/v1/namespaces/{space}/scim/v2/Users/"), created.text


@pytest.mark.slow
def test_the_app_and_its_deep_links_answer_below_their_path(behind):
    base, home, _ = behind
    port = re.search(r"proxy_pass http://127.0.0.1:(\d+);", (home / "nginx.conf").read_text())[1]
    settings = Settings(home=home, ui_port=int(port), ui_public_url=f"{base}/ops")
    started = subprocess.Popen(roles.list_commands(settings)["ui"], cwd=PROJECT, env=build_ui(settings, base))
    try:
        with httpx.Client(base_url=base, verify=False, trust_env=False, timeout=30) as client:
            until(lambda: client.get("/ops/_stcore/health").status_code == 200, seconds=120)
            page = client.get("/ops/documents", params={"namespace": "ns_x"})
            script = re.search(r'src="(\./static/[^"]+)"', page.text)[1]
            assert client.get(page.url.join(script)).headers["content-type"].endswith("javascript")
            leads = client.get("/ops/documents?namespace=ns_x", headers={"Accept": "text/html"})
            assert leads.headers["location"] == "/ops/sign-in?next=%2Fdocuments%3Fnamespace%3Dns_x"
            assert 'action="/ops/sign-in"' in client.get(leads.headers["location"]).text
            upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
            upgrade |= {"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Origin": base}
            with client.stream("GET", "/ops/_stcore/stream", headers=upgrade) as stream:
                assert stream.status_code == 101
    finally:
        started.terminate()
        started.wait(20)
