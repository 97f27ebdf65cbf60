"""How far crawls have come."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Identity
from sqlmodel import Field, SQLModel

from retrieval.database.schema.columns import reference_column, text_column


class CrawlPage(SQLModel, table=True):
    """A page that a crawl has seen, or the mark of a content that it keeps; dropped when the job run is over."""

    __tablename__ = "crawl_pages"
    job_run_id: str = reference_column("job_runs.id", primary_key=True)
    key: str = text_column(primary_key=True)
    position: int = Field(sa_column=Column(BigInteger, Identity(always=True), nullable=False))
    depth: int = Field(nullable=False)
    done: bool = Field(sa_column_kwargs={"server_default": "false"})
    kept: bool = Field(sa_column_kwargs={"server_default": "false"})
    tries: int = Field(sa_column_kwargs={"server_default": "0"})
