"""Modules import each other in one direction, and a folder of queries knows no module that reads it."""

from functools import cache
from graphlib import CycleError, TopologicalSorter

import grimp
import pytest


@cache
def list_imports():
    """Return the imported modules by module, those inside functions included."""
    graph = grimp.build_graph("api", "connectors", "flows", "local", "retrieval", "ui", cache_dir=None)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def list_reached(imports, name):
    reached, waiting = set(), [name]
    while waiting:
        new = imports[waiting.pop()] - reached
        reached |= new
        waiting += new
    return reached


def list_climbs(imports):
    """Return imports of a package's modules by its `queries` that lead to its `queries` again."""
    for name in imports:
        package, folder, _ = name.partition(".queries.")
        for target in imports[name] if folder else ():
            is_outside = target.startswith(f"{package}.") and not target.startswith(f"{package}.queries")
            if is_outside and any(m.startswith(f"{package}.queries.") for m in list_reached(imports, target)):
                yield f"{name} -> {target}"


def test_no_modules_import_each_other():
    try:
        TopologicalSorter(list_imports()).prepare()
    except CycleError as error:
        pytest.fail(f"Move what both need into a module below: {' -> '.join(error.args[1])}")


def test_queries_import_no_module_that_imports_queries():
    climbs = list(list_climbs(list_imports()))
    assert climbs == [], "Move what the statement needs into a module below."


def test_a_circle_and_a_climb_are_seen():
    imports = {
        "retrieval.jobs.queries.retry": {"retrieval.jobs.control"},
        "retrieval.jobs.control": {"retrieval.jobs.queries.retry"},
    }
    with pytest.raises(CycleError):
        TopologicalSorter(imports).prepare()
    assert list(list_climbs(imports)) == ["retrieval.jobs.queries.retry -> retrieval.jobs.control"]
