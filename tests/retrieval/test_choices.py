"""What `include` and `exclude` choose, as people read them."""

from __future__ import annotations

import random
import time

import pytest

from retrieval import choices
from retrieval.choices import Choice, Subject

FILES = {
    "plans/2026/launch.txt": "text/plain",
    "plans/2026/drafts/launch.txt": "text/plain",
    "plans/budget.pdf": "application/pdf",
    "Clients/Ärzte/invoices/1.pdf": "application/pdf",
    "clients/zoo/invoices/2.pdf": "application/pdf",
    "clients/zoo/photo.png": "image/png",
    "readme.md": "",
    "report.docx": "",
}
ABOVE = {
    "plans/2026/launch.txt": ("f-2026", "f-plans"),
    "plans/2026/drafts/launch.txt": ("f-drafts", "f-2026", "f-plans"),
}


def chosen(include=(), exclude=()):
    choice = Choice.of({"include": include, "exclude": exclude})
    return {
        path for path, kind in FILES.items() if choice.takes(Subject(f"id {path}", path, kind, ABOVE.get(path, ())))
    }


def those(*beginnings):
    return {path for path in FILES if path.startswith(beginnings)}


@pytest.mark.decision("D71")
@pytest.mark.parametrize(
    ("include", "exclude", "wanted"),
    [
        ([], [], set(FILES)),
        ([{"path": "plans"}], [], those("plans/")),
        ([{"path": "/plans/"}], [], those("plans/")),
        ([{"path": "PLANS/2026"}], [], those("plans/2026")),
        ([{"path": "plan"}], [], set()),
        ([{"path": "plans/budget.pdf"}], [], {"plans/budget.pdf"}),
        ([{"path": "plans/*"}], [], those("plans/")),
        ([{"path": "plans/*.pdf"}], [], {"plans/budget.pdf"}),
        ([{"path": "*/*/invoices"}], [], {"Clients/Ärzte/invoices/1.pdf", "clients/zoo/invoices/2.pdf"}),
        ([{"path": "clients/a\u0308rzte"}], [], {"Clients/Ärzte/invoices/1.pdf"}),
        ([{"path": "**/launch.txt"}], [], {"plans/2026/launch.txt", "plans/2026/drafts/launch.txt"}),
        ([{"path": "plans/**/launch.txt"}], [{"path": "**/drafts"}], {"plans/2026/launch.txt"}),
        ([{"path": "**"}], [{"path": "plans"}], set(FILES) - those("plans/")),
        ([], [{"path": "*"}], set()),
        ([{"id": "f-2026"}], [], those("plans/2026")),
        ([{"id": "f-2026"}], [{"id": "f-drafts"}], {"plans/2026/launch.txt"}),
        ([{"id": "id readme.md"}], [], {"readme.md"}),
        ([{"mimeType": "application/pdf"}], [], {path for path in FILES if path.endswith("pdf")}),
        ([{"mimeType": "IMAGE/*"}], [], {"clients/zoo/photo.png"}),
        ([{"mimeType": "text/markdown"}], [], {"readme.md"}),
        (
            [{"mimeType": "application/vnd.openxmlformats-officedocument.wordprocessingml.document"}],
            [],
            {"report.docx"},
        ),
        ([{"path": "plans"}, {"mimeType": "image/*"}], [], those("plans/", "clients/zoo/photo")),
        ([{"path": "plans"}], [{"mimeType": "application/pdf"}], those("plans/2026")),
    ],
)
def test_a_folder_means_all_below_it_and_exclude_wins(include, exclude, wanted):
    assert chosen(include, exclude) == wanted


@pytest.mark.decision("D71")
@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({}, "one of them"),
        ({"id": "a", "path": "b"}, "one of them"),
        ({"path": "/"}, "empty path"),
        ({"path": "a//b"}, "two slashes"),
        ({"path": "a/../b"}, '".."'),
        ({"path": "./a"}, '"."'),
        ({"path": "a/b**/c"}, "stands alone"),
        ({"path": "***"}, "stands alone"),
        ({"path": "a\0b"}, "control character"),
        ({"path": "a\ud800"}, "control character"),
        ({"mimeType": "pdf"}, "application/pdf"),
        ({"mimeType": "*/pdf"}, "application/pdf"),
        ({"mimeType": "a/b/c"}, "application/pdf"),
    ],
)
def test_what_makes_no_sense_is_told(entry, words):
    assert words in choices.fault(entry)


@pytest.mark.parametrize("entry", [{"id": "b!x/01"}, {"path": "a/**/b*c"}, {"path": "**"}, {"mimeType": "text/*"}])
def test_what_makes_sense_is_let_through(entry):
    assert choices.fault(entry) == ""


def test_a_folder_may_hold_what_lies_deeper():
    choice = Choice.of({"include": [{"path": "a/*/c"}], "exclude": [{"path": "a/x"}]})

    def may(path):
        return choice.may_hold(Subject("1", path))

    assert [path for path in ("a", "a/b", "a/b/c", "a/b/c/d", "a/b/d", "a/x", "a/x/c", "z") if may(path)] == [
        "a",
        "a/b",
        "a/b/c",
        "a/b/c/d",
    ]


def test_patterns_agree_with_a_plain_reading_and_are_never_slow():
    """Against the definition itself, written as recursion."""
    dice = random.Random(7)

    def plain(parts, pattern):
        if not pattern:
            return True
        if pattern[0] == "**":
            return plain(parts, pattern[1:]) or (bool(parts) and plain(parts[1:], pattern))
        return bool(parts) and letters(parts[0], pattern[0]) and plain(parts[1:], pattern[1:])

    def letters(name, pattern):
        if not pattern:
            return not name
        if pattern[0] == "*":
            return letters(name, pattern[1:]) or (bool(name) and letters(name[1:], pattern))
        return bool(name) and name[0] == pattern[0] and letters(name[1:], pattern[1:])

    for _ in range(3000):
        path = ["".join(dice.choices("ab", k=dice.randint(1, 3))) for _ in range(dice.randint(1, 5))]
        pattern = [dice.choice(["**", "*", "a", "a*", "*b", "a*b", "ab"]) for _ in range(dice.randint(1, 5))]
        choice = Choice.of({"include": [{"path": "/".join(pattern)}]})
        assert choice.takes(Subject("1", "/".join(path))) == plain(path, pattern), (path, pattern)

    slow = Choice.of({"include": [{"path": "/".join(["**", "a*a*a*a*a*b"] * 40)}]})
    began = time.process_time()
    assert not slow.takes(Subject("1", "/".join(["a" * 100] * 40)))
    assert time.process_time() - began < 1
