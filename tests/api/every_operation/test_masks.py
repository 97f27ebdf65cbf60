"""Masked secrets never follow a changed address, for every secret and address of every configuration type."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from api.wire.namespaces import CreateNamespace
from connectors import registry
from retrieval import settings
from retrieval.connections import connections
from retrieval.errors import Fatal, ServiceError
from retrieval.namespaces import destinations, namespaces, validation
from retrieval.namespaces.namespaces import SECRET_FIELDS
from retrieval.security.secrets import MASK_PREFIX, mask_secret
from retrieval.setting_values import Endpoint, OAuthEndpoints
from retrieval.sources import APP_CONFIGS
from tests.api.support import EMBEDDED, assert_error, client_of, serve

# Two values of each field with restricted text.
VALUES = {
    "model": {
        "OPENAI": ("text-embedding-3-small", "text-embedding-3-large"),
        "COHERE": ("embed-v4.0", "embed-english-v3.0"),
        "JINA": ("jina-embeddings-v3", "jina-embeddings-v4"),
        "ENDPOINT": ("reranker-1", "reranker-2"),
    },
    "api": ("FIRECRAWL", "CRAWL4AI"),
    "authorizationUrl": ("https://one.example/authorize", "https://two.example/authorize"),
    "dimensions": (256, 512),
    "tenantId": ("6e2f7d3a-0000-4000-8000-000000000001", "6e2f7d3a-0000-4000-8000-000000000002"),
}


@dataclass(frozen=True)
class Variant:
    """Shape of a config, such as `vectorStorageConfig` with `PINECONE`."""

    area: str
    tag: tuple[str, str] | None
    # Dotted paths of all fields except the tag.
    fields: tuple[str, ...]

    def value(self, path: str, number: int = 0) -> Any:
        name = path.rpartition(".")[2]
        if name in SECRET_FIELDS:
            return f"canary-{self.area}-{path}-000{number + 1}"
        values: Any = VALUES.get(name, (f"{name}-1.example", f"{name}-2.example"))
        return (values if isinstance(values, tuple) else values[self.tag[1]])[number]

    def config(self, **changed: str) -> dict[str, Any]:
        """Return the config with all fields; `changed` by path, `.` written as `__`."""
        settings: dict[str, Any] = dict([self.tag] if self.tag else [])
        for path in self.fields:
            *parents, name = path.split(".")
            section = settings
            for parent in parents:
                section = section.setdefault(parent, {})
            section[name] = changed.get(path.replace(".", "__"), self.value(path))
        return settings

    @property
    def secrets(self) -> list[str]:
        return [path for path in self.fields if path.rpartition(".")[2] in SECRET_FIELDS]

    @property
    def other_fields(self) -> list[str]:
        return [path for path in self.fields if path.rpartition(".")[2] not in SECRET_FIELDS]

    def mask_of(self, path: str) -> str:
        return mask_secret(self.value(path))

    def masked(self, **changed: str) -> dict[str, Any]:
        return self.config(**{path.replace(".", "__"): self.mask_of(path) for path in self.secrets} | changed)


def unwrap(kind: Any) -> Any:
    """Return the type without description and limits."""
    return kind.type if isinstance(kind, inspect.Metadata) else kind


def paths_of(kind: Any, prefix: str = "") -> list[str]:
    """Return the dotted paths of all text fields of a struct."""
    paths = []
    for field in kind.fields:
        inner = unwrap(field.type)
        if isinstance(inner, inspect.UnionType):
            inner = unwrap(next(member for member in inner.types if not isinstance(member, inspect.NoneType)))
        path = f"{prefix}{field.encode_name}"
        paths += paths_of(inner, f"{path}.") if isinstance(inner, inspect.StructType) else [path]
    return paths


def variants() -> list[Variant]:
    collected = []
    for field in inspect.type_info(CreateNamespace).fields:
        bare = unwrap(field.type)
        for kind in map(unwrap, bare.types if isinstance(bare, inspect.UnionType) else [bare]):
            if isinstance(kind, inspect.StructType):
                tag = (kind.tag_field, str(kind.tag)) if kind.tag_field else None
                collected.append(Variant(field.encode_name, tag, tuple(paths_of(kind))))
    return [variant for variant in collected if variant.secrets]


VARIANTS = variants()
PAIRS = [
    (variant, secret, another) for variant in VARIANTS for secret in variant.secrets for another in variant.other_fields
]
MOVES = [
    (variant, another)
    for variant, another in permutations(VARIANTS, 2)
    if variant.area == another.area and set(variant.secrets) & set(another.secrets)
]


def name_of(value: Any) -> str:
    return f"{value.area}.{value.tag[1] if value.tag else ''}" if isinstance(value, Variant) else str(value)


@pytest.fixture(scope="module")
def space_factory(base, api_settings, api_database, api_db, ring):
    """Return a factory of namespaces with a config; yields client and namespace id."""
    from retrieval.accounts import api_keys
    from retrieval.accounts.queries import organizations

    owner = organizations.create_organization(api_db, "masks", requests_per_minute=100_000, namespace_limit=10_000)
    key = api_keys.create_key(api_db, ring, owner.id, "masks").api_key
    with client_of(base, key) as client:

        def make(variant: Variant):
            answer = client.post("/v1/namespaces", json={"name": "m", **EMBEDDED, variant.area: variant.config()})
            assert answer.status_code == 200, answer.text
            return client, answer.json()["data"]["namespace"]["id"]

        make.key, make.settings, make.database = key, api_settings, api_database
        yield make


def assert_refused(answer, field):
    body = assert_error(answer, 400, "INVALID_NAMESPACE_CONFIG")
    assert body["error"]["details"] == {"reason": "secret_required", "field": field}


def stored(db, ring, space, area):
    return namespaces.load_namespace(db, ring, space).configs()[area]


def test_every_config_with_a_secret_is_here():
    areas = {variant.area for variant in VARIANTS}
    assert areas == set(namespaces.CONFIG_NAMES)
    assert {"indexHost", "endpoint", "bucket", "authorizationUrl"} <= {setting for _, _, setting in PAIRS}
    assert not [
        name
        for name in validation.FREELY_CHANGED_FIELDS
        if re.search("url|host|endpoint|bucket|address", name, re.IGNORECASE)
    ]


@pytest.mark.parametrize(("variant", "secret", "setting"), PAIRS, ids=name_of)
def test_a_mask_is_refused_after_a_change_of_the_address(space_factory, api_db, ring, variant, secret, setting):
    client, space = space_factory(variant)
    path, whole = f"/v1/namespaces/{space}", variant.config()
    unmasked = {name.replace(".", "__"): variant.value(name) for name in variant.secrets if name != secret}
    moved = variant.masked(**unmasked, **{setting.replace(".", "__"): variant.value(setting, 1)})
    answer = client.patch(path, json={variant.area: moved})
    if setting in validation.FREELY_CHANGED_FIELDS:
        assert answer.status_code == 200, answer.text
        stored_config = stored(api_db, ring, space, variant.area)
        assert stored_config == variant.config(**{setting: variant.value(setting, 1)})
        return
    assert_refused(answer, f"{variant.area}.{secret}")
    assert stored(api_db, ring, space, variant.area) == whole
    without = msgspec.json.decode(msgspec.json.encode(moved))
    if without.pop(setting, None) and client.patch(path, json={variant.area: without}).status_code == 200:
        assert stored(api_db, ring, space, variant.area) == {k: v for k, v in whole.items() if k != setting}
        pytest.fail(f"{setting} was taken away under a mask")
    assert client.patch(path, json={variant.area: variant.masked()}).status_code == 200
    assert stored(api_db, ring, space, variant.area) == whole


@pytest.mark.parametrize(("variant", "another"), MOVES, ids=name_of)
def test_a_mask_is_refused_for_another_provider(space_factory, api_db, ring, variant, another):
    client, space = space_factory(variant)
    shared = {path.replace(".", "__"): variant.mask_of(path) for path in variant.secrets}
    answer = client.patch(f"/v1/namespaces/{space}", json={another.area: another.config(**shared)})
    body = assert_error(answer, 400, "INVALID_NAMESPACE_CONFIG")
    assert body["error"]["details"]["reason"] == "secret_required"
    assert stored(api_db, ring, space, variant.area) == variant.config()


@pytest.mark.parametrize("variant", VARIANTS, ids=name_of)
def test_only_the_shown_mask_keeps_a_secret(space_factory, api_db, ring, variant):
    client, space = space_factory(variant)
    path = f"/v1/namespaces/{space}"
    secret = variant.secrets[0]
    wrong = [MASK_PREFIX + "9999", variant.mask_of(secret) + "x", MASK_PREFIX + variant.value(secret)]
    if variant.area in validation.MASKED_CONFIGS:
        wrong.append(MASK_PREFIX)
        assert variant.mask_of(secret) in client.get(path).text
    else:
        assert MASK_PREFIX not in client.get(path).text
        bare = {name.replace(".", "__"): MASK_PREFIX for name in variant.secrets}
        assert client.patch(path, json={variant.area: variant.config(**bare)}).status_code == 200
    for mask in wrong:
        answer = client.patch(path, json={variant.area: variant.masked(**{secret.replace(".", "__"): mask})})
        assert_refused(answer, f"{variant.area}.{secret}")
    assert stored(api_db, ring, space, variant.area) == variant.config()
    new = {name.replace(".", "__"): variant.value(name, 1) for name in variant.secrets}
    assert client.patch(path, json={variant.area: variant.config(**new)}).status_code == 200
    assert stored(api_db, ring, space, variant.area) == variant.config(**new)


MOVABLE = [
    variant
    for variant in VARIANTS
    if destinations.list_destinations(settings.Settings(_env_file=None), {variant.area: variant.config()})
]


def vendor_of(variant: Variant) -> str:
    return variant.tag[1] if variant.tag else next(c for c, area in APP_CONFIGS.items() if area == variant.area)


def endpoint_name(variant: Variant) -> str:
    """Name in `RETRIEVAL_ENDPOINTS`; JINA names the embedding model there."""
    vendor = vendor_of(variant)
    return "JINA_READER" if (variant.area, vendor) == (namespaces.WEB_SCRAPER, "JINA") else vendor


@pytest.fixture(scope="module")
def elsewhere(space_factory, ring):
    """Client of an API with another address for each vendor."""
    endpoints = {endpoint_name(variant): Endpoint(base_url="https://elsewhere.example") for variant in MOVABLE}
    moved = space_factory.settings.model_copy(update={"endpoints": endpoints})
    with serve(moved, space_factory.database, ring) as address, client_of(address, space_factory.key) as client:
        yield client


def test_the_table_covers_every_vendor_with_an_address_setting():
    vendors = set(registry.EMBEDDER_FACTORIES) | set(registry.SCRAPER_FACTORIES) | set(APP_CONFIGS)
    assert {vendor_of(variant) for variant in MOVABLE} == vendors - {"LOCAL", "ENDPOINT"}


@pytest.mark.parametrize("variant", MOVABLE, ids=name_of)
def test_a_stored_secret_is_not_sent_to_a_moved_address(space_factory, elsewhere, api_db, ring, monkeypatch, variant):
    space, api_settings = space_factory(variant)[1], space_factory.settings
    vendor = endpoint_name(variant)
    moved = api_settings.model_copy(update={"endpoints": {vendor: Endpoint(base_url="https://elsewhere.example")}})
    places = [moved]
    if variant.tag is None:
        endpoints = OAuthEndpoints(token="https://elsewhere.example/token")
        places.append(api_settings.model_copy(update={"oauth_endpoints": {vendor: endpoints}}))
    for changed in places:
        config = namespaces.load_namespace(api_db, ring, space)
        monkeypatch.setattr(settings, "load_settings", lambda changed=changed: changed)
        with pytest.raises((Fatal, ServiceError), match="stored"):
            use(variant, vendor, config, changed)
        renamed = api_settings.model_copy(
            update={
                "endpoints": {k: v.model_copy(update={"replaces": ("public",)}) for k, v in changed.endpoints.items()},
                "oauth_endpoints": {
                    k: v.model_copy(update={"replaces": ("public",)}) for k, v in changed.oauth_endpoints.items()
                },
            }
        )
        monkeypatch.setattr(settings, "load_settings", lambda renamed=renamed: renamed)
        use(variant, vendor, config, renamed)
        old = config.__class__(**{**{f: getattr(config, f) for f in config.__dataclass_fields__}, "sent_to": {}})
        monkeypatch.setattr(settings, "load_settings", lambda changed=changed: changed)
        use(variant, vendor, old, changed)
    path = f"/v1/namespaces/{space}"
    answer = elsewhere.patch(path, json={variant.area: variant.masked()})
    assert assert_error(answer, 400, "INVALID_NAMESPACE_CONFIG")["error"]["details"]["reason"] == "secret_required"
    assert elsewhere.patch(path, json={variant.area: variant.config()}).status_code == 200
    monkeypatch.setattr(settings, "load_settings", lambda: moved)
    use(variant, vendor, namespaces.load_namespace(api_db, ring, space), moved)


def use(variant, vendor, config, options):
    """Call the code sending the secret."""
    if variant.area == namespaces.EMBEDDING_MODEL:
        registry.make_embedder(config)
    elif variant.area == namespaces.WEB_SCRAPER:
        registry.make_scraper(config)
    elif variant.area == namespaces.RERANKER_CONFIG:
        registry.make_reranker(config)
    else:
        registry.make_connector(vendor, connections.get_usable_app(config, vendor, options), options)
