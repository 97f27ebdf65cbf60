"""Secrets of settings in files: `RETRIEVAL_…_FILE`."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

_MAX_SECRET_FILE_BYTES = 64 * 1024


class FileProblem(Exception):
    """Unusable file of a setting: name and problem, without path or content."""

    def __init__(self, name: str, problem: str) -> None:
        self.name, self.problem = name, problem
        super().__init__(f"{name}: {problem}")


def secret_fields(settings: type[BaseSettings]) -> tuple[str, ...]:
    return tuple(name for name, field in settings.model_fields.items() if "SecretStr" in str(field.annotation))


class SecretFiles(PydanticBaseSettingsSource):
    """Settings source of secrets in files. Raises FileProblem."""

    def __init__(self, settings_cls: type[BaseSettings], sources: Iterable[PydanticBaseSettingsSource]) -> None:
        super().__init__(settings_cls)
        self._sources = [getattr(source, "env_vars", {}) for source in sources]

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002
        return None, field_name, False  # `__call__` answers for all fields at once

    def __call__(self) -> dict[str, Any]:
        prefix = str(self.config.get("env_prefix", "")).lower()
        return dict(read_secret_files(secret_fields(self.settings_cls), self._sources, prefix=prefix))


def read_secret_files(
    fields: Iterable[str], sources: Iterable[Mapping[str, str | None]], *, prefix: str
) -> dict[str, str]:
    """Return the content of secrets given as files, by field.

    `sources`: variables by lower-case name, in order of precedence; `<prefix><field>_file` is an absolute path. Raises
    FileProblem for an unusable file, or a value and a file in one source.
    """
    secrets: dict[str, str] = {}
    decided: set[str] = set()
    for variables in sources:
        for field in fields:
            value, path = variables.get(prefix + field), variables.get(f"{prefix}{field}_file")
            if field in decided:
                continue
            if path and value:
                raise FileProblem(f"{prefix}{field}_file".upper(), f"{prefix}{field}".upper() + " is set as well")
            if path:
                secrets[field] = _content(f"{prefix}{field}_file".upper(), Path(path))
            if path or value is not None:
                decided.add(field)
    return secrets


def _content(name: str, file: Path) -> str:
    """Return the content without byte order mark and surrounding white space."""
    if not file.is_absolute():
        raise FileProblem(name, "not the absolute path of a file")
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            raise FileProblem(name, "not a regular file")
        with file.open("rb") as opened:
            content = opened.read(_MAX_SECRET_FILE_BYTES + 1)
        if len(content) > _MAX_SECRET_FILE_BYTES:
            raise FileProblem(name, f"the file is larger than {_MAX_SECRET_FILE_BYTES} bytes")
        text = content.decode("utf-8-sig").strip()
        # Lines of JSON: its strings hold no line breaks.
        text = re.sub(r"[\r\n\t]+", " ", text) if text.startswith("{") else text
    except (FileNotFoundError, NotADirectoryError):
        raise FileProblem(name, "there is no such file") from None
    except PermissionError:
        raise FileProblem(name, "this user may not read the file") from None
    except UnicodeDecodeError:
        raise FileProblem(name, "the file is not UTF-8") from None
    except (OSError, ValueError):
        raise FileProblem(name, "the file cannot be read") from None
    if not text or not text.isprintable():
        raise FileProblem(name, "the file is empty" if not text else "the file does not hold one line of text")
    return text
