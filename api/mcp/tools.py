"""MCP tools: names, descriptions, schemas and operations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from mcp import types

from api.mcp import calls
from api.mcp.calls import ToolResult
from api.mcp.inner import OperationCaller

Schema = dict[str, Any]


def text_schema(description: str, **keywords: Any) -> Schema:
    return {"type": "string", "description": description, **keywords}


def number_schema(description: str, **keywords: Any) -> Schema:
    return {"type": "integer", "description": description, **keywords}


def strings_schema(description: str, **keywords: Any) -> Schema:
    return {"type": "array", "items": {"type": "string"}, "description": description, **keywords}


def open_object(description: str, **properties: Schema) -> Schema:
    return {"type": "object", "description": description, **({"properties": properties} if properties else {})}


def arguments_schema(required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    """Return the JSON schema of a tool's arguments; unknown arguments are ignored, as over HTTP."""
    return {"type": "object", "properties": properties, "required": list(required)}


def result_schema(**properties: Schema) -> Schema:
    """Return the JSON schema of a tool's result."""
    return {"type": "object", "properties": properties, "required": list(properties)}


NAMESPACE_SCHEMA = text_schema(
    "The namespace's id (`ns_…`), as returned by list_namespaces. Optional if there is only one namespace."
)
METADATA_SCHEMA = open_object('Free-form metadata to find the document by later, such as {"topic": "seals"}.')
OBJECT_SCHEMA = {"type": "object"}
FILTER_SCHEMA = open_object(
    'Only documents that match: {"metadata": {key: value}}, {"documents": {"documentIds": [...]}} or {"where":'
    ' {"field": "document.createdAt", "op": "gte", "value": "2026-01-01"}}, where conditions nest by'
    ' {"all": [...]}, {"any": [...]} and {"not": ...}.',
    metadata=OBJECT_SCHEMA,
    documents=OBJECT_SCHEMA,
    where=OBJECT_SCHEMA,
)
DOCUMENT_FILTER_SCHEMA = open_object(
    'Only those that match, such as {"documentIngestionStatuses": ["FAILED"]}, {"documentTypes": ["FILE"]},'
    ' {"metadata": {key: value}} or {"where": {"field": "document.name", "op": "contains", "value": "a"}}.',
    metadata=OBJECT_SCHEMA,
    where=OBJECT_SCHEMA,
)
HYBRID_SCHEMA = {
    "type": "object",
    "description": "Search by words, too: two weights that sum to 1. Half and half suits names, codes and exact terms;"
    " without it the search is by meaning only.",
    "properties": {
        "semanticWeight": {"type": "number", "minimum": 0, "maximum": 1},
        "keywordWeight": {"type": "number", "minimum": 0, "maximum": 1},
    },
    "required": ["semanticWeight", "keywordWeight"],
}
EXPAND_SCHEMA = {
    "type": "object",
    "description": "Also answer what surrounds each passage, in `context`: its chunk, section, page or document, cut to"
    " maxTokens.",
    "properties": {
        "unit": {"type": "string", "enum": ["CHUNK", "SECTION", "PAGE", "DOCUMENT"]},
        "maxTokens": {"type": "integer", "minimum": 1, "maximum": 8000},
    },
    "required": ["unit"],
}
HIT_SCHEMA = {
    "type": "object",
    "properties": {
        "content": {"type": "string"},
        "score": {"type": "number"},
        "document": {"type": "object"},
        "chunk": {"type": "object", "description": "index, start, end (characters of the parsed text), page or null"},
        "metadata": {"type": "object"},
        "context": {"type": "object"},
        "duplicates": {"type": "array", "items": {"type": "object"}, "description": "other documents with this text"},
        "url": {
            "type": "string",
            "description": "signed, to the parsed text; for keys with documents:read",
        },
    },
    "required": ["content", "score", "document", "chunk"],
}
OBJECTS_SCHEMA = {"type": "array", "items": {"type": "object"}}

Act = Callable[[OperationCaller, dict[str, Any]], Awaitable[ToolResult]]


@dataclass(frozen=True, slots=True)
class Tool:
    """MCP tool for an operation."""

    name: str
    title: str
    description: str
    operation: str  # its scope and bounds decide who has the tool
    takes: Schema
    answers: Schema
    act: Act
    writes: bool = False
    destroys: bool = False
    # Schemas of accepted arguments that `tools/list` omits.
    unlisted: Schema = field(default_factory=dict)

    def full_schema(self) -> Schema:
        """Return the JSON schema of all accepted arguments."""
        return {**self.takes, "properties": {**self.takes["properties"], **self.unlisted}}

    def to_mcp(self) -> types.Tool:
        """Return the tool for `tools/list`."""
        return types.Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=self.takes,
            output_schema=self.answers,
            annotations=types.ToolAnnotations(
                title=self.title,
                read_only_hint=not self.writes,
                destructive_hint=self.destroys,
                idempotent_hint=not self.writes or self.destroys,
                open_world_hint=self.name == "ingest_urls",
            ),
        )


