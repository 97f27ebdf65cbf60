"""Search quality on the judged collections does not decrease."""

import pytest

from bench import quality

pytestmark = [pytest.mark.shared, pytest.mark.slow]
MODEL = "all-MiniLM-L6-v2"
# Figures of docs/benchmarks.md; raise them after an improvement.
BASELINE_MEANS = {
    "bench-v0": {"semantic": 0.8508, "keyword": 0.8543, "hybrid": 0.8797},
    "cranfield": {"semantic": 0.3707, "keyword": 0.3643, "hybrid": 0.4113},
    "longdocs": {"semantic": 0.8629, "keyword": 0.9456, "hybrid": 0.9279},
}
LOSS = 0.005


@pytest.mark.parametrize("name", sorted(BASELINE_MEANS))
def test_a_collection_is_searched_as_well_as_before(db, shared_data, tmp_path, monkeypatch, name):
    monkeypatch.setattr(quality, "RESULTS_FOLDER", tmp_path)
    model, tokenizer = quality.load_ports(MODEL)
    folder = next(path for path in quality.list_collections(shared_data) if path.name == name)
    embedder, collection = quality.CachedEmbedder(model, MODEL), quality.Collection(folder)
    embedder.embed_cached([question["text"] for question in collection.questions], "query")
    figures = quality.judge_collection(quality.IndexedCollection(db, collection, embedder, tokenizer), collection)
    lost = {
        setting: row["mean"] for setting, row in figures.items() if row["mean"] < BASELINE_MEANS[name][setting] - LOSS
    }
    assert not lost, f"{name} had {BASELINE_MEANS[name]}"
