"""LlamaIndex's IngestionPipeline as `bench/llamaindex.py` measures it; runs in an environment of its own.

Reads one JSON a line: first the set-up (graph, tokenizer, database, runtimes), then rounds with a runtime and texts;
answers each with one JSON line. Nothing of the project is imported here.
"""

import json
import sys
import time

import numpy as np
from llama_index.core import Document
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.vector_stores.postgres import PGVectorStore
from pydantic import PrivateAttr
from tokenizers import Tokenizer

POSITIONS, DIMENSIONS = 256, 384


class MiniLM(BaseEmbedding):
    """The graph file of the service, in batches of eight texts of like length, as the service runs it."""

    _tokenizer = PrivateAttr()
    _network = PrivateAttr()

    def __init__(self, graph: str, tokenizer: str, runtime: str, threads: int) -> None:
        super().__init__(model_name="all-MiniLM-L6-v2", embed_batch_size=64)
        self._tokenizer = Tokenizer.from_file(tokenizer)
        self._tokenizer.enable_truncation(POSITIONS)
        self._tokenizer.no_padding()
        self._network = NETWORKS[runtime](graph, threads)

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        encodings = self._tokenizer.encode_batch(texts)
        vectors = np.zeros((len(texts), DIMENSIONS), np.float32)
        order = sorted(range(len(texts)), key=lambda place: len(encodings[place].ids))
        for start in range(0, len(order), 8):
            members = order[start : start + 8]
            lengths = np.array([len(encodings[place].ids) for place in members], np.int32)
            mask = (np.arange(lengths.max()) < lengths[:, None]).astype(np.int32)
            ids = np.zeros_like(mask)
            for row, place in enumerate(members):
                ids[row, : lengths[row]] = encodings[place].ids
            vectors[members] = self._network({"ids": ids, "mask": mask, "lengths": lengths})
        return vectors.tolist()

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


def _onnxruntime(graph: str, threads: int):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    return lambda feeds: session.run(None, feeds)[0]


def _openvino(graph: str, threads: int):
    import openvino

    settings: dict[str, object] = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "ENABLE_CPU_PINNING": False}
    if "BF16" in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        settings["INFERENCE_PRECISION_HINT"] = "bf16"
    model = openvino.Core().compile_model(graph, "CPU", settings)

    def run(feeds):
        request = model.create_infer_request()
        request.infer(feeds, share_inputs=True)
        return np.array(request.get_output_tensor(0).data)

    return run


NETWORKS = {"onnxruntime": _onnxruntime, "openvino": _openvino}


def main() -> None:
    given = json.loads(sys.stdin.readline())
    tokenizer = Tokenizer.from_file(given["tokenizer"])
    tokenizer.no_truncation()
    tokenizer.no_padding()
    splitter = SentenceSplitter(
        chunk_size=POSITIONS - 2,
        chunk_overlap=50,
        tokenizer=lambda text: tokenizer.encode(text, add_special_tokens=False).tokens,
    )
    pipelines = {}
    for runtime in given["runtimes"]:
        store = PGVectorStore(
            connection_string=given["database"],
            async_connection_string=given["database"].replace("psycopg2", "asyncpg"),
            table_name=f"bench_{runtime}",
            embed_dim=DIMENSIONS,
            use_halfvec=True,
        )
        model = MiniLM(given["graph"], given["tokenizer"], runtime, given["threads"])
        pipelines[runtime] = IngestionPipeline(transformations=[splitter, model], vector_store=store)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        documents = [Document(text=text, metadata={"name": f"{number}"}) for number, text in enumerate(asked["texts"])]
        cpu, began = time.process_time(), time.perf_counter()
        nodes = pipelines[asked["runtime"]].run(documents=documents, show_progress=False)
        told = {"cpu": time.process_time() - cpu, "seconds": time.perf_counter() - began, "chunks": len(nodes)}
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
