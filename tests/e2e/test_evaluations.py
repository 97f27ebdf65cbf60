"""Settings of the search compared over judged questions, through the real processes."""

from __future__ import annotations

import json
import re

import pytest

ANIMALS = ("owl", "fox", "otter", "heron", "badger", "salmon", "beetle", "lizard", "stork", "marten")


@pytest.fixture(scope="module")
def space(service):
    runs = [
        service.text(f"The {animal} {number} lives by the river. It hunts at night and sleeps by day.", name=animal)
        for number, animal in enumerate(ANIMALS)
    ]
    service.wait(*(run["ingestJobRunId"] for run in runs))
    return service


def create_evaluation(space, questions, name="animals"):
    body = {"namespaceId": space.namespace, "name": name, "questions": questions}
    return space.ok(space.client.post("/v1/evaluations", json=body))["evaluation"]


def finished(space, evaluation, settings):
    path = f"/v1/evaluations/{evaluation['id']}/runs"
    body = {"namespaceId": space.namespace, "settings": settings}
    run = space.ok(space.client.post(path, json=body))["run"]
    assert run["status"] == "QUEUED"

    def ended():
        answer = space.client.get(f"{path}/{run['id']}", params={"namespaceId": space.namespace})
        evaluation_run = space.ok(answer)["run"]
        return evaluation_run if evaluation_run["status"] in {"COMPLETED", "FAILED"} else None

    return space.until(ended)


@pytest.mark.slow
def test_settings_are_compared_over_questions(space):
    documents = {document["name"]: document for document in space.documents()}
    questions = [
        {
            "query": f"where does the {animal} live",
            "relevant": [{"documentId": documents[animal]["id"], "start": 0, "end": 20, "grade": 3}],
        }
        for animal in ANIMALS
    ]
    questions.append({"query": "unicorn", "relevant": [{"externalId": "never ingested"}]})
    evaluation = create_evaluation(space, questions)
    assert evaluation["questionCount"] == len(ANIMALS) + 1
    assert evaluation["unresolved"] == ["never ingested"]
    settings = [
        {"name": "meaning", "semanticWeight": 1, "keywordWeight": 0},
        {"name": "words", "semanticWeight": 0, "keywordWeight": 1, "topK": 20, "perDocument": 1},
        {"name": "both", "semanticWeight": 0.5, "keywordWeight": 0.5, "recency": {"halfLifeDays": 30, "weight": 0.1}},
    ]
    run = finished(space, evaluation, settings)
    assert run["status"] == "COMPLETED", run["error"]
    by_name = {setting["name"]: setting for setting in run["settings"]}
    assert set(by_name) == {"meaning", "words", "both"}
    share = len(ANIMALS) / (len(ANIMALS) + 1)
    words = by_name["words"]
    assert words["metrics"]["recallAt10"]["value"] == pytest.approx(share)
    assert words["metrics"]["ndcgAt10"]["value"] == pytest.approx(share)
    assert words["metrics"]["spanRecallAt10"]["value"] == pytest.approx(1)
    assert by_name["meaning"]["metrics"]["mrr"]["deltaCi95"] is None
    low, high = words["metrics"]["mrr"]["deltaCi95"]
    assert low <= high
    assert 0 < words["latencyMs"]["p50"] <= words["latencyMs"]["p95"]
    assert run["questions"][0]["ranks"]["words"] == [1]
    assert run["questions"][-1]["ranks"]["words"] == [None]
    hits = space.search(questions[3]["query"], topK=100)
    rank = [hit["document"]["id"] for hit in hits].index(documents[ANIMALS[3]]["id"]) + 1
    assert run["questions"][3]["ranks"]["meaning"] == [rank]


@pytest.mark.slow
def test_questions_in_files_are_measured_from_the_command_line(space):
    """Files in BEIR's format, by a path relative to the working folder."""
    folder = space.home / "beir"
    (folder / "qrels").mkdir(parents=True)
    queries = [{"_id": f"q{at}", "text": f"where does the {animal} live"} for at, animal in enumerate(ANIMALS)]
    (folder / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries))
    judged = "".join(f"q{at}\t{animal}\t2\n" for at, animal in enumerate(ANIMALS)) + "q0\tno such document\t0\n"
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
    command = ("eval", "beir/queries.jsonl", "--namespace", space.namespace)
    done = space.run(*command, "--setting", "words=0", "--minimum", "ndcgAt10=0.99")
    assert done.returncode == 0, done.stderr
    assert f"{len(ANIMALS)} questions" in done.stdout
    assert re.search(r"^words +1\.0000 +1\.0000 +1\.0000 +1\.0000 +- ", done.stdout, re.MULTILINE), done.stdout
    parameters = {"namespaceId": space.namespace}
    names = [row["name"] for row in space.ok(space.client.get("/v1/evaluations", params=parameters))["evaluations"]]
    assert "queries.jsonl" not in names
    (folder / "qrels" / "test.tsv").write_text(judged.replace("\towl\t", "\tno owl\t"))
    worse = space.run(*command, "--setting", "words=0", "--minimum", "recallAt10=0.95")
    assert (worse.returncode, worse.stderr.count("recallAt10 is 0.9000, below 0.9500")) == (1, 1), worse.stderr


@pytest.mark.slow
def test_a_model_that_does_not_pass_its_gate_is_not_swapped_in(space):
    questions = [{"query": f"where does the {animal} live", "relevant": [{"externalId": animal}]} for animal in ANIMALS]
    questions.append({"query": "unicorn", "relevant": [{"externalId": "never ingested"}]})
    evaluation = create_evaluation(space, questions, name="gate")
    path, static = f"/v1/namespaces/{space.namespace}", {"provider": "LOCAL", "model": "wordllama-l2-supercat-256"}
    hits_before = space.search("where does the owl live")

    def changed(**gate):
        gate_body = {"evaluationId": evaluation["id"], "metric": "recallAt10", **gate}
        body = {"embeddingModelConfig": static, "reembed": True, "gate": gate_body}
        run = space.ok(space.client.patch(path, json=body))["ingestJobRunId"]

        def ended():
            parameters = {"namespaceId": space.namespace}
            run_state = space.ok(space.client.get(f"/v1/ingest-job-runs/{run}", params=parameters))
            return run_state if run_state["status"] == "COMPLETED" else None

        return space.until(ended)

    refused = changed(minimum=1.0)
    assert refused["outcome"] == "FAILED"
    assert "recallAt10 is 0.9" in refused["notices"][0]["reason"]
    assert space.ok(space.client.get(path))["namespace"]["embeddingModelConfig"]["model"] != static["model"]
    assert space.search("where does the owl live") == hits_before
    space.expects("worker", "reembed")
    passed = changed(notWorseThan=0.2)
    assert passed["outcome"] == "SUCCEEDED", passed["notices"]
    assert space.ok(space.client.get(path))["namespace"]["embeddingModelConfig"]["model"] == static["model"]
