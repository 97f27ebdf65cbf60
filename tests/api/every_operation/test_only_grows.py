"""`/v1` only grows: what it has once answered and taken is kept in tests/fixtures and must not go.

`python -m tests.api.every_operation.test_only_grows` adds what is new to the list. Nothing is ever taken out of it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.api.description import DOCUMENT
from tests.api.support import Failures

KEPT = Path(__file__).resolve().parents[2] / "fixtures" / "v1_surface.json"


def paths_of(schema, prefix="", above=()):
    """Every property below a schema, `a.b`, and every allowed value, `a.b=X`."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return set() if name in above else paths_of(DOCUMENT["components"]["schemas"][name], prefix, (*above, name))
    found = {f"{prefix}={value}" for value in schema.get("enum", ()) if value is not None}
    found |= {f"{prefix}={schema['const']}"} if "const" in schema else set()
    for part in ("anyOf", "oneOf", "allOf"):
        for one in schema.get(part, ()):
            found |= paths_of(one, prefix, above)
    if isinstance(schema.get("items"), dict):
        found |= paths_of(schema["items"], prefix + "[]", above)
    for name, inner in schema.get("properties", {}).items():
        place = f"{prefix}.{name}" if prefix else name
        found |= {place} | paths_of(inner, place, above)
    return found


def required_of(schema, prefix="", above=()):
    """What a request must hold, down to where it may be left out."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return set() if name in above else required_of(DOCUMENT["components"]["schemas"][name], prefix, (*above, name))
    found = set()
    for name in schema.get("required", ()):
        place = f"{prefix}.{name}" if prefix else name
        found |= {place} | required_of(schema["properties"][name], place, above)
    return found


def surface():
    """By operation: what it takes, what of that it needs, what it answers, and with which statuses."""
    found = {}
    for path, methods in DOCUMENT["paths"].items():
        for method, said in methods.items():
            contents = said.get("requestBody", {}).get("content", {}).values()
            success = next(answer for status, answer in said["responses"].items() if status.startswith("2"))
            answers = success.get("content", {}).get("application/json", {}).get("schema", {})
            given = {parameter["name"]: parameter for parameter in said.get("parameters", ())}
            taken = set(given).union(*(paths_of(one["schema"]) for one in contents))
            needed = {name for name, one in given.items() if one["required"]}
            found[f"{method.upper()} {path}"] = {
                "takes": sorted(taken),
                "needs": sorted(needed.union(*(required_of(one["schema"]) for one in contents))),
                "answers": sorted(paths_of(answers)),
                "statuses": sorted(said["responses"]),
            }
    return found


def test_nothing_that_clients_know_is_gone():
    present, failures = surface(), Failures()
    for operation, kept in json.loads(KEPT.read_text()).items():
        with failures.of(operation):
            now = present.get(operation)
            assert now is not None, "an operation is gone"
            for part in ("takes", "answers", "statuses"):
                assert set(kept[part]) <= set(now[part]), f"gone: {sorted(set(kept[part]) - set(now[part]))}"
            new = set(now["needs"]) - set(kept["needs"])
            assert not new, f"requests that worked would be refused now: {sorted(new)} became required"
    failures.report()


def test_every_path_of_the_service_stands_under_v1_but_where_probes_and_prometheus_look():
    beside = {path for path in DOCUMENT["paths"] if not path.startswith("/v1/")}
    assert beside == {"/health", "/ready", "/metrics"}


def test_it_would_be_noticed():
    kept = surface()
    assert "data.namespace.identifier" in kept["GET /v1/namespaces/{namespace_id}"]["answers"]
    assert "connector=BOX" in kept["POST /v1/connections"]["takes"]
    assert "ingestConfig.config.text" in kept["POST /v1/ingest/text"]["needs"]
    assert "topK" not in kept["POST /v1/search"]["needs"]


def main():
    """Write the list anew with what is new; what it has stays, even if the service has lost it."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for operation, now in surface().items():
        old = kept.setdefault(operation, {"takes": [], "needs": now["needs"], "answers": [], "statuses": []})
        for part in ("takes", "answers", "statuses"):
            old[part] = sorted({*old[part], *now[part]})
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    sys.stdout.write(f"{len(kept)} operations\n")


if __name__ == "__main__":
    main()
