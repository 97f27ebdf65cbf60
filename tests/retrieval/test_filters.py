"""SQL and Python evaluate filters alike, and errors name the wrong field."""

import json
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.errors import ErrorCode, ServiceError
from retrieval.filters import DocumentFilter, parse_filter

ERROR_CODE = ErrorCode.INVALID_FILTER_CONFIG


@dataclass
class Doc:
    id: str = "doc_1"
    external_id: str = "e1"
    document_type: str = "TEXT"
    connection_id: str | None = None
    archive_id: str | None = None
    source: str = "TEXT"
    status: str = "SUCCESS"
    metadata: dict = field(default_factory=dict)
    awaiting_removal: bool = False


SCALARS = (
    st.none()
    | st.booleans()
    | st.sampled_from([0, 1, -1, 2**53, 2**63 - 1])
    | st.sampled_from([0.0, -0.0, 1.0, 1.5, 1e30, 0.1, 1e-7])
    | st.sampled_from(["", "1", "true", "null", "a", "é", "\U0001f600", "[1]"])
)
METADATA_KEYS = st.sampled_from(["k", "", "é", "a.b", "1"])
METADATA_VALUES = (
    SCALARS
    | st.lists(SCALARS | st.lists(SCALARS, max_size=2), max_size=3)
    | st.dictionaries(METADATA_KEYS, SCALARS | st.lists(SCALARS, max_size=2), max_size=2)
)
ARCHIVE_NAMES = st.sampled_from(["a", "b", "c"])
FEW = st.lists(ARCHIVE_NAMES, max_size=2).map(tuple)
DOCS = st.builds(
    Doc,
    id=ARCHIVE_NAMES,
    external_id=ARCHIVE_NAMES,
    document_type=st.sampled_from(["TEXT", "URL", "FILE"]),
    connection_id=st.none() | ARCHIVE_NAMES,
    archive_id=st.none() | ARCHIVE_NAMES,
    source=st.sampled_from(["TEXT", "SITEMAP", "WEBSITE", "URLS_LIST"]),
    status=st.sampled_from(["SUCCESS", "FAILED"]),
    metadata=st.dictionaries(METADATA_KEYS, METADATA_VALUES, max_size=3),
)
FILTERS = st.builds(
    DocumentFilter,
    document_ids=FEW,
    external_ids=FEW,
    types=st.lists(st.sampled_from(["TEXT", "URL", "SITEMAP", "WEBSITE"]), max_size=2).map(tuple),
    connection_ids=FEW,
    archive_ids=FEW,
    sources=st.lists(st.sampled_from(["TEXT", "SITEMAP"]), max_size=2).map(tuple),
    statuses=st.lists(st.sampled_from(["SUCCESS", "FAILED"]), max_size=1).map(tuple),
    metadata=st.dictionaries(METADATA_KEYS, SCALARS | st.lists(SCALARS, max_size=3).map(tuple), max_size=2),
    awaiting_removal=st.none() | st.booleans(),
)
METADATA_ONLY = st.builds(
    DocumentFilter,
    metadata=st.dictionaries(METADATA_KEYS, SCALARS | st.lists(SCALARS, max_size=3).map(tuple), max_size=2),
)


def in_database(db, condition, docs):
    """Return positions of matched documents. The archives `a`, `b` and `c` exist."""
    fragment, params = condition.sql("d")
    rows = db.rows(
        "with documents(id, archive_id) as (values ('a', null::text), ('b', null), ('c', null))"
        " select d.n from jsonb_to_recordset(%(docs)s::jsonb) as d(n int, id text, external_id text,"
        " document_type text, connection_id text, archive_id text, source text, status text, metadata jsonb) where "
        + fragment,
        params | {"docs": json.dumps([{**vars(doc), "n": n} for n, doc in enumerate(docs)])},
    )
    return {row["n"] for row in rows}


# The connection pool's threads draw from `random` for their pauses, now and then while a strategy draws.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")
@given(condition=FILTERS | METADATA_ONLY, docs=st.lists(DOCS, min_size=1, max_size=12))
def test_the_sql_and_the_rule_pick_the_same(db, condition, docs):
    assert in_database(db, condition, docs) == {n for n, doc in enumerate(docs) if condition.matches(doc)}


@pytest.mark.parametrize(
    ("value", "filter_value", "fits"),
    [
        (1, 1.0, True),
        (1, True, False),
        (True, 1, False),
        ("1", 1, False),
        ("1", "1", True),
        (None, None, True),
        (["a", "b"], "a", True),
        (["a", "b"], ["z", "b"], True),
        ([["a"]], "a", False),
        ({"a": 1}, "a", False),
        ("a", ["a", "b"], True),
        ("a", [], False),
        ([], [], False),
        (None, [], False),
    ],
)
def test_a_value_fits(db, value, filter_value, fits):
    condition = DocumentFilter(metadata={"k": filter_value})
    doc = Doc(metadata={"k": value})
    assert condition.matches(doc) is fits
    assert in_database(db, condition, [doc]) == ({0} if fits else set())


def test_sitemap_as_a_type_means_pages_that_came_by_a_sitemap(db):
    came = [Doc(document_type="URL", source=source) for source in ("SITEMAP", "WEBSITE", "URLS_LIST")]
    assert in_database(db, DocumentFilter(types=("SITEMAP",)), came) == {0}
    assert in_database(db, DocumentFilter(types=("SITEMAP", "WEBSITE")), came) == {0, 1}
    assert in_database(db, DocumentFilter(types=("URL",)), came) == {0, 1, 2}


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"documentIds": "doc_1"}, "filterConfig.documentIds"),
        ({"documentIds": [1]}, "filterConfig.documentIds"),
        ({"documentIds": ["\0"]}, "filterConfig.documentIds"),
        ({"documentIds": ["x"] * 10_001}, "filterConfig.documentIds"),
        ({"documentTypes": ["PAGE"]}, "filterConfig.documentTypes"),
        ({"documentIngestionStatuses": ["DONE"]}, "filterConfig.documentIngestionStatuses"),
        ({"documentIngestionSources": ["FTP"]}, "filterConfig.documentIngestionSources"),
        ({"metadata": []}, "filterConfig.metadata"),
        ({"metadata": {"$or": 1}}, "filterConfig.metadata"),
        ({"metadata": {"k": {"a": 1}}}, "filterConfig.metadata.k"),
        ({"metadata": {"k": [[1]]}}, "filterConfig.metadata.k"),
        ({"metadata": {"k": float("inf")}}, "filterConfig.metadata.k"),
        ({"metadata": {"k": "\ud800"}}, "filterConfig.metadata.k"),
        ({"metadata": {"k": list(range(1001))}}, "filterConfig.metadata"),
    ],
)
def test_a_wrong_filter_is_refused_and_named(data, field):
    with pytest.raises(ServiceError) as caught:
        parse_filter(data, ERROR_CODE)
    assert (caught.value.code, caught.value.field) == (ERROR_CODE, field)


def test_empty_and_absent_restrict_nothing_but_in_metadata():
    assert parse_filter({"metadata": {"k": []}}, ERROR_CODE).is_selective()
    nothing = {"documentIds": [], "documentExternalIds": [], "documentTypes": [], "metadata": {}}
    assert not parse_filter(nothing, ERROR_CODE).is_selective()
    assert not parse_filter({"documentIds": None, "unknown": 5}, ERROR_CODE).is_selective()
    assert parse_filter({"documentTypes": ["TEXT"]}, ERROR_CODE).is_selective()
