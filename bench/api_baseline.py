"""Baseline of bench/api.py: the same two routes with FastAPI, SQLModel, asyncpg and Uvicorn.

Written as for production: hashed keys, a rate counted in PostgreSQL, strict bodies, rate headers and request ids. Run
`python -m bench.api_baseline PORT` with DATABASE in the environment; `prepare KEY` creates the tables.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import secrets
import sys
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Annotated, Any

import uvicorn
from fastapi import Depends, FastAPI, Header, HTTPException, Response
from pydantic import BaseModel, ConfigDict
from pydantic import Field as Bounded
from sqlalchemy import JSON, Column, DateTime, text
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlmodel import Field, SQLModel, select
from sqlmodel.ext.asyncio.session import AsyncSession

KEY_PEPPER = b"bench"
engine = create_async_engine(os.environ.get("DATABASE", "postgresql+asyncpg://"), pool_size=8, max_overflow=0)
sessions = async_sessionmaker(engine, class_=AsyncSession, expire_on_commit=False)
app = FastAPI()


def current_time() -> datetime:
    return datetime.now(UTC)


def new_id(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(16)}"


def make_time_field() -> Any:
    return Field(default_factory=current_time, sa_column=Column(DateTime(timezone=True), nullable=False))


class Organization(SQLModel, table=True):
    id: str = Field(primary_key=True)
    requests_per_minute: int


class ApiKey(SQLModel, table=True):
    id: str = Field(primary_key=True)
    hash: str = Field(unique=True)
    organization_id: str = Field(foreign_key="organization.id")
    scopes: list[str] = Field(default_factory=list, sa_column=Column(JSON))
    revoked_at: datetime | None = Field(default=None, sa_column=Column(DateTime(timezone=True)))


class RateWindow(SQLModel, table=True):
    caller: str = Field(primary_key=True)
    minute: int
    requests: int


class Namespace(SQLModel, table=True):
    id: str = Field(primary_key=True)
    organization_id: str = Field(foreign_key="organization.id", index=True)
    name: str
    config: dict[str, Any] = Field(default_factory=dict, sa_column=Column(JSON))
    created_at: datetime = make_time_field()
    updated_at: datetime = make_time_field()


class Job(SQLModel, table=True):
    id: str = Field(primary_key=True)
    namespace_id: str = Field(foreign_key="namespace.id", index=True)
    source: str
    config: dict[str, Any] = Field(default_factory=dict, sa_column=Column(JSON))
    created_at: datetime = make_time_field()


class JobRun(SQLModel, table=True):
    id: str = Field(primary_key=True)
    job_id: str = Field(foreign_key="job.id", index=True)
    status: str = "QUEUED"
    created_at: datetime = make_time_field()


class Document(SQLModel, table=True):
    id: str = Field(primary_key=True)
    namespace_id: str = Field(foreign_key="namespace.id", index=True)
    job_run_id: str = Field(foreign_key="jobrun.id", index=True)
    name: str
    status: str = "QUEUED"
    content: str
    created_at: datetime = make_time_field()


class TextConfig(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    text: str = Bounded(min_length=1, max_length=10_000_000)
    name: str | None = Bounded(default=None, max_length=255)
    metadata: dict[str, Any] | None = None


class TextIngestion(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    source: str
    config: TextConfig


class IngestText(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    namespaceId: str  # noqa: N815
    ingestConfig: TextIngestion  # noqa: N815


class NamespaceView(BaseModel):
    id: str
    identifier: str
    name: str
    fileStorageConfig: dict[str, Any]  # noqa: N815
    vectorStorageConfig: dict[str, Any]  # noqa: N815
    embeddingModelConfig: dict[str, Any]  # noqa: N815
    createdAt: datetime  # noqa: N815
    updatedAt: datetime  # noqa: N815


class NamespaceAnswer(BaseModel):
    success: bool = True
    message: str
    data: NamespaceView


class IngestAnswer(BaseModel):
    success: bool = True
    message: str
    data: dict[str, str]


async def open_session() -> AsyncIterator[AsyncSession]:
    async with sessions() as opened:
        yield opened


Session = Annotated[AsyncSession, Depends(open_session)]


async def authenticate(
    response: Response,
    db: Session,
    authorization: Annotated[str, Header()] = "",
    x_request_id: str | None = Header(None),
) -> ApiKey:
    digest = hmac.digest(KEY_PEPPER, authorization.removeprefix("Bearer ").encode(), hashlib.sha256).hex()
    query = (
        select(ApiKey, Organization).join(Organization).where(ApiKey.hash == digest, ApiKey.revoked_at == None)  # noqa: E711
    )
    found_row = (await db.exec(query)).first()
    if found_row is None:
        raise HTTPException(401, headers={"WWW-Authenticate": "Bearer"})
    key, organization = found_row
    minute = int(time.time()) // 60
    counted = await db.exec(  # type: ignore[call-overload]
        text(
            "insert into ratewindow as w (caller, minute, requests) values (:caller, :minute, 1)"
            " on conflict (caller) do update set"
            " requests = case when w.minute = excluded.minute then w.requests + 1 else 1 end, minute = excluded.minute"
            " returning requests"
        ),
        params={"caller": organization.id, "minute": minute},
    )
    requests = counted.scalar_one()
    await db.commit()
    if requests > organization.requests_per_minute:
        raise HTTPException(429, headers={"Retry-After": str(60 - int(time.time()) % 60)})
    response.headers["X-RateLimit-Limit"] = str(organization.requests_per_minute)
    response.headers["X-RateLimit-Remaining"] = str(organization.requests_per_minute - requests)
    response.headers["X-RateLimit-Reset"] = str((minute + 1) * 60)
    response.headers["X-Request-Id"] = x_request_id or new_id("req")
    return key


Caller = Annotated[ApiKey, Depends(authenticate)]


async def find_namespace(db: AsyncSession, key: ApiKey, namespace_id: str) -> Namespace:
    query = select(Namespace).where(Namespace.id == namespace_id, Namespace.organization_id == key.organization_id)
    namespace = (await db.exec(query)).first()
    if namespace is None:
        raise HTTPException(404)
    return namespace


@app.get("/v1/namespaces/{namespace_id}")
async def get_namespace(namespace_id: str, key: Caller, db: Session) -> NamespaceAnswer:
    namespace = await find_namespace(db, key, namespace_id)
    view = NamespaceView(
        id=namespace.id,
        identifier=namespace.id,
        name=namespace.name,
        createdAt=namespace.created_at,
        updatedAt=namespace.updated_at,
        **namespace.config,
    )
    return NamespaceAnswer(message="Namespace fetched successfully", data=view)


@app.post("/v1/ingest/text")
async def ingest_text(body: IngestText, key: Caller, db: Session) -> IngestAnswer:
    space = await find_namespace(db, key, body.namespaceId)
    config = body.ingestConfig.config
    job = Job(id=new_id("job"), namespace_id=space.id, source="TEXT", config={"metadata": config.metadata})
    run = JobRun(id=new_id("run"), job_id=job.id)
    document = Document(
        id=new_id("doc"),
        namespace_id=space.id,
        job_run_id=run.id,
        name=config.name or hashlib.sha256(config.text.encode()).hexdigest()[:12],
        content=config.text,
    )
    for row in (job, run, document):
        db.add(row)
        await db.flush()
    await db.exec(text("notify work"))  # type: ignore[call-overload]
    await db.commit()
    data = {"ingestJobId": job.id, "ingestJobRunId": run.id, "documentId": document.id}
    return IngestAnswer(message="Text accepted", data=data)


async def create_tables(api_key: str) -> str:
    """Create tables, an organization with the key and a namespace; return the namespace's id."""
    async with engine.begin() as connection:
        await connection.run_sync(SQLModel.metadata.create_all)
    config = {
        "fileStorageConfig": {"type": "LOCAL"},
        "vectorStorageConfig": {"provider": "PGVECTOR"},
        "embeddingModelConfig": {"provider": "LOCAL", "model": "all-MiniLM-L6-v2"},
    }
    async with sessions() as db:
        db.add(Organization(id="org", requests_per_minute=1_000_000_000))
        await db.flush()
        digest = hmac.digest(KEY_PEPPER, api_key.encode(), hashlib.sha256).hex()
        db.add(ApiKey(id="key", hash=digest, organization_id="org", scopes=["namespaces:read", "ingest:write"]))
        space = Namespace(id=new_id("ns"), organization_id="org", name="bench", config=config)
        db.add(space)
        await db.commit()
    await engine.dispose()
    return space.id


if __name__ == "__main__":
    if sys.argv[1] == "prepare":
        print(asyncio.run(create_tables(sys.argv[2])))
    else:
        uvicorn.run(app, port=int(sys.argv[1]), loop="uvloop", http="httptools")
