"""A tiny ONNX cross-encoder with BERT's inputs and the tokenizer of all-MiniLM-L6-v2."""
# Built, not trained: the logit grows with the share of the query's tokens in the text.

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save_model

from retrieval.ingestion.chunking.tokenizer import MINILM_MODEL, raw_tokenizer

_INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def build(folder: Path) -> Path:
    """Write `model.onnx` and `tokenizer.json` to the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    raw_tokenizer(MINILM_MODEL).save(str(folder / "tokenizer.json"))
    node = helper.make_node
    nodes = [
        # words: neither padding nor [CLS] (101) nor [SEP] (102)
        node("Greater", ["input_ids", "specials"], ["word.b"]),
        node("Cast", ["word.b"], ["word"], to=1),
        node("Cast", ["token_type_ids"], ["second.all"], to=1),
        node("Mul", ["second.all", "word"], ["second"]),
        node("Sub", ["one", "second.all"], ["first.all"]),
        node("Mul", ["first.all", "word"], ["first"]),
        node("Unsqueeze", ["input_ids", "axis2"], ["rows"]),
        node("Unsqueeze", ["input_ids", "axis1"], ["columns"]),
        node("Equal", ["rows", "columns"], ["same.b"]),
        node("Cast", ["same.b"], ["same"], to=1),
        node("Unsqueeze", ["second", "axis1"], ["second.columns"]),
        node("Mul", ["same", "second.columns"], ["found.all"]),
        node("ReduceMax", ["found.all"], ["found"], axes=[2], keepdims=0),
        node("Mul", ["found", "first"], ["hits"]),
        node("ReduceSum", ["hits", "axis1"], ["hit"], keepdims=1),
        node("ReduceSum", ["first", "axis1"], ["asked"], keepdims=1),
        node("Max", ["asked", "one"], ["divisor"]),
        node("Div", ["hit", "divisor"], ["share"]),
        node("Mul", ["share", "eight"], ["scaled"]),
        node("Sub", ["scaled", "four"], ["logits"]),
    ]
    constants = {
        "specials": np.array(102, np.int64),
        "one": np.array(1, np.float32),
        "four": np.array(4, np.float32),
        "eight": np.array(8, np.float32),
        "axis1": np.array([1], np.int64),
        "axis2": np.array([2], np.int64),
    }
    body = helper.make_graph(
        nodes,
        "overlap",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"]) for name in _INPUTS],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 1])],
        [numpy_helper.from_array(values, name) for name, values in constants.items()],
    )
    save_model(
        helper.make_model(body, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), folder / "model.onnx"
    )
    return folder
