"""The wording of the product's code: names of locals, first sentences of docstrings, public function names.

The limits may fall and never rise. A name of `VAGUE` says nothing; a docstring begins with a verb or a noun.
"""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
PACKAGES = ("api", "connectors", "flows", "local", "retrieval", "ui")
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
    "vague locals, %": 0.6,
    "docstrings that begin with a relative clause, %": 0.2,
    "idioms per 100 words of docstrings": 0.1,
    "public functions of one word, %": 67.1,
}


@pytest.fixture(scope="module")
def figures() -> dict[str, float]:
    counts: Counter[str] = Counter()
    for package in PACKAGES:
        for path in sorted((PROJECT / package).rglob("*.py")):
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
    assert figures[figure] <= LIMITS[figure]
