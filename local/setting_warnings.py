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


def list_setting_warnings(environment: Mapping[str, str], env_file: Path, config_file: Path) -> list[str]:
    """Return a warning for each unknown setting, for secrets in `retrieval.toml`, and for proxy variables."""
    try:
        env_file_names: Iterable[str] = DotEnvSettingsSource(Settings, env_file=env_file).env_vars
        config_keys: Iterable[str] = TomlConfigSettingsSource(Settings, config_file).toml_data
    except (OSError, ValueError):
        # The settings themselves fail with the reason.
        env_file_names, config_keys = (), ()
    variables = {name.upper() for name in (*environment, *env_file_names)}
    settings = sorted(name for name in variables if name.startswith(SETTING_PREFIX))
    warnings = [_describe_unknown(name) for name in settings if name not in _KNOWN_VARIABLES]
    warnings += [warning for key in config_keys if (warning := _describe_key(config_file.name, key))]
    proxies = [name for name in environment if name.upper() in _PROXY_VARIABLES and environment[name]]
    all_names = {*variables, *(f"{SETTING_PREFIX}{key.upper()}" for key in config_keys)}
    has_own_proxy = any(name.startswith("RETRIEVAL_EGRESS_PROXY") for name in all_names)
    if proxies and not has_own_proxy:
        warnings.append(f"{', '.join(proxies)} is not used: set RETRIEVAL_EGRESS_PROXY for requests to the outside.")
    return warnings


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
