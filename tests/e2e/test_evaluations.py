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
