"""Fit and judge the models of `retrieval.search.answerability`.

    python -m bench.answerable [--write] [--only longdocs]

Half of each collection's documents are removed at random, twice: questions without a relevant document become
unanswerable. Texts with spans are cut into pieces of about 1,500 characters. `bench-v0` also counts unchanged. A model
is judged on collections outside of its fit; both kinds of questions count half. `--write` updates
`answerability_models.py`.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench import quality
from bench.harness import DATA_FOLDER, PROJECT_FOLDER, migrated_database, write_figures
from retrieval.database import database
from retrieval.evaluations.calibration import calibration_error, compute_auroc, refused_share
from retrieval.search.answerability import SearchSide, choose_side, judge_probability

FEATURE_NAMES: dict[SearchSide, tuple[str, ...]] = {
    "semantic": ("nearest", "lead"),
    "keyword": ("share",),
    "hybrid": ("nearest", "share"),
}
# Collections with one answer per question. The classic sets (cacm, cranfield, med, time) answer by topic and are judged
# only.
TRAINING_COLLECTIONS = ("bench-v0", "xquad", "longdocs")
PIECE_CHARACTERS = 1500
HALF_COUNT = 2
# Of all collections against the prior of a fit.
EXAMPLE_WEIGHT = 600.0
RIDGE_WEIGHT = 1.0
MODELS_PATH = PROJECT_FOLDER / "retrieval" / "search" / "answerability_models.py"


@dataclass(frozen=True, slots=True)
class Split:
    """Questions of a reduced collection, with features by search mode."""

    collection: str
    name: str
    features: dict[SearchSide, list[dict[str, float]]]
    is_answered: Any

    @property
    def weights(self) -> Any:
        """Return weights with half for answered questions."""
        is_answered = self.is_answered
        return np.where(is_answered, 0.5 / max(is_answered.sum(), 1), 0.5 / max((~is_answered).sum(), 1))

    def feature_matrix(self, way: SearchSide) -> Any:
        return np.array([[row[name] for name in FEATURE_NAMES[way]] for row in self.features[way]])


class CachedModel(quality.CachedEmbedder):
    """Model with cached vectors of texts, shared by halves of a collection."""

    def __init__(self, model: Any, name: str) -> None:
        super().__init__(model, name)
        self.of_documents: dict[str, Any] = {}

    def embed_cached(self, texts: list[str], kind: str) -> Any:
        cached_vectors = self.query_vectors if kind == "query" else self.of_documents
        new_texts = [text for text in dict.fromkeys(texts) if text not in cached_vectors]
        if new_texts:
            cached_vectors.update(zip(new_texts, super().embed_cached(new_texts, kind), strict=True))
        return np.stack([cached_vectors[text] for text in texts])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    model, tokenizer = quality.load_ports(options.model)
    embedder = CachedModel(model, options.model)
    splits: list[Split] = []
    with migrated_database() as (_, url):
        db = database.Database(url)
        for folder in quality.list_collections(DATA_FOLDER):
            if options.only in ("", folder.name):
                splits += measure_splits(db, quality.Collection(folder), embedder, tokenizer)
                print(f"{folder.name}: asked", flush=True)
        db.close()
    figures: dict[str, Any] = {"model": options.model}
    shares = {way: measure_shares(way, splits) for way in FEATURE_NAMES}
    for way in FEATURE_NAMES:
        figures[way] = {**judge_way(way, splits), "answered": shares[way]}
        print(f"{way}, answered: {shares[way]}", flush=True)
    write_figures("answerable", figures)
    if options.write:
        trained = [split for split in splits if split.collection in TRAINING_COLLECTIONS]
        write_models({"SIDE_MODELS": {way: fit_way(way, trained) for way in FEATURE_NAMES}, "ANSWERED_SHARES": shares})


def measure_splits(db: Any, collection: quality.Collection, embedder: CachedModel, tokenizer: Any) -> Iterator[Split]:
    """Ask all questions of a collection's halves, and of the whole with unanswerable ones."""
    relevant = find_relevant(collection)
    documents = collection.documents
    names = sorted(document["id"] for document in documents)
    embedder.embed_cached([question["text"] for question in collection.questions], "query")
    removals: dict[str, set[str]] = {} if all(relevant.values()) else {"whole": set()}
    generator = random.Random(collection.name)
    removals |= {f"half {number}": set(generator.sample(names, len(names) // 2)) for number in range(1, HALF_COUNT + 1)}
    for name, removed in removals.items():
        collection.documents = [document for document in documents if document["id"] not in removed]
        shelf = quality.IndexedCollection(db, collection, embedder, tokenizer)
        features: dict[SearchSide, list[dict[str, float]]] = {
            choose_side(*weights): [
                dict(shelf.run_search(question["text"], weights, quality.TOP_K).answerability.features or {})
                for question in collection.questions
            ]
            for weights in quality.SEARCH_WEIGHTS.values()
        }
        is_answered = np.array([bool(relevant[question["id"]] - removed) for question in collection.questions])
        if is_answered.any() and not is_answered.all():
            yield drop_unmeasured(Split(collection.name, name, features, is_answered))


def drop_unmeasured(split: Split) -> Split:
    """Drop questions without results in a search mode."""
    has_features = np.array(
        [all(split.features[way][at] for way in FEATURE_NAMES) for at in range(len(split.is_answered))]
    )
    features = {
        way: [row for row, is_kept in zip(rows, has_features, strict=True) if is_kept]
        for way, rows in split.features.items()
    }
    return Split(split.collection, split.name, features, split.is_answered[has_features])


def find_relevant(collection: quality.Collection) -> dict[str, set[str]]:
    """Return relevant documents by question; with spans, pieces become the documents."""
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
    """Yield ranges of about PIECE_CHARACTERS that end with a line or sentence."""
    start = 0
    while start < len(text):
        end = min(len(text), start + PIECE_CHARACTERS)
        if end < len(text):
            # Prefer the end of a line, then of a sentence, in the second half.
            line, sentence = (text.rfind(mark, start + PIECE_CHARACTERS // 2, end) + 1 for mark in ("\n", ". "))
            end = line or sentence or end
        yield start, end
        start = end


def fit_way(way: SearchSide, splits: Sequence[Split]) -> dict[str, float]:
    """Fit a logistic regression with equal weight per collection."""
    features = np.vstack([split.feature_matrix(way) for split in splits])
    is_answered = np.concatenate([split.is_answered for split in splits]).astype(float)
    counts = {
        split.collection: sum(other_split.collection == split.collection for other_split in splits) for split in splits
    }
    weights = np.concatenate([split.weights / counts[split.collection] for split in splits])
    weights *= EXAMPLE_WEIGHT / weights.sum()
    mean, spread = features.mean(axis=0), features.std(axis=0) + 1e-9
    design = np.column_stack([(features - mean) / spread, np.ones(len(features))])
    # The constant is nearly unregularized.
    ridge = np.diag([RIDGE_WEIGHT] * (design.shape[1] - 1) + [1e-6])
    solution = np.zeros(design.shape[1])
    for _ in range(50):
        probability = 1 / (1 + np.exp(-design @ solution))
        gradient = design.T @ (weights * (is_answered - probability)) - ridge @ solution
        hessian = (design * (weights * probability * (1 - probability))[:, None]).T @ design + ridge
        solution += np.linalg.solve(hessian, gradient)
    scaled = solution[:-1] / spread
    constant = float(solution[-1] - scaled @ mean)
    return {**dict(zip(FEATURE_NAMES[way], scaled.tolist(), strict=True)), "constant": constant}


def judge_way(way: SearchSide, splits: Sequence[Split]) -> dict[str, Any]:
    """Judge each collection by a model fitted on the other training collections."""
    figures: dict[str, Any] = {}
    print(f"\n{way:<24}{'questions':>10}{'unanswered':>11}{'AUROC':>8}{'ECE':>8}{'refused':>9}")
    for split in splits:
        training_splits = [
            training_split
            for training_split in splits
            if training_split.collection in TRAINING_COLLECTIONS and training_split.collection != split.collection
        ]
        if not training_splits:
            continue
        probabilities, is_answered = estimate_held_out(way, split, training_splits), split.is_answered
        row = {
            "questions": len(is_answered),
            "unanswered": int((~is_answered).sum()),
            "auroc": compute_auroc(is_answered, probabilities),
            "ece": calibration_error(is_answered, probabilities, split.weights),
            "refused": refused_share(is_answered, probabilities),
        }
        figures[f"{split.collection}, {split.name}"] = row
        name = f"{split.collection}, {split.name}"
        print(
            f"{name:<24}{row['questions']:>10}{row['unanswered']:>11}{row['auroc']:>8.3f}{row['ece']:>8.3f}"
            f"{row['refused']:>9.2f}",
            flush=True,
        )
    return figures


def estimate_held_out(way: SearchSide, split: Split, training_splits: Sequence[Split]) -> Any:
    """Return the probabilities of a split by a model fitted on other collections."""
    model = fit_way(way, training_splits)
    odds = split.feature_matrix(way) @ [model[name] for name in FEATURE_NAMES[way]] + model["constant"]
    return 1 / (1 + np.exp(-odds))


def measure_shares(way: SearchSide, splits: Sequence[Split]) -> dict[str, float]:
    """Return the share of answered questions by verdict; collections, and both kinds of questions, weigh alike."""
    trained = [split for split in splits if split.collection in TRAINING_COLLECTIONS]
    totals: dict[str, float] = {"likely": 0.0, "unclear": 0.0, "unlikely": 0.0}
    answered = dict(totals)
    for split in trained:
        others = [other_split for other_split in trained if other_split.collection != split.collection]
        if not others:
            continue
        weights = split.weights / sum(other_split.collection == split.collection for other_split in trained)
        probabilities = estimate_held_out(way, split, others)
        for probability, weight, is_answered in zip(probabilities, weights, split.is_answered, strict=True):
            verdict = judge_probability(float(probability))
            totals[verdict] += weight
            answered[verdict] += weight * bool(is_answered)
    return {verdict: round(float(answered[verdict] / total), 2) for verdict, total in totals.items() if total}


def write_models(tables: dict[str, dict[SearchSide, dict[str, float]]]) -> None:
    """Replace the tables in the module of the service."""
    text = MODELS_PATH.read_text()
    for name, rows in tables.items():
        start = text.index("{\n", text.index(name)) + 2
        end = text.index("\n}", start) + 1
        lines = (
            f'    "{way}": {{' + ", ".join(f'"{key}": {round(value, 4)}' for key, value in row.items()) + "},\n"
            for way, row in rows.items()
        )
        text = text[:start] + "".join(lines) + text[end:]
    MODELS_PATH.write_text(text)
    print(f"Written to {MODELS_PATH}", flush=True)


if __name__ == "__main__":
    main()
