"""Every spelling of every path, as bytes: no handler runs without a caller, no request fails."""

from __future__ import annotations

import json
import re
import zlib
from itertools import product

import pytest

from api.app import ROUTE_HANDLERS
from retrieval.accounts import api_keys
from retrieval.accounts.queries import organizations
from tests.api import raw
from tests.api.description import DOCUMENT
from tests.api.process import running

UNLISTED = ["/", "/docs", "/docs/assets/viewer.js", "/openapi.json", "/v1", "/v1/nothing", "/nothing"]
PATHS = [*sorted(DOCUMENT["paths"]), *UNLISTED]
METHODS = {"get", "post", "put", "patch", "delete", "head", "options", "trace"}
WITHOUT_A_KEY = {"/", "/openapi.json", "/health", "/ready", "/v1/push/{push_id:str}"}
WITHOUT_A_KEY |= {f"/.well-known/oauth-protected-resource{of}" for of in ("", "/mcp")}
# Served by Litestar's router of the description.
VIEWER = {"/docs", "/docs/assets/viewer.js"}
# Outside the contract; checks the key itself and has tests for the check.
ASKS_ITSELF = {"/mcp"}


def spellings(path: str) -> list[str]:
    """Yield request targets similar to `path`, accepted by some programs."""
    last = path.rpartition("/")[2]
    encoded = "".join(c if c == "/" else f"%{ord(c):02x}" for c in path)
    return [
        path,
        "/" + path,
        path.replace("/", "//"),
        path + "/",
        "/%2F" + path[1:],
        "%2F" + path[1:],
        path.replace("/", "%2F"),
        path + "%2F",
        encoded,
        "/%252F" + path[1:],
        path.upper(),
        "/." + path,
        "/x/.." + path,
        "/%2e%2e" + path,
        path + "/..",
        path + "/../" + last,
        path + ";x=1",
        path + "?a=%ff&a=%00",
        path + "#fragment",
        path + "%00",
        path + "%c0%af",
        path + "%",
        path + "\xe9",
        path.replace("/", "\\"),
        "http://localhost" + path,
        "http://other.example" + path,
        "https://user:secret@other.example:1" + path,
        "http://[::1" + path,
        "//localhost" + path,
        path[1:] or ".",
        "*",
        path + "/" + "a/" * 400,
        path + "a" * 6000,
    ]


SEVERAL = {*UNLISTED, "/health", "/ready", "/metrics", "/v1/keys", "/v1/documents", "/v1/groups/{group_id}"}
SEVERAL |= {"/v1/ingest/file", "/v1/search", "/v1/oauth/callback/{connector}", "/v1/files/{document_id}/{kind}"}
"""Paths of every kind, each in all spellings; what the router makes of a spelling depends on none of the others."""


def spellings_of(path: str, filled: str) -> list[str]:
    # All spellings for a path of each kind, every eighth for other paths.
    return spellings(filled) if path in SEVERAL else spellings(filled)[::8]


@pytest.fixture(scope="module")
def process(api_database, ring, tmp_path_factory):
    """Run `python -m api`; yield the address and the log."""
    with running(tmp_path_factory.mktemp("paths"), api_database, ring) as (address, _, log):
        yield address, log


@pytest.fixture(scope="module")
def api_key(api_db, ring):
    owner = organizations.create_organization(api_db, "paths", requests_per_minute=1_000_000)
    return api_keys.create_key(api_db, ring, owner.id, "paths").api_key


def source_of(path: str) -> str:
    # A loopback address per path gives each path a rate limit of a separate client.
    number = zlib.crc32(path.encode())
    return f"127.{1 + number % 200}.{number // 200 % 250}.{1 + number // 50_000 % 250}"


def methods_of(path: str) -> list[str]:
    described = METHODS & set(DOCUMENT["paths"].get(path, {}))
    return sorted(method.upper() for method in described | {"get"})


def is_marked(answer: raw.Answer) -> bool:
    return (
        "no-store" in answer.headers.get("cache-control", "")
        and answer.headers.get("x-content-type-options") == "nosniff"
        and re.fullmatch("[A-Za-z0-9._:-]{1,128}", answer.headers.get("x-request-id", "")) is not None
    )


@pytest.mark.parametrize("path", PATHS)
def test_no_spelling_passes_the_key_check_or_fails(path, process, api_key):
    address, log = process
    filled = re.sub(r"\{[^}]+\}", "x1", path)
    unready = {503} if path == "/ready" else set()  # no dispatcher runs here
    is_open = path in WITHOUT_A_KEY | VIEWER or path.startswith(("/v1/oauth/", "/v1/files/"))
    targets = product(spellings_of(path, filled), methods_of(path), ((), (f"Authorization: Bearer {api_key}",)))
    with raw.Session(address, source_of(path)) as session:
        for target, method, header in targets:
            description = f"{method} {target[:200]!r} {'with' if header else 'without'} a key"
            answer = session.ask(raw.request(method, target, *header))
            assert 200 <= answer.status < 500 or answer.status in unready, (
                f"{description}: {answer.status} {answer.body[:300]!r}"
            )
            if not header and not is_open:
                assert answer.status in {400, 401, 404}, f"{description}: {answer.status}"
            if header:
                assert answer.status != 401, description
            assert is_marked(answer), f"{description}: {answer.status} {answer.headers}"
            if answer.status >= 400 and answer.status not in unready:
                assert json.loads(answer.body)["error"], description
    assert "Traceback" not in log.read_text(), log.read_text()[-3000:]


@pytest.mark.parametrize("spelling", ["//v1/keys", "/%2Fv1/keys", "/v1/keys/", "/v1//keys", "/v1%2Fkeys"])
def test_what_the_router_takes_for_a_path_is_checked_as_that_path(spelling, process, api_key):
    address, _ = process
    refused = raw.ask(address, raw.request("GET", spelling))
    assert (refused.status, json.loads(refused.body)["error"]["code"]) == (401, "UNAUTHORIZED")
    answer = raw.ask(address, raw.request("GET", spelling, f"Authorization: Bearer {api_key}"))
    assert (answer.status, list(json.loads(answer.body)["data"])) == (200, ["keys"])


def test_a_handler_of_the_contract_needs_a_caller_by_its_route():
    # The exceptions are listed here; a new handler needs a caller by default.
    without = {path for handler in ROUTE_HANDLERS if "operation" not in handler.opt for path in handler.paths}
    unguarded = {path for path in without if not path.startswith(("/v1/oauth/", "/v1/files/"))}
    assert unguarded == WITHOUT_A_KEY | ASKS_ITSELF
