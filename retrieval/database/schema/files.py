"""Which folder the files of LOCAL file storage are in."""

from __future__ import annotations

from sqlalchemy import Boolean, CheckConstraint, Column, text
from sqlmodel import Field, SQLModel

from retrieval.database.schema.columns import text_column


class FilesFolder(SQLModel, table=True):
    """One row: the id that the marker in the folder bears (`retrieval.readiness.files_folder`)."""

    __tablename__ = "files_folder"
    __table_args__ = (CheckConstraint("single", name="files_folder_is_one"),)
    single: bool = Field(sa_column=Column(Boolean, primary_key=True, server_default=text("true"), nullable=False))
    id: str = text_column()
