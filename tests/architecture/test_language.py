"""Limits for the wording of the product: local names, docstrings, function names, errors, `--help` and docs."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from retrieval.settings import PROJECT_ROOT

PRODUCT_PACKAGES = ("api", "connectors", "flows", "local", "retrieval", "ui")
VAGUE = re.compile(
    r"found|asked|told|said|one|made|left|held|seen|known|taken|wanted|given|here|now|way|place|some|meant|sent|there"
    r"|each|before|after|shown|kept|ours|own|tried|gone|listed|named|was|had|who|what|where|then|again|more|most|all"
    r"|every|rest|others?"
)
RELATIVE = re.compile(r"(What|Whether|The same|Of |As |Who|Whom|How|Where|From now|Nothing|Nobody|Each|All )")
IDIOMS = re.compile(
    r"\b(whom|whoever|somebody|nobody|told|tells|said|says|asked|asks|meant|gone|come|comes|goes on|any more|let go"
    r"|put off|stands|lies|lie)\b",
    re.IGNORECASE,
)
LIMITS = {
    "vague locals, %": 0.4,
    "docstrings that begin with a relative clause, %": 0.05,
    "idioms per 100 words of docstrings": 0.086,
    "public functions of one word, %": 26.2,
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
def figures() -> dict[str, float]:
    counts: Counter[str] = Counter()
    for package in PRODUCT_PACKAGES:
        for path in sorted((PROJECT_ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                count_words(node, counts)
    shares = (
        ("vague", "locals", 100),
        ("relative", "docstrings", 100),
        ("idioms", "words", 100),
        ("short", "functions", 100),
    )
    return {
        name: factor * counts[part] / counts[whole] for name, (part, whole, factor) in zip(LIMITS, shares, strict=True)
    }


def count_words(node: ast.AST, counts: Counter[str]) -> None:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        counts["locals"] += 1
        counts["vague"] += VAGUE.fullmatch(node.id) is not None
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module) and (
        text := ast.get_docstring(node)
    ):
        counts["docstrings"] += 1
        counts["words"] += len(text.split())
        counts["relative"] += RELATIVE.match(text) is not None
        counts["idioms"] += len(IDIOMS.findall(text))
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
        counts["functions"] += 1
        counts["short"] += "_" not in node.name


@pytest.mark.parametrize("figure", LIMITS)
def test_the_wording_of_the_code_stays_below_its_limit(figures, figure):
    assert figures[figure] <= LIMITS[figure], f"Reword the names or docstrings of this change: {figure} rose."


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
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Raise) or (isinstance(node, ast.keyword) and node.arg == "help"):
                    texts = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
                    bad += [
                        f"{path.relative_to(PROJECT_ROOT)}:{node.lineno}: {text}"
                        for text in texts
                        if isinstance(text, str) and PHRASES.search(text)
                    ]
    assert not bad, "Reword these messages: PHRASES in tests/architecture/test_language.py lists what they contain."
