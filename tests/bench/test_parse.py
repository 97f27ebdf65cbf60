"""Measures of `bench/parse` detect text errors, and drawn files match their ground truth."""

import base64
from random import Random

import pytest

from bench.parse import __main__ as bench
from bench.parse import cases, drawn, engines
from bench.parse.measures import Score, Table, score_noise, score_tables, score_words, split_words
from tests.nightly import nightly_except

PRICES = Table.of_rows([["Berth", "Summer", None], ["", "Days", "Price"], ["North", "12", "340"], ["South", "", "95"]])
WRITTEN = "| Berth | Summer | |\n|---|---|---|\n| | Days | Price |\n| North | 12 | 340 |\n| South | | 95 |\n"


def figures(text: str) -> dict[str, float | None]:
    score = Score()
    score_tables(score, [PRICES], text)
    return score.figures()


def test_a_table_as_it_was_written_loses_only_what_a_merged_header_cannot_say():
    right = figures(WRITTEN)
    assert right["rows"] == 1
    assert right["tables"] == pytest.approx(22 / 23)


@pytest.mark.parametrize(
    ("change", "rows"), [(("| North | 12 | 340 |", "North\n\n12\n\n340"), 0.75), (("| 340 |", "| |"), 0.75)]
)
def test_a_torn_row_and_a_lost_cell_are_seen(change, rows):
    torn = figures(WRITTEN.replace(*change))
    assert torn["rows"] == rows
    assert torn["tables"] < 0.9


def test_words_in_another_order_are_all_found_and_not_in_order():
    score = Score()
    score_words(score, "one two three four five six", "four five six one two three")
    assert score.figures() | {"recall": 1, "order": 0.5} == score.figures()


DRAWING_KINDS = ["columns", "tables", "right_to_left", "clauses", "charts", "odd_pages", "languages"]


@pytest.mark.service
@pytest.mark.parametrize("kind", nightly_except(DRAWING_KINDS, "tables"))
def test_a_drawn_file_holds_the_words_of_its_truth(tmp_path, kind):
    drawings = list(getattr(drawn, f"draw_{kind}")(tmp_path, Random(7)))
    assert len({path for path, _ in drawings}) >= 4
    for path, drawing in drawings:
        expected, parsed = set(split_words(drawing.words)), set(split_words(engines.parse_with_pdfium(path)))
        assert len(expected - parsed) <= 0.02 * len(expected), (drawing.name, expected - parsed)


def test_noise_is_base64_and_unprintable_text():
    score = Score()
    code = base64.b64encode(bytes(range(90))).decode()
    score_noise(score, f"Deliver the pump \x02 {code} https://example.org/{'a' * 80}")
    assert score.figures()["noise"] == 2 / 6


def test_the_service_refuses_foreign_kinds_and_leaves_codes_out(tmp_path):
    total = Score()
    for case in cases.iter_foreign(tmp_path, 7):
        bench.score_file(total, case, engines.parse_with_service(case.path))
    figures = total.figures()
    assert figures["right"] == 1
    assert figures["noise"] == 0
