"""Names of users and groups, and what is kept beside a document of them (D69)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval import principals
from retrieval.access.documents import set_document_access
from retrieval.errors import ErrorCode, ServiceError
from retrieval.principals import Access


@pytest.mark.decision("D69")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ada@Example.COM", "ada@example.com"),
        ("Straße", "STRASSE"),
        ("e\u0301cole", "\u00e9cole"),
        ("\uff21lice", "alice"),
        ("\u0130", "i\u0307"),
    ],
)
def test_names_are_compared_without_case_and_ways_to_write(one, other):
    assert principals.normal(one) == principals.normal(other)


@given(st.text())
def test_a_normal_name_is_its_own_normal_name(name):
    assert principals.normal(principals.normal(name)) == principals.normal(name)


@pytest.mark.decision("D69")
@pytest.mark.parametrize("name", ["", " ", "a" * 257, "ä" * 129, "a\0b", "\ud800", "\ufdfa" * 85])
def test_what_is_no_name_is_refused(name):
    with pytest.raises(ServiceError) as refused:
        Access.of(users=[name], code=ErrorCode.INVALID_INGEST_CONFIG, where="config.access")
    assert refused.value.code is ErrorCode.INVALID_INGEST_CONFIG


def test_a_document_has_a_thousand_names_at_most():
    Access.of(users=[f"u{n}" for n in range(600)], denied_groups=[f"g{n}" for n in range(400)])
    with pytest.raises(ServiceError):
        Access.of(users=[f"u{n}" for n in range(600)], denied_groups=[f"g{n}" for n in range(401)])


def test_what_is_written_is_read_back():
    access = Access.of(["Ada"], ["staff"], ["Bob"], ["guests"], public=True)
    assert Access.load(json.loads(principals.stored(access))) == access


def listed(db, document):
    rows = db.rows("select denied, principal from document_principals where document_id = %(id)s", {"id": document})
    return {("-" if row["denied"] else "+") + row["principal"] for row in rows}


@pytest.mark.decision("D69")
def test_the_names_of_a_document_stand_beside_it_whatever_sets_them(db, library):
    document, other = library.put(["one"]), library.put(["two"])
    with db.transaction() as connection:
        changed = set_document_access(
            connection, {document: Access(("ada",), ("staff",), ("bob",), ("guests",), public=True), other: None}
        )
    assert changed == 1
    assert listed(db, document) == {"+u:ada", "+g:staff", "-u:bob", "-g:guests", "+*"}
    assert listed(db, other) == set()
    with db.transaction() as connection:
        set_document_access(connection, {document: Access()})
    assert listed(db, document) == set()
    with db.transaction() as connection:
        assert set_document_access(connection, {document: None}) == 1
    db.rows("delete from documents where id = %(id)s", {"id": document})


@pytest.mark.decision("D69")
def test_what_was_packed_into_a_document_follows_it(db, library):
    archive, member, within = library.put(), library.put(["one"]), library.put(["two"])
    for child, parent in ((member, archive), (within, member)):
        db.rows("update documents set archive_id = %(p)s where id = %(c)s", {"p": parent, "c": child})
    with db.transaction() as connection:
        set_document_access(connection, {archive: Access(("ada",))})
    assert listed(db, within) == listed(db, member) == listed(db, archive) == {"+u:ada"}