MCP_TOOLS = (
    Tool(
        name="search",
        title="Search documents",
        description="Find passages that answer a question, best first. Each has its score, its document, its place"
        " there (characters, page) and, if the key may read documents, a link. Ask in a full sentence;"
        " read_document reads around a passage.",
        operation="POST /v1/search",
        takes=arguments_schema(
            ("query",),
            query=text_schema("What to look for, in the words of the question."),
            namespaceId=NAMESPACE_SCHEMA,
            namespaceIds=strings_schema("Instead of namespaceId: up to ten namespaces of one model.", maxItems=10),
            topK=number_schema("Passages at most.", minimum=1, maximum=100, default=10),
            scoreThreshold={"type": "number", "minimum": 0, "maximum": 1, "description": "The least score."},
            minProbability={
                "type": "number",
                "minimum": 0,
                "maximum": 1,
                "description": "Answer nothing if the passages answer the query with less than this probability.",
            },
            filter=FILTER_SCHEMA,
            hybridConfig=HYBRID_SCHEMA,
            expand=EXPAND_SCHEMA,
            perDocument=number_schema("Passages of one document at most.", minimum=1, maximum=100),
        ),
        answers=result_schema(
            results={"type": "array", "items": HIT_SCHEMA},
            answerable={"type": "object", "description": "probability that the passages answer, and its basis"},
        ),
        act=calls.run_search,
        unlisted={"recency": OBJECT_SCHEMA, "rerank": {"type": "boolean"}, "rerankConfig": OBJECT_SCHEMA},
    ),
    Tool(
        name="read_document",
        title="Read a document",
        description="Read the text of a document, or the part around a passage: `start` and `end` are those of a search"
        " result's chunk. Answers the text with its place, the whole length, and `nextStart` to read on.",
        operation="POST /v1/documents",
        takes=arguments_schema(
            ("documentId",),
            documentId=text_schema("The document's id (`doc_…`)."),
            namespaceId=NAMESPACE_SCHEMA,
            start=number_schema("First character of the passage, counted from 0.", minimum=0, default=0),
            end=number_schema("The character after its last; without it, as much as one answer holds.", minimum=0),
            around=number_schema(
                "Characters to read before and after the passage.", minimum=0, maximum=20_000, default=500
            ),
        ),
        answers=result_schema(
            document={"type": "object"},
            content={"type": "string"},
            start={"type": "integer"},
            end={"type": "integer"},
            length={"type": "integer"},
            nextStart={"type": ["integer", "null"]},
            url={"type": "string"},
        ),
        act=calls.read_document,
    ),
    Tool(
        name="list_documents",
        title="List documents",
        description="List the documents of a namespace, newest first, with status and metadata, a page at a time.",
        operation="POST /v1/documents",
        takes=arguments_schema(
            namespaceId=NAMESPACE_SCHEMA,
            filterConfig=DOCUMENT_FILTER_SCHEMA,
            cursor=text_schema("The nextCursor of the page before."),
            pageSize=number_schema("Documents at most.", minimum=1, maximum=100, default=20),
        ),
        answers=result_schema(
            documents=OBJECTS_SCHEMA, hasNextPage={"type": "boolean"}, nextCursor={"type": ["string", "null"]}
        ),
        act=calls.list_documents,
        unlisted={"filter": DOCUMENT_FILTER_SCHEMA},
    ),
    Tool(
        name="get_job_run",
        title="Get a job run",
        description="How far an ingestion is, what it brought in and what failed. It is searchable once the status is"
        " COMPLETED; `waitSeconds` waits for the next change.",
        operation="GET /v1/ingest-job-runs/{ingest_job_run_id}",
        takes=arguments_schema(
            ("ingestJobRunId",),
            ingestJobRunId=text_schema("The job run's id (`ijr_…`), as an ingestion answers it."),
            namespaceId=NAMESPACE_SCHEMA,
            waitSeconds=number_schema("Seconds to wait for a change.", minimum=0, maximum=30, default=0),
        ),
        answers=result_schema(jobRun={"type": "object"}),
        act=calls.get_job_run,
    ),
    Tool(
        name="list_namespaces",
        title="List namespaces",
        description="The namespaces that this key may use: ids and names. Content of one is not found in another.",
        operation="GET /v1/namespaces",
        takes=arguments_schema(),
        answers=result_schema(namespaces=OBJECTS_SCHEMA),
        act=calls.list_namespaces,
    ),
    Tool(
        name="ingest_text",
        title="Add a text",
        description="Add a text to a namespace, so that it can be searched. The same name or externalId again replaces"
        " it. Answers a job run; get_job_run says when it is searchable.",
        operation="POST /v1/ingest/text",
        takes=arguments_schema(
            ("text",),
            text=text_schema("The text itself; Markdown is fine."),
            name=text_schema("What it is called."),
            externalId=text_schema("Its identity elsewhere, instead of the name."),
            metadata=METADATA_SCHEMA,
            namespaceId=NAMESPACE_SCHEMA,
        ),
        answers=result_schema(ingestJobRunId={"type": "string"}, documents=OBJECTS_SCHEMA),
        act=calls.ingest_text,
        writes=True,
    ),
    Tool(
        name="ingest_urls",
        title="Add web pages",
        description="Fetch web pages and add their text to a namespace. Returns a job run; get_job_run lists failures.",
        operation="POST /v1/ingest/urls",
        takes=arguments_schema(
            ("urls",),
            urls=strings_schema("Addresses of the pages."),
            metadata=METADATA_SCHEMA,
            namespaceId=NAMESPACE_SCHEMA,
        ),
        answers=result_schema(ingestJobRunId={"type": "string"}, documents=OBJECTS_SCHEMA),
        act=calls.ingest_urls,
        writes=True,
    ),
    Tool(
        name="delete_documents",
        title="Delete documents",
        description="Delete documents for good, at once. Name them by their ids; ask the person first.",
        operation="DELETE /v1/documents",
        takes=arguments_schema(
            ("documentIds",),
            documentIds=strings_schema("Ids of the documents (`doc_…`).", minItems=1),
            namespaceId=NAMESPACE_SCHEMA,
        ),
        answers=result_schema(message={"type": "string"}, deletionId={"type": "string"}),
        act=calls.delete_documents,
        writes=True,
        destroys=True,
    ),
)


def tools_of_caller(inner: OperationCaller) -> dict[str, Tool]:
    """Return the tools that the caller may use, by name."""
    return {tool.name: tool for tool in MCP_TOOLS if inner.is_allowed(tool.operation)}
