"""Binary vector parameters equal pgvector's text conversion."""

import math
import random

import numpy as np
import psycopg
import pytest

from retrieval.database.half_vectors import HALFVEC_OID, HalfVector, HalfVectors

DICE = random.Random(5)
VECTORS = [
    [0.0, -0.0, 1.0, -1.0, 65504.0, -65504.0],
    [6e-8, 5.96e-8, 2.98e-8, 2.9e-8, 1e-40, 1e-300],
    [1 + 2**-11, 1 + 2**-11 + 2**-40, 1 + 2**-11 - 2**-40, 1 + 3 * 2**-11, 0.1, 1 / 3],
    [DICE.gauss(0, 0.05) for _ in range(384)],
    [math.ldexp(DICE.random() - 0.5, DICE.randint(-26, 15)) for _ in range(1000)],
]


@pytest.mark.parametrize("values", VECTORS, ids=len)
def test_it_is_rounded_as_a_text_is(database_url, values):
    with psycopg.connect(database_url) as connection:
        parameters = {"binary": HalfVector(values), "text": "[" + ",".join(map(repr, values)) + "]"}
        row = connection.execute("select %(binary)s::halfvec::text, %(text)s::halfvec::text", parameters).fetchone()
    assert row[0] == row[1]


@pytest.mark.parametrize("values", VECTORS, ids=len)
def test_several_are_rounded_as_their_texts_are(database_url, values):
    several = np.array([values, values[::-1]])
    texts = ["[" + ",".join(map(repr, vector)) + "]" for vector in several.tolist()]
    with psycopg.connect(database_url) as connection:
        kind = connection.execute(HALFVEC_OID).fetchone()[0]
        parameters = {"binary": HalfVectors(several, kind), "texts": texts}
        row = connection.execute(
            "select (%(binary)s::halfvec[])::text[], (%(texts)s::text[])::halfvec[]::text[]", parameters
        ).fetchone()
        literal = psycopg.sql.Literal(parameters["binary"]).as_string(connection)
        reread = connection.execute(f"select ({literal}::halfvec[])::text[]").fetchone()
        none = connection.execute(
            "select cardinality(%(none)s::halfvec[])", {"none": HalfVectors(several[:0], kind)}
        ).fetchone()
    assert row[0] == row[1] == reread[0]
    assert none == (0,)


@pytest.mark.parametrize("value", [math.nan, math.inf, 65520.0, 1e30, 1e300])
def test_what_half_precision_cannot_hold_is_an_error_of_the_database(database_url, value):
    with psycopg.connect(database_url) as connection, pytest.raises(psycopg.DataError):
        connection.execute("select %(values)s::halfvec", {"values": HalfVector([1.0, value])})
