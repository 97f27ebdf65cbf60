"""Writes what of the client follows from the API's description: its models, its bodies, its operations, its sync half.

    python clients/python/generate.py         # writes the files
    python clients/python/generate.py --check # exit code 1 and their names where they are not as they would be written

Records are what answers hold, read by attributes. Bodies are what requests hold, as typed dictionaries with the names
of the wire. Each operation of the API is a method. `_sync` is `_async` without `async` and `await`.
"""

from __future__ import annotations

import json
import keyword
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PACKAGE = HERE / "retrieval_client"
PROJECT = HERE.parents[1]
sys.path.insert(0, str(PROJECT))

Schema = Mapping[str, Any]

READING_POSTS = frozenset(
    {
        "batchSearch",
        "browseConnection",
        "convertFile",
        "difyRetrieval",
        "fetchDocuments",
        "hybridSearch",
        "semanticSearch",
        "vectorStoreSearch",
        "verifyDeletion",
        "whySearch",
    }
)
"""POST operations that change nothing: they may be sent again whatever became of the request before."""
LEFT_OUT = frozenset({"oauthCallback"})
"""Operations that only a browser is sent to."""
OTHER_CLIENTS = frozenset({"OpenAI", "SCIM"})
"""Tags of operations that OpenAI's clients and identity providers call."""
HEAD = '"""{what}. Written by `generate.py` from the API\'s description."""\n\nfrom __future__ import annotations\n\n'
SIMPLE = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "object": "dict[str, Any]",
}
OPERATIONS = '''\
from collections.abc import Mapping
from typing import Any, Literal

from retrieval_client import bodies, models
from retrieval_client._async.transport import AsyncTransport, Upload
from retrieval_client.requests import segment


class AsyncOperations:
    """Every operation of the API, with the names of its description; `data` of the answer is what comes back.

    RetrievalError: what the service refuses.
    """

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def ingest(
        self, source: str, body: Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> models.IngestData:
        """Ingest from any source but a file, by the last part of its path: `POST /v1/ingest/{source}`."""
        path = f"/v1/ingest/{segment(source)}"
        answer = await self._transport.json(
            "POST", path, body=body, repeatable=False, keyed=True, idempotency_key=idempotency_key
        )
        return models.IngestData(answer["data"])
'''
SYNC = [
    (r"\bAsyncIterator\b", "Iterator"),
    (r"\bAsyncTransport\b", "Transport"),
    (r"\bAsyncRetrievalClient\b", "RetrievalClient"),
    (r"\bAsyncOperations\b", "Operations"),
    (r"\bAsyncClient\b", "Client"),
    (r"\basyncio\.sleep\b", "time.sleep"),
    (r"^import asyncio$", "import time"),
    (r"\b__aenter__\b", "__enter__"),
    (r"\b__aexit__\b", "__exit__"),
    (r"\baclose\b", "close"),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bAwaitable\[(None)\]", r"\1"),
    (r"\bawait ", ""),
    (r"retrieval_client\._async\b", "retrieval_client._sync"),
]


def written() -> dict[Path, str]:
    """Every generated file with its text."""
    from api.app import ROUTE_HANDLERS
    from api.openapi import describe_handlers

    described = json.loads(json.dumps(describe_handlers(ROUTE_HANDLERS), default=str))
    # What no operation uses of the imports is taken out.
    asynchronous = _formatted({PACKAGE / "_async" / "operations.py": _operations(described)})
    by_hand = {
        path: path.read_text() for path in sorted((PACKAGE / "_async").glob("*.py")) if path.name != "operations.py"
    }
    sync = {PACKAGE / "_sync" / path.name: _sync(text) for path, text in (by_hand | asynchronous).items()}
    models = {PACKAGE / "models.py": _models(described), PACKAGE / "bodies.py": _bodies(described)}
    return asynchronous | _formatted(sync | models)


def _sync(text: str) -> str:
    for pattern, instead in SYNC:
        text = re.sub(pattern, instead, text, flags=re.MULTILINE)
    return text


