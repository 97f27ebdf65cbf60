"""One checker handles every user-supplied address and refuses ambiguous URLs."""

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.wire.namespaces import CreateNamespace
from retrieval.errors import ServiceError
from retrieval.namespaces import validation
from retrieval.network import redirects, service_urls
from retrieval.settings import Settings
from retrieval.sources import APP_CONFIGS

BAD = [
    "https://[::1",
    "https://[zz::1]/",
    "https://",
    "https:///path",
    "https://:443/",
    "https://a:0/",
    "https://a:99999/",
    "https://a:b/",
    "https://user@a.example/",
    "https://user:secret@a.example/",
    "https://a.example@b.example/",
    "https://a.example#b",
    "https://a.example/#",
    'https://a.example/"onclick=',
    "https://a.example/'x",
    "https://a.example/<b>",
    "https://a.example/`x`",
    "https://a.example\\@b.example",
    "https://a.example/\r\nSet-Cookie: a",
    "https://a.example/\x00",
    "https://a.example/ b",
    " https://a.example",
    "https://a..example/",
    "https://-a.example/",
    "https://ä.example/",
    "https://a.example/\u202e",
    "https://a.example/" + "x" * 2050,
    "ftp://a.example/",
    "javascript:alert(1)",
    "//a.example/",
    "a.example",
    "",
]


@pytest.mark.parametrize("address", BAD)
def test_what_could_mislead_is_refused(address):
    with pytest.raises(ValueError, match=r"must|not a valid"):
        service_urls.require_url(address)
    with pytest.raises(ServiceError):
        redirects.check_redirect(address)
    for area, key, code, _ in validation._ADDRESS_FIELDS:
        if key != "authorizationUrl" and address == "a.example":
            continue
        with pytest.raises(ServiceError) as refused:
            validation.check_configs(Settings(_env_file=None), {area: {key: address}})
        assert (refused.value.code, refused.value.field) == (code, f"{area}.{key}")
        assert len(address) < 3 or address not in refused.value.message


@pytest.mark.parametrize(
    "address", ["https://a.example", "https://a.example:8443/b?c=d&e=%20", "https://[::1]:9/x", "https://127.0.0.1/"]
)
def test_a_whole_address_is_taken(address):
    service_urls.require_url(address)


@pytest.mark.parametrize(
    "address", ["minio:9000", "http://minio_1:9000", "index-abc.svc.pinecone.io", "https://s3.eu/a/"]
)
def test_a_service_may_be_named_shorter(address):
    service_urls.require_service(address)


@given(st.text(max_size=30), st.sampled_from(["", "https://", "https://a", "https://a.example/"]))
def test_whatever_is_sent_is_taken_or_refused(text, start):
    for check in (service_urls.require_url, service_urls.require_service):
        with suppress(ValueError):
            check(start + text)


def test_every_address_of_a_config_has_its_row():
    # New config fields with such a name need a row, too.
    fields = set()

    def walk(area, kind):
        for field in msgspec.structs.fields(kind):
            for inner in _structs(field.type):
                walk(area or field.encode_name, inner)
            if area and field.encode_name.lower().endswith(("url", "host", "endpoint", "address")):
                fields.add((area, field.encode_name))

    walk("", CreateNamespace)
    apps = {(app, "authorizationUrl") for app in APP_CONFIGS.values()}  # of any app that has one
    rows = {(area, key) for area, key, _, _ in validation._ADDRESS_FIELDS}
    assert apps <= rows
    assert fields - apps == rows - apps


def _structs(kind):
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return [kind]
    return [struct for part in getattr(kind, "__args__", ()) for struct in _structs(part)]
