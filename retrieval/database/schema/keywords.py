"""Tables of the keyword index: postings, blocks and term counts."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, Boolean, Column, Identity, Index, LargeBinary, SmallInteger, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlmodel import Field, SQLModel

from retrieval.database.schema.columns import number_column, text_column, time_column


class Posting(SQLModel, table=True):
    """Frequency of a term in an active chunk of `length` terms."""

    __tablename__ = "postings"
    __table_args__ = (Index("postings_of_chunk", "chunk_id"),)
    partition_id: int = number_column(primary_key=True)
    term: str = text_column(primary_key=True)
    chunk_id: int = Field(sa_column=Column(BigInteger, primary_key=True))
    tf: int = Field(sa_column=Column(SmallInteger, nullable=False))
    length: int = Field(nullable=False)


class PostingBlock(SQLModel, table=True):
    """Packed postings of a frequent term (`keywords.posting_blocks`)."""

    __tablename__ = "posting_blocks"
    partition_id: int = number_column(primary_key=True)
    term: str = text_column(primary_key=True)
    block: int = Field(sa_column=Column(BigInteger, Identity(always=True), primary_key=True))
    body: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


class PostingChange(SQLModel, table=True):
    """Chunks added or removed by a transaction since the last packing."""

    __tablename__ = "posting_changes"
    partition_id: int = number_column(primary_key=True)
    change: int = Field(sa_column=Column(BigInteger, Identity(always=True), primary_key=True))
    removed: bool = Field(sa_column=Column(Boolean, nullable=False))
    chunks: list[int] = Field(sa_column=Column(ARRAY(BigInteger), nullable=False))


class PostingPack(SQLModel, table=True):
    """Packed partition with the base of its chunk ids."""

    __tablename__ = "posting_packs"
    partition_id: int = number_column(primary_key=True)
    base: int = Field(sa_column=Column(BigInteger, nullable=False))
    packed_at: datetime | None = time_column(nullable=True)


class TermCount(SQLModel, table=True):
    """Document frequency of a term in parts, so that writers do not wait for each other."""

    __tablename__ = "term_counts"
    __table_args__ = (
        Index(
            "term_counts_by_end",
            "partition_id",
            text("reverse(term)"),
            postgresql_where=text("length(term) >= 7"),
        ),
    )
    partition_id: int = number_column(primary_key=True)
    term: str = text_column(primary_key=True)
    part: int = Field(sa_column=Column(BigInteger, Identity(always=True), primary_key=True))
    chunks: int = Field(nullable=False)
