"""Whether a search answers its query: the models of `retrieval.search.answerability`, fitted and judged.

    python -m bench.answerable [--write] [--only longdocs]

Collections are those of `bench.quality` and `bench.classic_sets`. Of each, half of the documents are removed at
random, twice: a question whose relevant documents are all removed cannot be answered. Texts of questions with spans are
cut into pieces of about 1,500 characters first. `bench-v0` is asked as it is, too, with its five questions that nothing
answers. A model is judged on collections that it was not fitted on; answerable and unanswerable questions of a
collection count half each. `--write` fits on all TRAINED and writes `answerability_models.py`.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench import quality
from bench.harness import DATA, PROJECT, migrated_database, write
from retrieval.database import database
from retrieval.evaluations.calibration import auroc, calibration_error, refused_share
from retrieval.search.answerability import SearchSide, choose_model

FEATURES: dict[SearchSide, tuple[str, ...]] = {
    "semantic": ("nearest", "lead"),
    "keyword": ("share",),
    "hybrid": ("nearest", "share"),
}
TRAINED = ("bench-v0", "xquad", "longdocs")
"""Collections of questions with an answer of their own. The topics of the classic sets (cacm, cranfield, med, time)
are answered by many documents more or less, and are judged only."""
PIECE = 1500
HALVES = 2
EXAMPLES = 600.0
"""What all collections together weigh against the prior of a fit."""
RIDGE = 1.0
OUT = PROJECT / "retrieval" / "search" / "answerability_models.py"


@dataclass(frozen=True, slots=True)
class Split:
    """The questions of a collection without some documents: features by the way to search, and which are answered."""

    collection: str
    name: str
    features: dict[SearchSide, list[dict[str, float]]]
    answered: Any

    @property
    def weights(self) -> Any:
        """Half for answered questions, half for others."""
        answered = self.answered
        return np.where(answered, 0.5 / max(answered.sum(), 1), 0.5 / max((~answered).sum(), 1))

    def matrix(self, way: SearchSide) -> Any:
        return np.array([[row[name] for name in FEATURES[way]] for row in self.features[way]])


class Vectors(quality.Given):
    """The model with the vectors of single texts kept, so that halves of a collection share them."""

    def __init__(self, model: Any, name: str) -> None:
        super().__init__(model, name)
        self.of_documents: dict[str, Any] = {}

    def learn(self, texts: list[str], kind: str) -> Any:
        kept = self.known if kind == "query" else self.of_documents
        missing = [text for text in dict.fromkeys(texts) if text not in kept]
        if missing:
            kept.update(zip(missing, super().learn(missing, kind), strict=True))
        return np.stack([kept[text] for text in texts])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--model", default="all-MiniLM-L6-v2")
    options.add_argument("--only", default="")
    options.add_argument("--write", action="store_true")
    chosen = options.parse_args()
    model, tokenizer = quality.ports(chosen.model)
    embedder = Vectors(model, chosen.model)
    splits: list[Split] = []
    with migrated_database() as (_, url):
        db = database.Database(url)
        for folder in quality.list_collections(DATA):
            if chosen.only in ("", folder.name):
                splits += measure_splits(db, quality.Collection(folder), embedder, tokenizer)
                print(f"{folder.name}: asked", flush=True)
        db.close()
    figures: dict[str, Any] = {"model": chosen.model}
    for way in FEATURES:
        figures[way] = judge_way(way, splits)
    write("answerable", figures)
    if chosen.write:
        trained = [split for split in splits if split.collection in TRAINED]
        write_models({way: fit_way(way, trained) for way in FEATURES})


def measure_splits(db: Any, collection: quality.Collection, embedder: Vectors, tokenizer: Any) -> Iterator[Split]:
    """Ask all questions of a collection, of the whole one if it has unanswerable questions, and of its halves."""
    relevant = find_relevant(collection)
    documents = collection.documents
    names = sorted(document["id"] for document in documents)
    embedder.learn([question["text"] for question in collection.questions], "query")
    removals: dict[str, set[str]] = {} if all(relevant.values()) else {"whole": set()}
    dice = random.Random(collection.name)
    removals |= {f"half {number}": set(dice.sample(names, len(names) // 2)) for number in range(1, HALVES + 1)}
    for name, removed in removals.items():
        collection.documents = [document for document in documents if document["id"] not in removed]
        shelf = quality.Shelf(db, collection, embedder, tokenizer)
        found: dict[SearchSide, list[dict[str, float]]] = {
            choose_model(*weights): [
                dict(shelf.ask(question["text"], weights, quality.TOP).answerability.features or {})
                for question in collection.questions
            ]
            for weights in quality.WAYS.values()
        }
        answered = np.array([bool(relevant[question["id"]] - removed) for question in collection.questions])
        if answered.any() and not answered.all():
            yield keep_measured(Split(collection.name, name, found, answered))


def keep_measured(split: Split) -> Split:
    """Leave out questions for which a way finds nothing; no model is asked about them."""
    found = np.array([all(split.features[way][at] for way in FEATURES) for at in range(len(split.answered))])
    features = {
        way: [row for row, keep in zip(rows, found, strict=True) if keep] for way, rows in split.features.items()
    }
    return Split(split.collection, split.name, features, split.answered[found])


def find_relevant(collection: quality.Collection) -> dict[str, set[str]]:
    """The relevant documents of each question; of spans, the pieces that hold them, which become the documents."""
    if collection.cited:
        return {
            question["id"]: {name.rpartition("/")[2] for name in question["ground_truth_citations"]}
            for question in collection.questions
        }
    if collection.grades:
        return {question["id"]: set(collection.grades[question["id"]]) for question in collection.questions}
    pieces: list[dict[str, Any]] = []
    relevant: dict[str, set[str]] = {question["id"]: set() for question in collection.questions}
    for document in collection.documents:
        for start, end in cut_pieces(document["text"]):
            name = f"{document['id']}-{start}"
            pieces.append({"id": name, "title": "", "text": document["text"][start:end]})
            for question in collection.questions:
                spans = question["spans"] if question["doc"] == document["id"] else []
                if any(span["start"] < end and start < span["end"] for span in spans):
                    relevant[question["id"]].add(name)
    collection.documents = pieces
    return relevant


def cut_pieces(text: str) -> Iterator[tuple[int, int]]:
    """Ranges of about PIECE characters that end with a line or a sentence."""
    start = 0
    while start < len(text):
        end = min(len(text), start + PIECE)
        if end < len(text):
            line, sentence = (text.rfind(mark, start + PIECE // 2, end) + 1 for mark in ("\n", ". "))
            end = line or sentence or end
        yield start, end
        start = end


def fit_way(way: SearchSide, splits: Sequence[Split]) -> dict[str, float]:
    """Weights of the features, and the constant: logistic regression, each collection with the same weight."""
    features = np.vstack([split.matrix(way) for split in splits])
    answered = np.concatenate([split.answered for split in splits]).astype(float)
    counts = {split.collection: sum(other.collection == split.collection for other in splits) for split in splits}
    weights = np.concatenate([split.weights / counts[split.collection] for split in splits])
    weights *= EXAMPLES / weights.sum()
    mean, spread = features.mean(axis=0), features.std(axis=0) + 1e-9
    design = np.column_stack([(features - mean) / spread, np.ones(len(features))])
    ridge = np.diag([RIDGE] * (design.shape[1] - 1) + [1e-6])
    solution = np.zeros(design.shape[1])
    for _ in range(50):
        probability = 1 / (1 + np.exp(-design @ solution))
        gradient = design.T @ (weights * (answered - probability)) - ridge @ solution
        hessian = (design * (weights * probability * (1 - probability))[:, None]).T @ design + ridge
        solution += np.linalg.solve(hessian, gradient)
    scaled = solution[:-1] / spread
    constant = float(solution[-1] - scaled @ mean)
    return {**dict(zip(FEATURES[way], scaled.tolist(), strict=True)), "constant": constant}


def judge_way(way: SearchSide, splits: Sequence[Split]) -> dict[str, Any]:
    """Judge the collections one by one, by a model that is fitted on the other ones of TRAINED."""
    figures: dict[str, Any] = {}
    print(f"\n{way:<24}{'questions':>10}{'unanswered':>11}{'AUROC':>8}{'ECE':>8}{'refused':>9}")
    for split in splits:
        others = [other for other in splits if other.collection in TRAINED and other.collection != split.collection]
        if not others:
            continue
        model = fit_way(way, others)
        odds = split.matrix(way) @ [model[name] for name in FEATURES[way]] + model["constant"]
        probabilities, answered = 1 / (1 + np.exp(-odds)), split.answered
        row = {
            "questions": len(answered),
            "unanswered": int((~answered).sum()),
            "auroc": auroc(answered, probabilities),
            "ece": calibration_error(answered, probabilities, split.weights),
            "refused": refused_share(answered, probabilities),
        }
        figures[f"{split.collection}, {split.name}"] = row
        name = f"{split.collection}, {split.name}"
        print(
            f"{name:<24}{row['questions']:>10}{row['unanswered']:>11}{row['auroc']:>8.3f}{row['ece']:>8.3f}"
            f"{row['refused']:>9.2f}",
            flush=True,
        )
    return figures


def write_models(models: dict[SearchSide, dict[str, float]]) -> None:
    """Write the module that the service reads."""
    head, mark, _ = OUT.read_text().partition("] = {\n")
    rows = "".join(
        f'    "{way}": {{' + ", ".join(f'"{name}": {value:.4f}' for name, value in model.items()) + "},\n"
        for way, model in models.items()
    )
    OUT.write_text(f"{head}{mark}{rows}}}\n")
    print(f"Written to {OUT}", flush=True)


if __name__ == "__main__":
    main()
