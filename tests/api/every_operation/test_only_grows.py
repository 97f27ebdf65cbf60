"""`/v1` keeps every recorded parameter, property and status; run as a module to record additions."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.api.description import DOCUMENT
from tests.api.support import Failures

KEPT = Path(__file__).resolve().parents[2] / "fixtures" / "v1_surface.json"


def paths_of(schema, prefix="", above=()):
    """Return the paths of properties (`a.b`) and allowed values (`a.b=X`) of a schema."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return set() if name in above else paths_of(DOCUMENT["components"]["schemas"][name], prefix, (*above, name))
    paths = {f"{prefix}={value}" for value in schema.get("enum", ()) if value is not None}
    paths |= {f"{prefix}={schema['const']}"} if "const" in schema else set()
    for part in ("anyOf", "oneOf", "allOf"):
        for variant in schema.get(part, ()):
            paths |= paths_of(variant, prefix, above)
    if isinstance(schema.get("items"), dict):
        paths |= paths_of(schema["items"], prefix + "[]", above)
    for name, inner in schema.get("properties", {}).items():
        path = f"{prefix}.{name}" if prefix else name
        paths |= {path} | paths_of(inner, path, above)
    return paths


def required_of(schema, prefix="", above=()):
    """Return the paths of required properties, down to the first optional property."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return set() if name in above else required_of(DOCUMENT["components"]["schemas"][name], prefix, (*above, name))
    required = set()
    for name in schema.get("required", ()):
        path = f"{prefix}.{name}" if prefix else name
        required |= {path} | required_of(schema["properties"][name], path, above)
    return required


def surface():
    """Return accepted and required parameters, answers and statuses by operation."""
    operations = {}
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            contents = operation.get("requestBody", {}).get("content", {}).values()
            success = next(answer for status, answer in operation["responses"].items() if status.startswith("2"))
            answers = success.get("content", {}).get("application/json", {}).get("schema", {})
            parameters = {parameter["name"]: parameter for parameter in operation.get("parameters", ())}
            accepted = set(parameters).union(*(paths_of(media["schema"]) for media in contents))
            needed = {name for name, media in parameters.items() if media["required"]}
            operations[f"{method.upper()} {path}"] = {
                "takes": sorted(accepted),
                "needs": sorted(needed.union(*(required_of(media["schema"]) for media in contents))),
                "answers": sorted(paths_of(answers)),
                "statuses": sorted(operation["responses"]),
            }
    return operations


def test_no_recorded_parameter_property_or_status_is_missing():
    present, failures = surface(), Failures()
    for operation, recorded in json.loads(KEPT.read_text()).items():
        with failures.of(operation):
            current = present.get(operation)
            assert current is not None, "an operation is gone"
            for part in ("takes", "answers", "statuses"):
                assert set(recorded[part]) <= set(current[part]), (
                    f"gone: {sorted(set(recorded[part]) - set(current[part]))}"
                )
            new = set(current["needs"]) - set(recorded["needs"])
            assert not new, f"requests that worked would be refused now: {sorted(new)} became required"
    failures.report()


def main():
    """Add new paths to the recorded list; recorded paths stay."""
    recorded = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for operation, current in surface().items():
        old = recorded.setdefault(operation, {"takes": [], "needs": current["needs"], "answers": [], "statuses": []})
        for part in ("takes", "answers", "statuses"):
            old[part] = sorted({*old[part], *current[part]})
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")
    sys.stdout.write(f"{len(recorded)} operations\n")


if __name__ == "__main__":
    main()
