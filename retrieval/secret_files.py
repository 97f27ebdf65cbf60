"""Secrets that are given as the path of a file, as container platforms mount them."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

_LARGEST = 64 * 1024


class FileProblem(Exception):
    """A setting whose file cannot be used: its name, and why in words that hold neither path nor content."""

    def __init__(self, name: str, problem: str) -> None:
        self.name, self.problem = name, problem
        super().__init__(f"{name}: {problem}")


def secret_fields(settings: type[BaseSettings]) -> tuple[str, ...]:
    return tuple(name for name, field in settings.model_fields.items() if "SecretStr" in str(field.annotation))


class SecretFiles(PydanticBaseSettingsSource):
    """The secrets that one of these sources gives as files. FileProblem where one cannot be had."""

    def __init__(self, settings_cls: type[BaseSettings], sources: Iterable[PydanticBaseSettingsSource]) -> None:
        super().__init__(settings_cls)
        self._sources = [getattr(source, "env_vars", {}) for source in sources]

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002
        return None, field_name, False  # `__call__` answers for all fields at once

    def __call__(self) -> dict[str, Any]:
        prefix = str(self.config.get("env_prefix", "")).lower()
        return dict(secrets_of(secret_fields(self.settings_cls), self._sources, prefix=prefix))


def secrets_of(fields: Iterable[str], sources: Iterable[Mapping[str, str | None]], *, prefix: str) -> dict[str, str]:
    """Field to content for those that the first source to know them gives as a file.

    `sources`: variables by lower-case name, such as the environment and then `.env`; in each of them `<prefix><field>`
    holds a value and `<prefix><field>_file` the absolute path of a file with it. FileProblem where one source gives
    both, or the file cannot be used.
    """
    found: dict[str, str] = {}
    decided: set[str] = set()
    for variables in sources:
        for field in fields:
            value, path = variables.get(prefix + field), variables.get(f"{prefix}{field}_file")
            if field in decided:
                continue
            if path and value:
                raise FileProblem(f"{prefix}{field}_file".upper(), f"{prefix}{field}".upper() + " is set as well")
            if path:
                found[field] = _content(f"{prefix}{field}_file".upper(), Path(path))
            if path or value is not None:
                decided.add(field)
    return found


def _content(name: str, file: Path) -> str:
    """What the file holds, without a byte order mark and white space around it."""
    if not file.is_absolute():
        raise FileProblem(name, "not the absolute path of a file")
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            raise FileProblem(name, "not a regular file")
        with file.open("rb") as opened:
            content = opened.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise FileProblem(name, f"the file is larger than {_LARGEST} bytes")
        text = content.decode("utf-8-sig").strip()
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
