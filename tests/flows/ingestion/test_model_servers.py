"""Servers with OpenAI's API and limits of their own: a namespace takes 200 chunks, and few requests are refused."""

import json
from dataclasses import replace

import pytest

from connectors import registry
from retrieval import settings
from retrieval.errors import Fatal
from tests.flows.configured import Configured
from tests.standins import model_server
from tests.standins.model_server import ModelServer

MOST_REFUSED = 6
SERVERS = [
    ModelServer("vLLM"),
    ModelServer("Ollama", base64="ignores", dimensions=96),
    ModelServer("LM Studio", base64="refuses"),
    ModelServer("DashScope", 10, 400, "<400> InternalError.Algo.InvalidParameter: Value error, batch size is invalid"),
    ModelServer("DashScope in Chinese", 10, 400, "输入的文本数量不能大于10条", base64="refuses"),
    ModelServer("LiteLLM", 25, 400, "Bad Request"),
    ModelServer("TEI", 32, 422, "batch size {count} > maximum allowed batch size {most}"),
    ModelServer("TEI, older", 32, 413, "Payload Too Large", base64="ignores"),
    ModelServer("Infinity", 64, 422, "List should have at most {most} items after validation, not {count}"),
    ModelServer("Gemini", 100, 400, "at most {most} requests can be in one batch", base64="refuses", dimensions=768),
    ModelServer("llama.cpp", 1, 400, "only one input is supported", base64="refuses"),
    ModelServer("one text", 1, 413, ""),
    ModelServer("base64 for floats", 64, 413, "too large", base64="refuses", always_base64=True),
    ModelServer("4,096 dimensions", 100, 422, "批量过大", dimensions=4000),
]


@pytest.fixture
def opened(db, monkeypatch, tmp_path):
    """A namespace on a server, with `new_process()` that forgets what this process knows."""
    monkeypatch.setenv("RETRIEVAL_HOME", str(tmp_path))
    monkeypatch.setenv("RETRIEVAL_FETCH_ALLOW", "127.0.0.0/8")

    def at(server, **config):
        address = {"OPENAI": {"base_url": f"http://127.0.0.1:{server.port}/v1"}}
        monkeypatch.setenv("RETRIEVAL_ENDPOINTS", json.dumps(address))
        new_process()
        model = {"provider": "OPENAI", "model": "custom", "apiKey": "canary-model-key", **config}
        space = Configured(db, embeddingModelConfig=model)
        registry.make_embedder(space.config).check()  # as the API does before it creates the namespace
        return space

    yield at
    new_process()


def new_process():
    for made in list(registry._made.values()):
        if hasattr(made, "close") and hasattr(made, "provider"):
            made.close()
    registry._made.clear()
    settings.load_settings.cache_clear()


def chunks(count, about="Chapter"):
    return "\n\n".join(
        f"# {about} {number}\n\nOn owl{number} in the wind. " + "It flew on. " * 9 for number in range(count)
    )


@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.name)
def test_a_namespace_on_any_model_server_takes_200_chunks_and_few_requests_are_refused(opened, server):
    with model_server.running(replace(server, refused=[], texts=[], sizes=[])) as running:
        space = opened(running)
        new_process()
        space.text(chunks(200), "owls", chunk_size=40, chunk_overlap=0)
        space.work()
        assert len(running.texts) >= 200
        assert space.search("owl77 wind", top_k=1) == ["owls"]
        assert len(running.refused) <= MOST_REFUSED, running.refused
        if running.most > 1:
            assert max(running.sizes) > min(running.most, 200) // 2 - 1
        refused = len(running.refused)
        new_process()
        space.text(chunks(60, "Part"), "more owls", chunk_size=40, chunk_overlap=0)
        space.work()
        assert len(running.refused) == refused, "what was learned holds for later processes"


def test_one_text_that_a_server_refuses_fails_with_its_words_and_leaves_batches_as_they_were(opened):
    server = ModelServer("moderated", 400, 400, "Content policy: this text\nis refused for canary-model-key")
    with model_server.running(server) as running:
        space = opened(running)
        space.text(
            chunks(50) + "\n\n# Last\n\nA forbidden word. " + "It flew on. " * 9, "owls", chunk_size=40, chunk_overlap=0
        )
        with pytest.raises(Fatal, match="It says: Content policy: this text is refused for …"):
            space.work()
        assert registry.make_embedder(space.config)._server.texts is None


def test_prefixes_stand_before_queries_and_passages_and_not_in_what_is_found(opened, db):
    with model_server.running(ModelServer("E5")) as running:
        space = opened(running, queryPrefix="query: ", passagePrefix="passage: ")
        space.text("Owls hunt mice at night.", "owls")
        space.work()
        assert space.search("owls at night", top_k=1) == ["owls"]
        check, found = running.texts[:2], running.texts[2:]
        assert all(text.startswith("query: ") for text in check)
        assert found == ["passage: Owls hunt mice at night.", "query: owls at night"]
        rows = db.rows(
            "select c.content, d.embedding from chunks c join documents d on d.id = c.document_id"
            " join partitions p on p.id = c.partition_id where p.namespace_id = %(id)s",
            {"id": space.scope.namespace},
        )
        assert [row["content"] for row in rows] == ["Owls hunt mice at night."]
        assert rows[0]["embedding"]["passagePrefix"] == "passage: "
