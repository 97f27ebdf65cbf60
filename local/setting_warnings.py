"""Warnings about settings that have no effect, or are in the wrong place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path

from pydantic_settings import DotEnvSettingsSource, TomlConfigSettingsSource

from local.processes import TOKEN_VARIABLE
from retrieval.settings import SECRET_FIELDS, Settings

SETTING_PREFIX = "RETRIEVAL_"
_KNOWN_VARIABLES = frozenset(
    {
        *(f"{SETTING_PREFIX}{field.upper()}" for field in Settings.model_fields),
        *(f"{SETTING_PREFIX}{name.upper()}_FILE" for name in SECRET_FIELDS),
        "RETRIEVAL_API_KEY",
        "RETRIEVAL_API_URL",
        TOKEN_VARIABLE,
    }
)


_PROXY_VARIABLES = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"})


def list_setting_warnings(environment: Mapping[str, str], file: Path, config_file: Path) -> list[str]:
    """Return a warning for each unknown setting, for secrets in `retrieval.toml`, and for proxy variables."""
    try:
        in_file: Iterable[str] = DotEnvSettingsSource(Settings, env_file=file).env_vars
        in_config: Mapping[str, object] = TomlConfigSettingsSource(Settings, config_file).toml_data
    except (OSError, ValueError):
        in_file, in_config = (), {}  # reading the settings says so
    proxies = [name for name in environment if name.upper() in _PROXY_VARIABLES and environment[name]]
    configured = [f"{SETTING_PREFIX}{name.upper()}" for name in in_config]
    is_set = any(name.upper().startswith("RETRIEVAL_EGRESS_PROXY") for name in (*environment, *in_file, *configured))
    unused = f"{', '.join(proxies)} is not used: set RETRIEVAL_EGRESS_PROXY for requests to the outside."
    names = sorted({name.upper() for name in (*environment, *in_file) if name.upper().startswith(SETTING_PREFIX)})
    warnings = [_describe_unknown(name) for name in names if name not in _KNOWN_VARIABLES]
    warnings += [text for name in in_config if (text := _describe_key(config_file.name, name))]
    return [*warnings, unused] if proxies and not is_set else warnings


def _describe_unknown(name: str) -> str:
    if name.endswith("_FILE") and name.removesuffix("_FILE") in _KNOWN_VARIABLES:
        return f"{name} is ignored: only secrets are read from files. Set {name.removesuffix('_FILE')} itself."
    alike = get_close_matches(name, _KNOWN_VARIABLES - {TOKEN_VARIABLE}, 1, 0.8)
    return f"{name} is not a setting of this version and is ignored." + (f" Did you mean {alike[0]}?" if alike else "")


def _describe_key(file: str, name: str) -> str:
    """Return a warning for a key of `retrieval.toml`; "" for a setting that may be there."""
    key = name.lower()
    if key in SECRET_FIELDS:
        return f"{file}: {name} is a secret. Write it to a file, and set {key}_file to the absolute path."
    if key in Settings.model_fields or key.removesuffix("_file") in SECRET_FIELDS:
        return ""
    alike = get_close_matches(key.removeprefix(SETTING_PREFIX.lower()), Settings.model_fields, 1, 0.8)
    return f"{file}: {name} is not a setting and is ignored." + (f" Did you mean {alike[0]}?" if alike else "")
