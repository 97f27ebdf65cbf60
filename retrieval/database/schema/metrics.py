"""Counters and histograms for Prometheus, added up over all processes."""

from __future__ import annotations

from sqlalchemy import Column, Double
from sqlmodel import Field, SQLModel

from retrieval.database.schema.columns import text_column


class MetricCount(SQLModel, table=True):
    """`organization_id`: '' for the whole installation. `labels`: their values with commas. `part`: of a histogram the
    upper bound of a bucket, or `sum`; '' of a counter. A few hundred rows for each organization at most."""

    __tablename__ = "metric_counts"
    organization_id: str = text_column(primary_key=True)
    name: str = text_column(primary_key=True)
    labels: str = text_column(primary_key=True)
    part: str = text_column(primary_key=True)
    value: float = Field(sa_column=Column(Double, nullable=False))
