"""Every statement over the models compiles, and reads from its own row."""

import importlib
import pkgutil
import re

import pytest

import retrieval
from retrieval.database.compiling import CompiledStatement


def all_statements():
    """Yield the names and the statements of the modules."""
    for found in pkgutil.walk_packages(retrieval.__path__, "retrieval."):
        module = importlib.import_module(found.name)
        for name, value in vars(module).items():
            if isinstance(value, CompiledStatement):
                yield f"{found.name}.{name}", value.as_string()


@pytest.fixture(scope="module")
def statements():
    return dict(all_statements())


def test_every_statement_compiles(statements):
    assert len(statements) > 100


def test_no_subquery_of_returning_reads_the_written_table_anew(statements):
    """SQLAlchemy does not correlate it: it would return a value of any row."""
    wrong = [name for name, text in statements.items() if _reads_anew(text)]
    assert not wrong, "Correlate the subquery with the table: `.correlate(table)`."


def _reads_anew(text):
    before, _, returned = text.rpartition(" RETURNING ")
    written = re.findall(r"(?:INSERT INTO|DELETE FROM|UPDATE) (\w+)", before)
    return any(re.search(rf"\b(?:FROM|JOIN) (?:\w+, )*{table}\b(?! AS)", returned) for table in written)