def _formatted(files: Mapping[Path, str]) -> dict[Path, str]:
    ruff = [sys.executable, "-m", "ruff", "--config", str(PROJECT / "pyproject.toml")]
    generated = {}
    for path, text in files.items():
        name = ["--stdin-filename", str(path), "-"]
        fixed = subprocess.run(
            [*ruff[:3], "check", *ruff[3:], "--fix-only", "--select", "I,F401", "-q", *name],
            input=text,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
        generated[path] = subprocess.run(
            [*ruff[:3], "format", *ruff[3:], *name], input=fixed, stdout=subprocess.PIPE, text=True, check=True
        ).stdout
    return generated


def _references(schema: object, schemas: Mapping[str, Schema], seen: set[str]) -> None:
    if isinstance(schema, dict):
        name = _name_of(schema)
        if name and name not in seen:
            seen.add(name)
            _references(schemas[name], schemas, seen)
        for value in schema.values():
            _references(value, schemas, seen)
    elif isinstance(schema, list):
        for value in schema:
            _references(value, schemas, seen)


def _used(described: Schema, which: str) -> dict[str, Schema]:
    """The schemas of objects that answers ("responses") or requests ("requestBody") hold."""
    schemas = described["components"]["schemas"]
    seen: set[str] = set()
    for _, operation in _each(described):
        held = operation.get(which) or {}
        if which == "responses":
            held = {code: answer for code, answer in held.items() if code.startswith("2")}
        _references(held, schemas, seen)
    return {name: schema for name, schema in schemas.items() if name in seen and "properties" in schema}


def _each(described: Schema) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            left_out = operation["operationId"] in LEFT_OUT or OTHER_CLIENTS.intersection(operation.get("tags", ()))
            if method in {"get", "post", "put", "patch", "delete"} and not left_out:
                yield (method.upper(), path), operation


def _name_of(schema: Schema) -> str | None:
    reference = schema.get("$ref")
    return reference.rpartition("/")[2] if isinstance(reference, str) and "/schemas/" in reference else None


def _type(schema: Schema, schemas: Mapping[str, Schema]) -> str:
    if name := _name_of(schema):
        return name if "properties" in schemas[name] else _type(schemas[name], schemas)
    if several := schema.get("anyOf") or schema.get("oneOf"):
        kinds = list(dict.fromkeys(_type(one, schemas) for one in several))
        return " | ".join(sorted(kinds, key=lambda kind: kind == "None"))
    if values := [schema["const"]] if "const" in schema else schema.get("enum"):
        return f"Literal[{', '.join(json.dumps(one) if isinstance(one, str) else repr(one) for one in values)}]"
    kind = schema.get("type")
    if kind == "array":
        return f"list[{_type(schema.get('items', {}), schemas)}]"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"dict[str, {_type(schema['additionalProperties'], schemas)}]"
    kinds = kind if isinstance(kind, list) else [str(kind)]
    return " | ".join(SIMPLE.get(one, "Any") for one in kinds)


def _snake(name: str) -> str:
    name = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower().replace("-", "_")
    return f"{name}_" if keyword.iskeyword(name) else name


def _said(text: str, indent: str) -> str:
    """A docstring of what the API's description says; empty where it says nothing."""
    text = " ".join(text.split()).replace("\\", "\\\\").replace('"""', "'''")
    if not text:
        return ""
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
        if line and len(line) + len(word) + len(indent) + 7 > 118:
            lines, line = [*lines, line], word
        else:
            line = f"{line} {word}".strip()
    lines.append(line)
    said = f"\n{indent}".join(lines)
    said = said + " " if said.endswith('"') else said
    return f'{indent}"""{said}"""\n' if len(lines) == 1 else f'{indent}"""{said}\n{indent}"""\n'


def _models(described: Schema) -> str:
    schemas = described["components"]["schemas"]
    used = _used(described, "responses")
    text = HEAD.format(what="Records of answers")
    text += "from collections.abc import Mapping\nfrom typing import Any, ClassVar, Literal\n\n"
    text += "from retrieval_client.record import Record\n\n"
    for name, schema in used.items():
        text += f"\n\nclass {name}(Record):\n" + _said(schema.get("description", ""), "    ")
        records: dict[str, str] = {}
        maps: dict[str, str] = {}
        for field, of in schema["properties"].items():
            required = field in schema.get("required", ())
            kind = _type(of, schemas)
            if not required and not kind.endswith("None") and kind != "Any":
                kind += " | None"
            text += f"    {_snake(field)}: {kind}\n"
            held = [
                one for one in re.findall(r"[A-Z]\w+", re.sub(r"Literal\[.*?\]|\"[^\"]*\"", "", kind)) if one in used
            ]
            if len(held) == 1:
                (maps if kind.startswith("dict[") else records)[field] = held[0]
        text += f"    _fields = frozenset({sorted(schema['properties'])!r})\n"
        for attribute, found in (("_records", records), ("_maps", maps)):
            text += f"    {attribute}: ClassVar[Mapping[str, str]] = {found!r}\n" if found else ""
    return text


def _bodies(described: Schema) -> str:
    schemas = described["components"]["schemas"]
    text = HEAD.format(what="Bodies of requests, with the wire's names")
    text += "from typing import Any, Literal, NotRequired, TypedDict\n\n"
    for name, schema in _used(described, "requestBody").items():
        fields = {
            field: kind if field in schema.get("required", ()) else f"NotRequired[{kind}]"
            for field, of in schema["properties"].items()
            for kind in [_type(of, schemas)]
        }
        said = schema.get("description", "")
        if any(keyword.iskeyword(field) or not field.isidentifier() for field in fields):
            listed = "".join(f"    {field!r}: {kind!r},\n" for field, kind in fields.items())
            text += f"\n\n{name} = TypedDict({name!r}, {{{listed}}})\n" + _said(said, "")
        else:
            listed = "".join(f"    {field}: {kind}\n" for field, kind in fields.items())
            text += f"\n\nclass {name}(TypedDict):\n" + _said(said, "    ") + (listed or "    pass\n")
    return text


def _operations(described: Schema) -> str:
    schemas = described["components"]["schemas"]
    text = HEAD.format(what="Every operation of the API as a method")
    text += OPERATIONS
    for (method, path), operation in _each(described):
        text += "\n" + _operation(method, path, operation, schemas)
    return text


def _operation(method: str, path: str, operation: Schema, schemas: Mapping[str, Schema]) -> str:
    places: dict[str, list[Schema]] = {"path": [], "query": [], "header": []}
    for parameter in operation.get("parameters", ()):
        places[parameter["in"]].append(parameter)
    keyed = any(header["name"] == "Idempotency-Key" for header in places["header"])
    signature = [
        "self",
        *(f"{_snake(one['name'])}: {_qualified(one['schema'], schemas, 'bodies')}" for one in places["path"]),
    ]
    content = (operation.get("requestBody") or {}).get("content", {})
    if "application/json" in content:
        signature.append(f"body: {_qualified(content['application/json']['schema'], schemas, 'bodies')}")
    elif "multipart/form-data" in content:
        signature += ["form: dict[str, str]", "file: Upload"]
    optional = [
        f"{_snake(one['name'])}: {_qualified(one['schema'], schemas, 'bodies')}"
        + (
            ""
            if one.get("required")
            else " | None = None"
            if "None" not in _type(one["schema"], schemas)
            else " = None"
        )
        for one in places["query"]
    ]
    optional += ["idempotency_key: str | None = None"] if keyed else []
    signature += ["*", *optional] if optional else []
    code = next(code for code in operation["responses"] if code.startswith("2"))
    answered = operation["responses"][code].get("content", {})
    model = _name_of(answered.get("application/json", {}).get("schema", {}))
    address = json.dumps(path)
    if places["path"]:
        address = "f" + re.sub(r"{(\w+)}", lambda found: f"{{segment({_snake(found[1])})}}", address)
    query = "{" + ", ".join(f'"{one["name"]}": {_snake(one["name"])}' for one in places["query"]) + "}"
    said = _said(f"{operation['summary']}: `{method} {path}`.", "        ")
    name = _snake(operation["operationId"])
    if model is None:
        return (
            f"    async def {name}({', '.join(signature)}) -> bytes:\n{said}"
            f"        return await self._transport.content({method!r}, {address}, query={query})\n"
        )
    fields = schemas[model]["properties"]
    data = _name_of(fields.get("data", {})) if set(fields) == {"success", "message", "data"} else None
    sent = [repr(method), address]
    sent += [f"query={query}"] if places["query"] else []
    sent += ["body=body"] if "application/json" in content else []
    sent += ["form=form", "file=file"] if "multipart/form-data" in content else []
    repeatable = method != "POST" or operation["operationId"] in READING_POSTS
    sent.append(f"repeatable={repeatable}")
    sent += ["keyed=True", "idempotency_key=idempotency_key"] if keyed else []
    read = f'models.{data}(answer["data"])' if data else f"models.{model}(answer)"
    return (
        f"    async def {name}({', '.join(signature)}) -> models.{data or model}:\n{said}"
        f"        answer = await self._transport.json({', '.join(sent)})\n"
        f"        return {read}\n"
    )


def _qualified(schema: Schema, schemas: Mapping[str, Schema], module: str) -> str:
    return re.sub(
        r"\b([A-Z]\w+)\b",
        lambda found: f"{module}.{found[1]}" if found[1] in schemas else found[1],
        _type(schema, schemas),
    )


def main() -> int:
    texts = written()
    stale = [path for path, text in texts.items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv:
        for path in stale:
            print(f"{path.relative_to(PROJECT)} is not as it would be written: python clients/python/generate.py")
        return 1 if stale else 0
    for path, text in texts.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
