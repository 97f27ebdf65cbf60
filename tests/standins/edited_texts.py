"""Texts of 200 chunks (paragraphs, Markdown, table rows, CJK) and random edits of one part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

_TEXT = """the a of to in and with over under between before after system river engine valve pressure report winter
harbour signal market letter copper window garden mountain bridge travel silent narrow bright heavy careful
seven twelve measured observed reported increased carried returned followed opened closed water air stone
metal paper light"""
WORDS = _TEXT.split()
HAN = "的一是在不了有和人这中大为上个国我以要他时来用们生到作地于出就分对成会可主发年动同工也能下过子说产种"
CHUNKS = 200
EDITS = ("replace", "insert", "remove", "move", "two words")


def _sentence(chance: Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(8, 18))).capitalize() + "."


def _paragraph(chance: Random) -> str:
    return " ".join(_sentence(chance) for _ in range(chance.randint(3, 7)))


def _markdown(chance: Random) -> str:
    kind = chance.random()
    if kind < 0.15:
        return f"## {' '.join(chance.choices(WORDS, k=4)).title()}\n\n{_paragraph(chance)}"
    if kind < 0.3:
        return "\n".join(f"- {_sentence(chance)}" for _ in range(chance.randint(3, 6)))
    return _paragraph(chance)


def _row(chance: Random) -> str:
    cells = (str(chance.randrange(100_000)), *chance.choices(WORDS, k=3), f"{chance.random() * 100:.2f}")
    return f"| {' | '.join(cells)} |"


def _cjk(chance: Random) -> str:
    sentences = ("".join(chance.choices(HAN, k=chance.randint(10, 25))) for _ in range(chance.randint(2, 5)))
    return "".join(f"{sentence}。" for sentence in sentences)


@dataclass(frozen=True)
class Kind:
    """Generator of parts, their separator, and the number of parts in 200 chunks of 254 tokens."""

    part: Callable[[Random], str]
    between: str
    parts: int


KINDS = {
    "prose": Kind(_paragraph, "\n\n", 620),
    "Markdown": Kind(_markdown, "\n\n", 600),
    "tables": Kind(_row, "\n", 3500),
    "CJK": Kind(_cjk, "\n\n", 720),
}


def edited(parts: list[str], edit: str, kind: Kind, chance: Random) -> list[str]:
    """Return the parts with a random edit of one part."""
    position, new = chance.randrange(len(parts)), list(parts)
    if edit == "replace":
        new[position] = kind.part(chance)
    elif edit == "insert":
        new.insert(position, kind.part(chance))
    elif edit == "remove":
        del new[position]
    elif edit == "move":
        moved = new.pop(position)
        new.insert(chance.randrange(len(new)), moved)
    else:
        new[position] = _with_two_words_changed(new[position], chance)
    return new


def _with_two_words_changed(part: str, chance: Random) -> str:
    if part[0] in HAN:
        position = chance.choice([at for at in range(len(part) - 1) if "。" not in part[at : at + 2]])
        return part[:position] + "".join(chance.choices(HAN, k=2)) + part[position + 2 :]
    words = part.split(" ")
    for position in chance.sample([at for at, word in enumerate(words) if word.isalpha()], 2):
        words[position] = chance.choice(WORDS)
    return " ".join(words)
