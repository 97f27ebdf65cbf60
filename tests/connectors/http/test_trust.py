"""An endpoint's own certificate is trusted only with `ca_bundle`."""

from __future__ import annotations

import importlib
import json
from urllib.parse import urlsplit

import pytest

from connectors import registry
from connectors.http import retries
from retrieval import settings
from retrieval.errors import StepError
from retrieval.sources import APP_CONFIGS
from tests.connectors.sources.test_connectors import list_items
from tests.standins import embedding_server, s3_server
from tests.standins.accounts import serving_account
from tests.standins.place import APP, TestTokens
from tests.standins.secure import in_front_of

pytestmark = pytest.mark.service
"""Servers behind TLS, and the vendors' SDKs."""


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0.01)
    yield
    settings.load_settings.cache_clear()


def endpoint(base, certificate=None):
    return {"base_url": base, **({"ca_bundle": str(certificate)} if certificate else {})}


def configured(monkeypatch, name, base, certificate=None):
    monkeypatch.setenv("RETRIEVAL_ENDPOINTS", json.dumps({name: endpoint(base, certificate)}))
    settings.load_settings.cache_clear()
    return settings.load_settings()


@pytest.mark.parametrize("name", sorted(embedding_server.KEYS))
def test_embedders(name, monkeypatch, tmp_path):
    module, _, make = registry.EMBEDDER_FACTORIES[name].partition(":")
    with embedding_server.running(name) as vendor, in_front_of(vendor.port, tmp_path) as (base, certificate):
        base_url = base + urlsplit(vendor.base_url).path
        make_client = getattr(importlib.import_module(module), make)
        trusting = make_client(vendor.config(), configured(monkeypatch, name, base_url, certificate))
        assert trusting.embed(["Owls hunt at night."], "document").shape[0] == 1
        trusting.close()
        doubting = make_client(vendor.config(), configured(monkeypatch, name, base_url))
        with pytest.raises(StepError):
            doubting.embed(["Owls hunt at night."], "query")
        doubting.close()


def test_a_bucket(monkeypatch, tmp_path):
    module, _, make = registry.FILE_STORE_FACTORIES["S3_COMPATIBLE"].partition(":")
    with s3_server.running() as storage, in_front_of(storage.port, tmp_path) as (base, certificate):
        config = storage.config(s3_server.bucket(storage), endpoint=base)
        make_client = getattr(importlib.import_module(module), make)
        make_client(config, configured(monkeypatch, "S3", base, certificate)).check()
        with pytest.raises(StepError):
            make_client(config, configured(monkeypatch, "S3", base)).check()


@pytest.mark.parametrize("name", APP_CONFIGS)
def test_connectors(name, tmp_path):
    with (
        serving_account(name) as account,
        in_front_of(urlsplit(account.base).port, tmp_path) as (base, certificate),
    ):
        file_id = account.put("notes/owls.txt", "Owls hunt at night.")
        path = urlsplit(account.settings.endpoints[name].base_url).path
        account.base = base  # some lead on by whole addresses
        for trusted in (certificate, None):
            base_url = {name: settings.Endpoint(**endpoint(base + path, trusted))}
            options = account.settings.model_copy(update={"endpoints": base_url})
            connector = registry.make_connector(name, APP, options)
            if trusted:
                assert set(list_items(connector, TestTokens(account))[0]) == {file_id}
            else:
                with pytest.raises(StepError):
                    list_items(connector, TestTokens(account))
