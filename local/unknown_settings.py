"""Variables that look like settings and are none: a typing error would otherwise count for nothing without a word."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path

from pydantic_settings import DotEnvSettingsSource

from local.processes import TOKEN
from retrieval.settings import SECRETS, Settings

_PREFIX = "RETRIEVAL_"
_SETTINGS = [f"{_PREFIX}{field.upper()}" for field in Settings.model_fields]
_KNOWN = frozenset(
    {
        *_SETTINGS,
        *(f"{_PREFIX}{name.upper()}_FILE" for name in SECRETS),
        "RETRIEVAL_API_KEY",
        "RETRIEVAL_API_URL",
        TOKEN,
    }
)
"""Those of client commands and of the supervisor included."""


def warnings(environment: Mapping[str, str], file: Path) -> list[str]:
    """Warning for each name in the environment or in `.env` that no setting has, with the one that may be meant."""
    names = sorted({name.upper() for name in (*environment, *_in(file)) if name.upper().startswith(_PREFIX)})
    return [_sentence(name) for name in names if name not in _KNOWN]


def _in(file: Path) -> Iterable[str]:
    try:
        return DotEnvSettingsSource(Settings, env_file=file).env_vars
    except (OSError, UnicodeDecodeError):
        return ()  # reading the settings says so


def _sentence(name: str) -> str:
    if name.endswith("_FILE") and name.removesuffix("_FILE") in _KNOWN:
        return f"{name} is left aside: only secrets are read from files. Set {name.removesuffix('_FILE')} itself."
    alike = get_close_matches(name, _KNOWN - {TOKEN}, 1, 0.8)
    return f"{name} is no setting of this version and is left aside." + (f" Is {alike[0]} meant?" if alike else "")
