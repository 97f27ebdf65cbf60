"""One checker handles every user-supplied address and refuses ambiguous URLs."""

import msgspec
import pytest

from api.wire.namespaces import CreateNamespace
from retrieval.errors import ServiceError
from retrieval.namespaces import validation
from retrieval.network import service_urls
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
        service_urls.require_client_redirect(address)
    for area, key, code, _ in validation._ADDRESS_FIELDS:
        if key != "authorizationUrl" and address == "a.example":
            continue
        with pytest.raises(ServiceError) as refused:
            validation.check_configs(Settings(_env_file=None), {area: {key: address}})
        assert (refused.value.code, refused.value.field) == (code, f"{area}.{key}")
        assert len(address) < 3 or address not in refused.value.message


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
