"""Names of users and groups, and the principals stored with a document."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.access.queries.lists import set_lists
from retrieval.errors import ErrorCode, ServiceError
from retrieval.principals import Access


def users(*names):
    return Access.of(users=names).users


IMITATIONS = [
    "\u24d0da@x.org",
    "\xaada@x.org",
    "\uff41da",
    "\u212aim@x.org",
    "\ufb01n@x.org",
    "e\u0301cole",
    "\u017fam@x.org",
]


@pytest.mark.parametrize("name", IMITATIONS)
@pytest.mark.parametrize("field", ["users", "groups", "denied_users", "denied_groups"])
def test_a_name_that_nfkc_would_change_is_refused(name, field):
    with pytest.raises(ServiceError) as refused:
        Access.of(**{field: [name]})
    assert refused.value.reason == "not_normalized"


@given(st.text(max_size=12) | st.from_regex(r"[^@\s]{1,6}@[^@\s]{1,6}", fullmatch=True))
def test_a_name_is_refused_or_differs_from_what_was_sent_in_case_and_composition_alone(name):
    # Equal keys come only from equal addresses or equal bytes.
    try:
        (stored,) = users(name)
    except ServiceError:
        return
    assert users(stored) == (stored,), "what an answer shows is the same name when it is sent"
    assert unicodedata.normalize("NFKC", stored) == stored
    if "@" in name:
        assert stored in {name, unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).lower())}
    else:
        assert stored == name


@pytest.mark.parametrize("name", ["", " ", "a" * 257, "ä" * 129, "a\0b", "\ud800"])
def test_what_is_no_name_is_refused(name):
    with pytest.raises(ServiceError) as refused:
        Access.of(users=[name], code=ErrorCode.INVALID_INGEST_CONFIG, path="config.access")
    assert refused.value.code is ErrorCode.INVALID_INGEST_CONFIG


def stored_principals(db, document):
    (row,) = db.rows("select allowed, denied from documents where id = %(id)s", {"id": document})
    return set(row["allowed"]), set(row["denied"])


def test_the_readers_of_a_document_stand_beside_its_list(db, library):
    document, second_document = library.put(["one"]), library.put(["two"])
    with db.transaction() as connection:
        set_lists(
            connection,
            {document: Access(("ada",), ("staff",), ("bob",), ("guests",), public=True), second_document: None},
        )
    assert stored_principals(db, document) == ({"u:ada", "g:staff", "*"}, {"u:bob", "g:guests"})
    assert stored_principals(db, second_document) == ({"@"}, set())
    with db.transaction() as connection:
        set_lists(connection, {document: Access()})
    assert stored_principals(db, document) == (set(), set())
    with db.transaction() as connection:
        set_lists(connection, {document: None})
    assert stored_principals(db, document) == ({"@"}, set())
