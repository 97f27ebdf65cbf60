"""A namespace on a model server, created as by the API."""

import pytest

from connectors import registry
from connectors.embedders import endpoint, server_probe
from tests import registry_instances
from tests.flows.configured import Configured
from tests.standins.model_server import API_KEY


@pytest.fixture
def open_space(db, monkeypatch, tmp_path):
    """Return a function that creates a namespace with the limits of a server that it has learned."""
    monkeypatch.setenv("RETRIEVAL_HOME", str(tmp_path))
    monkeypatch.setenv("RETRIEVAL_FETCH_ALLOW", "127.0.0.0/8")
    monkeypatch.setattr(endpoint, "CHECK_SECONDS", 60.0)
    monkeypatch.setattr(server_probe, "SLOW_SECONDS", 60.0)

    def open_at(server, **config):
        registry_instances.close_instances()
        url = server.url + ("/v1beta/openai" if "openai" in server.path else "")
        model = {"provider": "ENDPOINT", "url": url, "model": "custom", "apiKey": API_KEY, **config}
        draft = Configured(db, embeddingModelConfig=model)
        registry.make_embedder(draft.config).check()
        return Configured(db, embeddingModelConfig=registry.add_learned_model(draft.config).embedding_model)

    yield open_at
    registry_instances.close_instances()
