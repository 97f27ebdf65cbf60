"""OpenAI-compatible servers with limits: 200 chunks with few refused requests."""

from dataclasses import replace

import pytest

from connectors import registry
from connectors.embedders import endpoint, server_probe
from connectors.http import retries
from retrieval.errors import Retryable
from tests import registry_instances
from tests.standins import faults, model_server
from tests.standins.model_server import API_KEY, ModelServer

MOST_REFUSED = 6
# Servers with the learned texts of a request and tokens of a text.
SERVERS = [
    (ModelServer("Ollama", base64="ignores", longest=2048, cut=True, dimensions=96), (64, 2048)),
    (
        ModelServer(
            "TEI",
            32,
            422,
            longest=512,
            long_status=413,
            long_words="Input validation error: `inputs` must have less than {longest} tokens. Given: {tokens}",
        ),
        (32, 512),
    ),
    (
        ModelServer(
            "LiteLLM", 25, 400, "litellm.BadRequestError: OpenAIException - batch size is invalid", longest=2048
        ),
        (16, 2048),
    ),
    (
        ModelServer(
            "llama.cpp",
            longest=512,
            long_status=500,
            long_words="input ({tokens} tokens) is too large to process. increase the physical batch size",
        ),
        (64, 512),
    ),
    (ModelServer("DashScope in Chinese", 10, 400, "输入的文本数量不能大于10条", base64="refuses"), (8, 8192)),
    (ModelServer("base64 for floats", 64, 413, "too large", base64="refuses", always_base64=True), (64, 8192)),
]


def chunks(count, about="Chapter"):
    return "\n\n".join(
        f"# {about} {number}\n\nOn owl{number} in the wind. " + "It flew on. " * 9 for number in range(count)
    )


@pytest.mark.slow
@pytest.mark.parametrize(("server", "limits"), SERVERS, ids=[server.name for server, _ in SERVERS])
def test_a_namespace_on_any_model_server_takes_200_chunks_and_few_requests_are_refused(open_space, server, limits):
    with model_server.running(replace(server, refused=[], texts=[], sizes=[])) as running:
        space = open_space(running)
        learned = space.config.embedding_model["learned"]
        assert (learned["textsPerRequest"], learned["tokensPerText"]) == limits
        assert learned["dimensions"] == min(server.dimensions, 4000)
        assert learned["normalized"] is server.unit
        registry_instances.close_instances()
        running.sizes.clear()
        space.text(chunks(200), "owls", chunk_size=40, chunk_overlap=0)
        space.work()
        assert sum(running.sizes) >= 200
        assert max(running.sizes) == learned["textsPerRequest"]
        assert space.search("owl77 wind", top_k=1) == ["owls"]
        registry_instances.close_instances()
        space.text(chunks(60, "Part"), "more owls", chunk_size=40, chunk_overlap=0)
        space.work()
        assert len(running.refused) <= MOST_REFUSED, running.refused
        assert running.keys == {f"Bearer {API_KEY}"}


def test_a_slow_server_gets_small_requests_and_one_that_dies_a_clear_retryable_error(open_space, monkeypatch):
    monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(server_probe, "SLOW_SECONDS", 0.2)
    with model_server.running(ModelServer("slow", delay=0.3)) as running:
        space = open_space(running)
        assert space.config.embedding_model["learned"]["textsPerRequest"] == 2
        running.delay = 3.0
        monkeypatch.setattr(endpoint, "CHECK_SECONDS", 1.0)
        with pytest.raises(Retryable, match=r"The model server did not answer within 1 s\. It may be loading"):
            open_space(running)
        running.delay = 0.0
        running.always.append(faults.reset)
        embedder = registry.make_embedder(space.config)
        with pytest.raises(Retryable, match=r"The model server could not be reached, or its answer broke off\."):
            embedder.embed(["a text"], "query")
    with pytest.raises(Retryable, match="The model server could not be reached"):
        embedder.embed(["a text"], "query")


def test_one_text_that_a_server_refuses_fails_with_its_words_and_leaves_batches_as_they_were(open_space):
    server = ModelServer("moderated", 400, 400, "Content policy: this text\nis refused for canary-model-key")
    with model_server.running(server) as running:
        space = open_space(running)
        run = space.text(
            chunks(50) + "\n\n# Last\n\nA forbidden word. " + "It flew on. " * 9, "owls", chunk_size=40, chunk_overlap=0
        )
        space.work()
        assert "It says: Content policy: this text is refused for …" in space.run(run.job_run_id).failed[0].error
