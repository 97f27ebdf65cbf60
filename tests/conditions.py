"""Sample documents and conditions for tests that compare filter implementations."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from retrieval.conditions.model import DOCUMENT_FIELDS
from retrieval.conditions.parse import parse_condition
from retrieval.errors import ErrorCode

ERROR_CODE = ErrorCode.INVALID_FILTER_CONFIG
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


@dataclass
class Doc:
    name: str = "a name"
    source: str = "TEXT"
    document_type: str = "TEXT"
    error: str | None = None
    metadata: dict = field(default_factory=dict)
    properties: dict = field(default_factory=dict)
    created_at: datetime = NOON
    updated_at: datetime = NOON


def condition_of(data):
    return parse_condition(data, ERROR_CODE, path="where")


DATE_TEXTS = st.sampled_from(
    [
        "2026-11-01",
        "2026-11-01T00:00Z",
        "2026-11-01T01:00:00+01:00",
        "2026-11-01T12:00:00.0004",
        "2026-11-01 12:00:00.000999Z",
        "2026-11-01T12:00:00.001-00:00",
        "2024-02-29",
        "0001-01-01T00:00+14:00",
        "9999-12-31T23:59:59.999999999-14:59",
        "1900-01-01t05:30z",
        "2026-11-01T12:00:00+0530",
    ]
)
NO_DATES = st.sampled_from(["2023-02-29", "2026-1-1", "2026-11-01T24:00", "2026-11-01\n", "now", "20261101", ""])
SAMPLE_TEXTS = (
    st.sampled_from(["", "a", "ab", "B", "é", "%", "_", "5", "true", "\U0001f600", "\ufffd"]) | DATE_TEXTS | NO_DATES
)
NUMBERS = st.sampled_from([0, 5, -1, 2**53 + 1, 2**63 - 1, 5.0, -0.0, 0.1, 1e-7, 4.999999999999999])
SCALARS = SAMPLE_TEXTS | NUMBERS | st.booleans()
STORED = (
    st.none()
    | SCALARS
    | st.lists(st.none() | SCALARS | st.lists(SCALARS, max_size=2), max_size=3)
    | st.dictionaries(st.sampled_from(["date", "a"]), SCALARS, max_size=1)
)
METADATA_KEYS = st.sampled_from(["k", "a.b", ""])
MOMENTS = st.sampled_from([NOON + timedelta(microseconds=n) for n in (0, 1, 999, 1000, -1)])
DOCS = st.builds(
    Doc,
    name=SAMPLE_TEXTS,
    source=st.sampled_from(["TEXT", "SITEMAP"]),
    document_type=st.sampled_from(["TEXT", "URL"]),
    error=st.none() | st.sampled_from(["", "It is protected by a password.", "The site cannot be reached."]),
    metadata=st.dictionaries(METADATA_KEYS, STORED, max_size=3),
    properties=st.fixed_dictionaries(
        {},
        optional={
            "path": st.none() | SAMPLE_TEXTS,
            "archivePath": SAMPLE_TEXTS,
            "modifiedAt": st.none() | DATE_TEXTS | NO_DATES | NUMBERS,
            "language": SAMPLE_TEXTS,
            "fileSize": NUMBERS,
            "pageCount": st.none() | NUMBERS,
            "textQuality": st.floats(0, 1),
        },
    ),
    created_at=MOMENTS,
    updated_at=MOMENTS,
)
DATES = st.builds(lambda text: {"date": text}, DATE_TEXTS)


def leaf(about, dates, values_of_others):
    """Return condition leaves of one field, with values for each operator."""
    values = dates | values_of_others
    texts = SAMPLE_TEXTS if values_of_others is not dates else None
    ways = [
        st.tuples(st.sampled_from(["eq", "ne"]), values),
        st.tuples(st.sampled_from(["in", "nin"]), st.lists(values, max_size=3)),
        st.tuples(st.sampled_from(["gt", "gte", "lt", "lte"]), values.filter(lambda one: not isinstance(one, bool))),
        st.tuples(st.just("exists"), st.booleans()),
    ]
    if texts is not None:
        ways.append(st.tuples(st.just("contains"), values.filter(lambda one: not isinstance(one, bool))))
        ways.append(st.tuples(st.sampled_from(["startsWith", "endsWith"]), texts))
    return st.one_of(ways).map(lambda way: {"field": about, "op": way[0], "value": way[1]})


METADATA = METADATA_KEYS.flatmap(lambda key: leaf(f"metadata.{key}", DATES, SCALARS))
OF_DOCUMENT = st.sampled_from(DOCUMENT_FIELDS).flatmap(
    lambda name: (
        leaf(f"document.{name}", *((DATE_TEXTS | DATES,) * 2 if name.endswith("At") else (SCALARS,) * 2))
        if name.endswith("At")
        else leaf(f"document.{name}", SAMPLE_TEXTS, SCALARS)
    )
)
ANY_CONDITION = st.recursive(
    METADATA | OF_DOCUMENT,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: {"all": parts})
        | st.lists(inner, min_size=1, max_size=3).map(lambda parts: {"any": parts})
        | inner.map(lambda part: {"not": part})
    ),
    max_leaves=5,
)


def depth(data):
    if "field" in data:
        return 0
    parts = data.get("all") or data.get("any") or [data["not"]]
    return 1 + max(map(depth, parts))


CONDITIONS = ANY_CONDITION.filter(lambda data: depth(data) <= 5)
