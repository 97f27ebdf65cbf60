"""The tools: what each is called, takes and says of itself, and which operation's permission it needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from mcp import types

from api.mcp import calls, schemas
from api.mcp.calls import Done
from api.mcp.inner import Inner
from api.mcp.schemas import NAMESPACE, Schema, arguments, number, result, strings, text

Act = Callable[[Inner, dict[str, Any]], Awaitable[Done]]


@dataclass(frozen=True, slots=True)
class Tool:
    """`operation`: whose scope and bounds decide who has it. `destroys`: it takes something away."""

    name: str
    title: str
    description: str
    operation: str
    takes: Schema
    answers: Schema
    act: Act
    writes: bool = False
    destroys: bool = False

    def listed(self) -> types.Tool:
        """As `tools/list` shows it."""
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


TOOLS = (
    Tool(
        name="search",
        title="Search documents",
        description="Find passages that answer a question, best first. Each comes with its score, its document, where"
        " it stands there (characters, page) and, if the key may read documents, a link. Ask in a full sentence;"
        " read_document reads around a passage.",
        operation="POST /v1/search",
        takes=arguments(
            ("query",),
            query=text("What to look for, in the words of the question."),
            namespaceId=NAMESPACE,
            namespaceIds=strings("Instead of namespaceId: up to ten namespaces of one model.", maxItems=10),
            topK=number("Passages at most.", minimum=1, maximum=100, default=10),
            scoreThreshold={"type": "number", "minimum": 0, "maximum": 1, "description": "The least score."},
            filter=schemas.FILTER,
            hybridConfig=schemas.HYBRID,
            expand=schemas.EXPAND,
            perDocument=number("Passages of one document at most.", minimum=1, maximum=100),
        ),
        answers=result(results={"type": "array", "items": schemas.HIT}),
        act=calls.search,
    ),
    Tool(
        name="read_document",
        title="Read a document",
        description="Read the text of a document, or the part around a passage: `start` and `end` are those of a search"
        " result's chunk. Answers the text with where it stands, the whole length, and `nextStart` to read on.",
        operation="POST /v1/documents",
        takes=arguments(
            ("documentId",),
            documentId=text("The document's id (`doc_…`)."),
            namespaceId=NAMESPACE,
            start=number("First character of the passage, counted from 0.", minimum=0, default=0),
            end=number("The character after its last; without it, as much as one answer holds.", minimum=0),
            around=number("Characters to read before and after the passage.", minimum=0, maximum=20_000, default=500),
        ),
        answers=result(
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
        takes=arguments(
            namespaceId=NAMESPACE,
            filterConfig=schemas.open_object(
                'Only those that match, such as {"documentIngestionStatuses": ["FAILED"]}, {"documentTypes": ["FILE"]},'
                ' {"metadata": {key: value}} or {"where": {"field": "document.name", "op": "contains", "value": "a"}}.'
            ),
            cursor=text("The nextCursor of the page before."),
            pageSize=number("Documents at most.", minimum=1, maximum=100, default=20),
        ),
        answers=result(
            documents=schemas.OBJECTS, hasNextPage={"type": "boolean"}, nextCursor={"type": ["string", "null"]}
        ),
        act=calls.list_documents,
    ),
    Tool(
        name="get_job_run",
        title="Get a job run",
        description="How far an ingestion is, what it brought in and what failed. It is searchable once the status is"
        " COMPLETED; `waitSeconds` waits for the next change.",
        operation="GET /v1/ingest-job-runs/{ingest_job_run_id}",
        takes=arguments(
            ("ingestJobRunId",),
            ingestJobRunId=text("The job run's id (`ijr_…`), as an ingestion answers it."),
            namespaceId=NAMESPACE,
            waitSeconds=number("Seconds to wait for a change.", minimum=0, maximum=30, default=0),
        ),
        answers=result(jobRun={"type": "object"}),
        act=calls.get_job_run,
    ),
    Tool(
        name="list_namespaces",
        title="List namespaces",
        description="The namespaces that this key may use: ids and names. Content of one is not found in another.",
        operation="GET /v1/namespaces",
        takes=arguments(),
        answers=result(namespaces=schemas.OBJECTS),
        act=calls.list_namespaces,
    ),
    Tool(
        name="ingest_text",
        title="Add a text",
        description="Add a text to a namespace, so that it can be searched. The same name or externalId again replaces"
        " it. Answers a job run; get_job_run says when it is searchable.",
        operation="POST /v1/ingest/text",
        takes=arguments(
            ("text",),
            text=text("The text itself; Markdown is fine."),
            name=text("What it is called."),
            externalId=text("Its identity elsewhere, instead of the name."),
            metadata=schemas.METADATA,
            namespaceId=NAMESPACE,
        ),
        answers=result(ingestJobRunId={"type": "string"}, documents=schemas.OBJECTS),
        act=calls.ingest_text,
        writes=True,
    ),
    Tool(
        name="ingest_urls",
        title="Add web pages",
        description="Fetch web pages and add their text to a namespace. Answers a job run: get_job_run tells failures.",
        operation="POST /v1/ingest/urls",
        takes=arguments(
            ("urls",), urls=strings("Addresses of the pages."), metadata=schemas.METADATA, namespaceId=NAMESPACE
        ),
        answers=result(ingestJobRunId={"type": "string"}, documents=schemas.OBJECTS),
        act=calls.ingest_urls,
        writes=True,
    ),
    Tool(
        name="delete_documents",
        title="Delete documents",
        description="Delete documents for good, at once. Name them by their ids; ask the person first.",
        operation="DELETE /v1/documents",
        takes=arguments(
            ("documentIds",),
            documentIds=strings("Ids of the documents (`doc_…`).", minItems=1),
            namespaceId=NAMESPACE,
        ),
        answers=result(message={"type": "string"}, deletionId={"type": "string"}),
        act=calls.delete_documents,
        writes=True,
        destroys=True,
    ),
)


def of(inner: Inner) -> dict[str, Tool]:
    """The tools that the caller's key may use, by name: others are absent."""
    return {tool.name: tool for tool in TOOLS if inner.may(tool.operation)}
