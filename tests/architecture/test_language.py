"""Wording of the product and the tests: names, docstrings, comments, errors, `--help`, pages of docs."""

import ast
import re
from pathlib import Path

import pytest

from retrieval.settings import PROJECT_ROOT
from tests.architecture import wording

PRODUCT_PACKAGES = ("api", "connectors", "flows", "local", "retrieval", "ui", "bench")
# Twice to three times the figures of dlt, Airweave, polar and Prefect's server.
PRODUCT_LIMITS = {
    "words of docstrings per 100 lines": 75.0,
    "clause words per 100 words of docstrings": 3.0,
    "idioms per 100 words of docstrings": 0.3,
    "docstrings that begin with a relative clause, %": 1.0,
    "lines without a comment, %": 99.0,
    "functions of one word, %": 30.0,
    "one-word constants in more than three modules": 10,
    "vague locals, %": 0.5,
    "vague parameters, %": 1.0,
    "vague attributes, %": 1.0,
    "vague functions, %": 0.6,
}
TEST_LIMITS = {
    "clause words per 100 words of docstrings": 4.0,
    "vague locals, %": 2.0,
    "vague parameters, %": 2.0,
    "vague functions, %": 1.0,
}


PHRASES = re.compile(
    r"\b(whom|whoever|somebody|nobody|told|any more|put off|let go|lies?|stands(?! for))\b", re.IGNORECASE
)
"""Of pages, messages of errors and `--help`."""
SENTENCE_WORDS = 25
"""Of a page, on average."""
DOC_PAGES = [
    *(path for path in PROJECT_ROOT.glob("*.md")),
    *(path for folder in ("docs", "clients", "deploy") for path in (PROJECT_ROOT / folder).rglob("*.md")),
]


@pytest.fixture(scope="module")
def figures_of_product() -> dict[str, float]:
    return wording.measure(
        [path for package in PRODUCT_PACKAGES for path in sorted((PROJECT_ROOT / package).rglob("*.py"))]
    )


@pytest.fixture(scope="module")
def figures_of_tests() -> dict[str, float]:
    return wording.measure(sorted((PROJECT_ROOT / "tests").rglob("*.py")))


@pytest.mark.parametrize("figure", PRODUCT_LIMITS)
def test_the_wording_of_the_product_stays_within_its_limit(figures_of_product, figure):
    assert figures_of_product[figure] <= PRODUCT_LIMITS[figure], (
        f"Reword the names or docstrings of this change: {figure}."
    )


@pytest.mark.parametrize("figure", TEST_LIMITS)
def test_the_wording_of_the_tests_stays_within_its_limit(figures_of_tests, figure):
    assert figures_of_tests[figure] <= TEST_LIMITS[figure], f"Reword the names or docstrings of this change: {figure}."


@pytest.mark.parametrize("page", DOC_PAGES, ids=lambda path: path.relative_to(PROJECT_ROOT).as_posix())
def test_a_page_has_short_sentences_and_no_phrase_of_the_list(page):
    text = read_prose(page)
    lengths = [len(words) for sentence in split_sentences(text) if (words := re.findall(r"[\w'-]+", sentence))]
    assert sum(lengths) <= SENTENCE_WORDS * len(lengths), (
        f"Shorten sentences: they have {sum(lengths) / len(lengths):.1f} words on average, of at most {SENTENCE_WORDS}."
    )
    assert not (phrases := PHRASES.findall(text)), f"Reword {sorted(set(phrases))}."


def read_prose(page: Path) -> str:
    """A page without blocks, comments, inline code and addresses of links."""
    text = re.sub(
        r"^\s*```.*?^\s*```$|<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    return re.sub(r"`[^`]*`", "code", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text))


def split_sentences(text: str) -> list[str]:
    """Sentences of paragraphs and list items; headings and tables have none."""
    parts = re.split(r"\n\s*\n|\n(?=\s*(?:[-*|#]|\d+\.)\s?)", text)
    parts = [" ".join(part.split()) for part in parts if part.strip() and part.strip()[0] not in "|#"]
    return [sentence for part in parts for sentence in re.split(r"(?<=[.!?])\W*\s+", part)]


def test_errors_and_help_have_no_phrase_of_the_list():
    bad = []
    for package in (*PRODUCT_PACKAGES, "clients/python/retrieval_client"):
        for path in sorted((PROJECT_ROOT / package).rglob("*.py")):
            # Literals that are joined over lines are one text.
            if not PHRASES.search(re.sub(r"[\"']\s*\n\s*[fr]*[\"']", "", source := path.read_text())):
                continue
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.Raise) or (isinstance(node, ast.keyword) and node.arg == "help"):
                    texts = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
                    bad += [
                        f"{path.relative_to(PROJECT_ROOT)}:{node.lineno}: {text}"
                        for text in texts
                        if isinstance(text, str) and PHRASES.search(text)
                    ]
    assert not bad, "Reword these messages: PHRASES in tests/architecture/test_language.py lists what they contain."
