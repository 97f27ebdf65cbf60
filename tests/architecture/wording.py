"""Figures of the wording of a tree of Python modules: names, constants, docstrings and comments."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

VAGUE_NAMES = re.compile(
    r"found|asked|told|said|one|made|left|held|seen|known|taken|wanted|given|here|now|way|place|some|meant"
    r"|sent|there|each|before|after|shown|kept|ours|own|tried|gone|listed|named|was|had|who|what|where|then"
    r"|again|more|most|all|every|rest|other|others"
)
RELATIVE_START = re.compile(
    r"(What|Whether|The same|Of |As |Who|Whom|How|Where|From now|Nothing|Nobody|Each|All |By |Between|After which)"
)
CLAUSE_WORDS = re.compile(r"\b(which|that|whose|where|what|whether|those|it|its|them|ones?)\b", re.IGNORECASE)
IDIOMS = re.compile(
    r"\b(what is|is to be|are to be|beside|meanwhile|by then|goes? on|of it\b|of (?:its|their) own|none of"
    r"|somebody|nobody|told|tells?|said|says|asked|asks|meant|gone|let go|put off|any more|such an?|alone)\b",
    re.IGNORECASE,
)


def measure(paths: list[Path]) -> dict[str, float]:
    """Return the figures of the modules by name."""
    counts: Counter[str] = Counter()
    modules_by_constant: dict[str, set[Path]] = defaultdict(set)
    for path in paths:
        source = path.read_text()
        tree = ast.parse(source)
        nodes = list(ast.walk(tree))
        lines = source.split("\n")
        counts["lines"] += len(lines)
        counts["comments"] += sum(line.lstrip().startswith("#") for line in lines)
        for docstring in _docstrings(nodes):
            counts["docstrings"] += 1
            counts["words"] += len(docstring.split())
            counts["clauses"] += len(CLAUSE_WORDS.findall(docstring))
            counts["idioms"] += len(IDIOMS.findall(docstring))
            counts["relative"] += RELATIVE_START.match(docstring.strip()) is not None
        for kind, name in _names(nodes):
            counts[kind] += 1
            counts[f"vague {kind}"] += VAGUE_NAMES.fullmatch(name.lstrip("_")) is not None
            counts["short functions"] += kind == "functions" and "_" not in name
        for name in _short_constants(tree):
            modules_by_constant[name].add(path)
    return {
        "words of docstrings per 100 lines": 100 * counts["words"] / counts["lines"],
        "clause words per 100 words of docstrings": 100 * counts["clauses"] / counts["words"],
        "idioms per 100 words of docstrings": 100 * counts["idioms"] / counts["words"],
        "docstrings that begin with a relative clause, %": 100 * counts["relative"] / counts["docstrings"],
        "lines without a comment, %": 100 - 100 * counts["comments"] / counts["lines"],
        "functions of one word, %": 100 * counts["short functions"] / counts["functions"],
        "one-word constants in more than three modules": sum(len(found) > 3 for found in modules_by_constant.values()),
        **{
            f"vague {kind}, %": 100 * counts[f"vague {kind}"] / counts[kind]
            for kind in ("locals", "parameters", "attributes", "functions")
        },
    }


def _docstrings(nodes: list[ast.AST]) -> Iterator[str]:
    """Yield docstrings, and strings below an assignment."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            yield from filter(None, [ast.get_docstring(node)])
        body = getattr(node, "body", None)
        for statement, following in pairwise(body) if isinstance(body, list) else ():
            match statement, following:
                case ast.Assign() | ast.AnnAssign(), ast.Expr(value=ast.Constant(value=str(text))):
                    yield text


def _names(nodes: list[ast.AST]) -> Iterator[tuple[str, str]]:
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield "locals", node.id
        elif isinstance(node, ast.arg) and node.arg not in {"self", "cls"}:
            yield "parameters", node.arg
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield "attributes", node.attr
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield "functions", node.name


def _short_constants(tree: ast.Module) -> Iterator[str]:
    """Yield names of module constants of one word."""
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in targets:
            if isinstance(target, ast.Name) and re.fullmatch(r"_?[A-Z]+", target.id):
                yield target.id.lstrip("_")
