"""Files of judged questions for `retrieval eval`."""

from __future__ import annotations

import json

import pytest

from retrieval_client.cli import evaluate
from retrieval_client.cli.output import CommandError

QUERIES = [{"_id": "1", "text": "owls"}, {"_id": "2", "text": "tides"}, {"_id": "3", "text": "nobody judged this"}]
OWLS = {"query": "owls", "relevant": [{"externalId": "a", "grade": 2}, {"externalId": "b", "grade": 1}]}
TIDES = {"query": "tides", "relevant": [{"externalId": "c", "grade": 4}]}


@pytest.fixture
def written(tmp_path):
    def write(name, *lines):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
        return file

    return write


@pytest.mark.parametrize("name", ["qrels/test.tsv", "qrels.tsv", "queries.tsv", "elsewhere.tsv"])
@pytest.mark.parametrize(
    "lines",
    [
        "query-id\tcorpus-id\tscore\n1\ta\t2\n1\tb\t1\n1\tz\t0\n2\tc\t4\n",
        "1\t0\ta\t2\n1\t0\tb\t1\n1\t0\tz\t-1\n2\t0\tc\t4\n",
    ],
    ids=["beir", "trec_eval"],
)
def test_judgements_lie_beside_the_questions_or_where_they_are_named(written, name, lines):
    file, judged = written("queries.jsonl", *QUERIES), written(name, lines)
    assert evaluate.read_questions(file, judged if name == "elsewhere.tsv" else None) == [OWLS, TIDES]


@pytest.mark.parametrize(
    ("lines", "judged", "message"),
    [
        (["no json\n"], "", "line 1"),
        ([QUERIES[0], {"text": "no id"}], "", "line 2"),
        ([QUERIES[0]], None, "--qrels"),
        ([QUERIES[0]], "1 a 2\n1 b 1\n", "no question|between tabs"),
        ([QUERIES[0]], "1\ta\t7\n", "grades"),
        ([QUERIES[0]], "2\ta\t1\n", "no question"),
        ([], "1\ta\t1\n", "no question"),
    ],
)
def test_what_cannot_be_read_is_named(written, lines, judged, message):
    file = written("queries.jsonl", *lines)
    if judged is not None:
        written("qrels.tsv", judged)
    with pytest.raises(CommandError, match=message) as raised:
        evaluate.read_questions(file, None)
    assert raised.value.exit_code == 2


def test_a_setting_is_a_weight_or_json():
    assert evaluate.parse_setting("mine=0.25") == {"name": "mine", "semanticWeight": 0.25, "keywordWeight": 0.75}
    setting = {"semanticWeight": 1, "keywordWeight": 0, "perDocument": 1}
    assert evaluate.parse_setting(f"mine={json.dumps(setting)}") == {"name": "mine", **setting}
    for wrong in ("mine", "mine=", "=0.5", "mine=2", "mine=true", "mine=[1]"):
        with pytest.raises(CommandError, match="--setting"):
            evaluate.parse_setting(wrong)
