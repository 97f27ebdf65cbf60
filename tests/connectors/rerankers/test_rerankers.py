"""Contract suite of the rerankers: Cohere's SDK, Jina, self-hosted servers and an ONNX folder."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from connectors.rerankers import cohere, endpoint, jina, local
from retrieval.errors import Fatal, Retryable
from retrieval.setting_values import Endpoint
from retrieval.settings import Settings
from tests.standins import cross_encoder, faults, rerank_server
from tests.standins.rerank_server import UNSCORABLE, Place

if TYPE_CHECKING:
    from retrieval.ports import Reranker

pytestmark = pytest.mark.service
"""Servers on loopback, and Cohere's SDK."""

VENDORS = {"COHERE": cohere.make, "JINA": jina.make, "TEI": endpoint.make, "VLLM": endpoint.make}
QUERY = "how do I open the cover"
TEXTS = ["the weather of today", "open the cover with a coin: how I do it", "a cover", ""]


def make_reranker(server: Place, **config: str) -> Reranker:
    settings = Settings(
        fetch_allow="127.0.0.0/8",  # type: ignore[arg-type]
        endpoints={
            "COHERE": Endpoint(base_url=server.url),
            "JINA": Endpoint(base_url=f"{server.url}/v1"),
        },
    )
    reranker = VENDORS[server.name]({**server.config(), **config}, settings)
    _OPEN.append(reranker)
    return reranker


_OPEN: list[Any] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while _OPEN:
        _OPEN.pop().close()


@pytest.fixture(params=sorted(VENDORS))
def server(request: pytest.FixtureRequest) -> Iterator[Place]:
    with rerank_server.running(request.param) as server:
        yield server


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("rerankers")
    cross_encoder.build(root / "overlap")
    return root


@pytest.fixture(params=[*sorted(VENDORS), "LOCAL", "LATE"])
def reranker(request: pytest.FixtureRequest, folder: Path) -> Iterator[Reranker]:
    if request.param == "LOCAL":
        yield local.make({"path": "overlap"}, Settings(rerankers=folder))
        return
    if request.param == "LATE":
        yield local.make({}, Settings(home=folder))
        return
    with rerank_server.running(request.param) as server:
        yield make_reranker(server)


def test_scores_come_in_the_order_of_the_texts(reranker: Reranker) -> None:
    scores = reranker.rerank(QUERY, TEXTS, seconds=10)
    assert len(scores) == len(TEXTS)
    assert all(0 <= score <= 1 for score in scores)
    assert min(range(len(TEXTS)), key=lambda at: -scores[at]) == 1
    assert scores[2] > scores[3]
    assert reranker.rerank(QUERY, [], seconds=10) == []


def test_a_candidate_that_a_server_cannot_score_is_last_and_the_others_are_scored(server: Place) -> None:
    texts = [f"text {number}" + (" open the cover" if number == 37 else "") for number in range(50)]
    texts[20] = f"how do I open the cover, {UNSCORABLE}"
    scores = make_reranker(server).rerank(QUERY, texts, seconds=10)
    assert max(range(50), key=lambda at: scores[at]) == 37
    assert scores[20] == min(scores)


def test_a_wrong_key_is_reported_without_the_vendors_words(server: Place) -> None:
    with pytest.raises(Fatal, match="refuses the key") as caught:
        make_reranker(server, apiKey="other-key").check()
    assert "SECRET" not in str(caught.value)
    assert "other-key" not in repr(make_reranker(server, apiKey="other-key"))


BROKEN: list[tuple[str, Callable[[Any], bool]]] = [
    ("busy", faults.status(429, Retry_After="3")),
    ("down", faults.status(503)),
    ("reset", faults.reset),
]


@pytest.mark.parametrize(("fault_name", "fault"), BROKEN, ids=[name for name, _ in BROKEN])
def test_transient_errors_can_be_tried_again(server: Place, fault_name: str, fault: Any) -> None:
    server.always = [fault]
    with pytest.raises(Retryable) as caught:
        make_reranker(server).rerank(QUERY, TEXTS, seconds=3)
    assert "SECRET" not in str(caught.value)
    assert fault_name != "busy" or "429" in str(caught.value)


def _answers(body: Any) -> Callable[[Any], bool]:
    def fault(handler: Any) -> bool:
        handler.reply(200, body)
        return True

    return fault


@pytest.mark.parametrize(
    "body",
    [
        *(b"<html>", b"[]", b"{}", b'{"results": []}', b'{"results": [7]}', b"3"),
        b'{"results": [{"index": Infinity, "relevance_score": 0.5}]}',
        b'{"results": [{"index": 0, "relevance_score": 1' + b"0" * 400 + b"}]}",
        b"[" * 100_000,
    ],
    ids=["html", "list", "object", "none", "number in list", "number", "infinite index", "huge score", "deep"],
)
def test_an_answer_that_is_none_is_an_error_of_ours(server: Place, body: bytes) -> None:
    server.always = [_answers(body)]
    with pytest.raises((Retryable, Fatal)):
        make_reranker(server).rerank(QUERY, TEXTS, seconds=3)


def test_no_server_can_fill_the_memory_with_little(server: Place) -> None:
    # 40 MB of blanks are less than a kilobyte after two compressions.
    server.always = [faults.packed(b" " * 40_000_000)]
    reranker = make_reranker(server)
    tracemalloc.start()
    try:
        with pytest.raises(Retryable):
            reranker.rerank(QUERY, TEXTS, seconds=10)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 10_000_000


def test_a_server_that_drips_is_left_in_time(server: Place) -> None:
    server.always = [faults.drips]
    started = time.monotonic()
    with pytest.raises(Retryable, match="did not answer within 1 s"):
        make_reranker(server).rerank(QUERY, TEXTS, seconds=1)
    assert time.monotonic() - started < 2.9


def test_a_server_of_the_other_form_is_found_out() -> None:
    with rerank_server.running("TEI") as server:
        reranker = make_reranker(server, model="some-model")
        assert reranker.rerank(QUERY, TEXTS, seconds=5)[1] > 0.5
        assert reranker.rerank(QUERY, TEXTS, seconds=5)[1] > 0.5
        assert len(server.seen) == 2


@pytest.mark.parametrize("address", ["http://127.0.0.1:9", "http://169.254.169.254/", "http://[::ffff:127.0.0.1]:9"])
def test_private_addresses_are_not_dialled(address: str) -> None:
    reranker = endpoint.make({"url": address}, Settings())
    with pytest.raises(Fatal) as caught:
        reranker.check()
    assert caught.value.field == "rerankConfig.url"


@pytest.mark.parametrize("path", ["../outside", "/etc", "overlap/../../x", "missing", "empty"])
def test_a_folder_that_is_none_is_refused(folder: Path, path: str) -> None:
    (folder / "empty").mkdir(exist_ok=True)
    with pytest.raises(Fatal) as caught:
        local.make({"path": path}, Settings(rerankers=folder)).check()
    assert caught.value.field == "rerankConfig.path"


def test_a_link_out_of_the_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    cross_encoder.build(tmp_path / "elsewhere")
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Fatal, match="RETRIEVAL_RERANKERS"):
        local.make({"path": "link"}, Settings(rerankers=folder)).check()


def test_a_broken_graph_is_reported(folder: Path) -> None:
    broken = cross_encoder.build(folder / "broken")
    (broken / "model.onnx").write_bytes(b"no graph")
    with pytest.raises(Fatal, match="no ONNX graph"):
        local.make({"path": str(broken)}, Settings(rerankers=folder)).check()
