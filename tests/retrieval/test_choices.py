"""`include` and `exclude` choose paths as documented."""

from __future__ import annotations

import random
import re
import unicodedata

import pytest

from retrieval import sync_filter
from retrieval.sync_filter import SyncFilter, SyncItem

MEDIA_TYPES = {
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
    choice = SyncFilter.of({"include": include, "exclude": exclude})
    return {
        path
        for path, kind in MEDIA_TYPES.items()
        if choice.takes(SyncItem(f"id {path}", path, kind, ABOVE.get(path, ())))
    }


def those(*beginnings):
    return {path for path in MEDIA_TYPES if path.startswith(beginnings)}


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        ([], [], set(MEDIA_TYPES)),
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
        ([{"path": "**"}], [{"path": "plans"}], set(MEDIA_TYPES) - those("plans/")),
        ([], [{"path": "*"}], set()),
        ([{"id": "f-2026"}], [], those("plans/2026")),
        ([{"id": "f-2026"}], [{"id": "f-drafts"}], {"plans/2026/launch.txt"}),
        ([{"id": "id readme.md"}], [], {"readme.md"}),
        ([{"mimeType": "application/pdf"}], [], {path for path in MEDIA_TYPES if path.endswith("pdf")}),
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
def test_a_folder_means_all_below_it_and_exclude_wins(include, exclude, expected):
    assert chosen(include, exclude) == expected


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({}, "one of them"),
        ({"id": "a", "path": "b"}, "one of them"),
        ({"path": "/"}, "empty path"),
        ({"path": "a//b"}, "two slashes"),
        ({"path": "a/../b"}, '".."'),
        ({"path": "./a"}, '"."'),
        ({"path": "a/b**/c"}, "next to other characters"),
        ({"path": "***"}, "next to other characters"),
        ({"path": "a\0b"}, "control character"),
        ({"path": "a\ud800"}, "control character"),
        ({"path": "https://[drive.example/a"}, "address that cannot be read"),
        ({"mimeType": "pdf"}, "application/pdf"),
        ({"mimeType": "*/pdf"}, "application/pdf"),
        ({"mimeType": "a/b/c"}, "application/pdf"),
    ],
)
def test_what_makes_no_sense_is_told(entry, words):
    assert words in sync_filter.entry_fault(entry)


@pytest.mark.parametrize("path", ["%2F", "%2f%2F", "%2A", "%2A%2A", "plans/%2A", "**/%2A", "%2E/plans", "a%2F%2Fb"])
def test_what_is_encoded_never_chooses_more_than_a_name(path):
    assert chosen([{"path": path}]) == set()
    assert chosen([], [{"path": path}]) == set(MEDIA_TYPES)


@pytest.mark.parametrize("path", ["plans%2F2026", "plans/20%32%36", "https://drive.example/plans%2F2026"])
def test_an_encoded_path_is_read(path):
    assert chosen([{"path": path}]) == those("plans/2026")


def test_a_percent_sign_in_a_name_is_found():
    choice = SyncFilter.of({"include": [{"path": "100%"}, {"path": "a%2Ab"}]})
    names = ["100%/offer.pdf", "a%2Ab", "a b", "aXb"]
    assert [name for name in names if choice.takes(SyncItem("1", name))] == ["100%/offer.pdf", "a%2Ab"]


@pytest.mark.parametrize("name", ["\u0390", "\u03b0", "\u01f0", "\u1f52", "Stra\u00dfe", "\ufb03", "\u0130stanbul"])
def test_every_name_is_compared_without_regard_to_case(name):
    for typed in (name, name.upper(), unicodedata.normalize("NFD", name), unicodedata.normalize("NFC", name.upper())):
        assert SyncFilter.of({"include": [{"path": typed}]}).takes(SyncItem("1", f"{name}/a.txt")), ascii(typed)


def test_a_choice_takes_what_a_plain_reading_takes():
    # An entry names a file or a folder above it, entries are alternatives, exclude wins.
    dice = random.Random(71)
    names = ["a", "b", "ab"]
    folders = (
        [()]
        + [(folder_name,) for folder_name in names]
        + [(folder_name, two) for folder_name in names for two in names]
    )
    files = [(*folder, name) for folder in folders for name in ("a.txt", "b.pdf", "ab")]
    kinds = {"a.txt": "text/plain", "b.pdf": "application/pdf", "ab": "text/html"}

    def subject(parts, kind=""):
        return SyncItem("/".join(parts), "/".join(parts), kind, ["/".join(parts[:end]) for end in range(1, len(parts))])

    def letters(name, pattern):
        return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name)

    def leads(parts, pattern):
        """Return whether a pattern matches these names or a prefix."""
        if not pattern:
            return True
        if pattern[0] == "**":
            return any(leads(parts[start:], pattern[1:]) for start in range(len(parts) + 1))
        return bool(parts) and bool(letters(parts[0], pattern[0])) and leads(parts[1:], pattern[1:])

    def names_it(entry, parts, kind):
        if "id" in entry:
            return any("/".join(parts[:end]) == entry["id"] for end in range(1, len(parts) + 1))
        if "path" in entry:
            return leads(parts, entry["path"].split("/"))
        return kind == entry["mimeType"] or (entry["mimeType"][-1] == "*" and kind.startswith(entry["mimeType"][:-1]))

    def entry():
        return dice.choice(
            [
                {"id": "/".join(dice.choice([*folders[1:], *files]))},
                {
                    "path": "/".join(
                        dice.choice(["**", "*", "a", "b*", "a*", "ab", "*.txt"]) for _ in range(dice.randint(1, 3))
                    )
                },
                {"mimeType": dice.choice(["text/*", "text/plain", "application/pdf"])},
            ]
        )

    for _ in range(1500):
        include, exclude = ([entry() for _ in range(dice.randint(0, 3))] for _ in range(2))
        choice = SyncFilter.of({"include": include, "exclude": exclude})

        def is_chosen(parts, include=include, exclude=exclude):
            kind = kinds[parts[-1]]
            in_it = not include or any(names_it(rule, parts, kind) for rule in include)
            return in_it and not any(names_it(rule, parts, kind) for rule in exclude)

        chosen_files = {parts for parts in files if choice.takes(subject(parts, kinds[parts[-1]]))}
        assert chosen_files == {parts for parts in files if is_chosen(parts)}, (include, exclude)
        for folder in folders[1:]:
            holds = any(parts[: len(folder)] == folder for parts in chosen_files)
            assert choice.may_hold(subject(folder)) or not holds, (folder, include, exclude)
