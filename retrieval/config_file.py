"""Settings in a TOML file, `retrieval.toml`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, TomlConfigSettingsSource

from retrieval.secret_files import FileProblem, secret_fields

PATH_VARIABLE = "RETRIEVAL_CONFIG"


class ConfigFile(TomlConfigSettingsSource):
    """Read settings from the TOML file of RETRIEVAL_CONFIG, by default from `default`. Raises FileProblem."""

    def __init__(
        self, settings_cls: type[BaseSettings], default: Path, sources: Iterable[PydanticBaseSettingsSource]
    ) -> None:
        self._secrets = secret_fields(settings_cls)
        variables = [getattr(source, "env_vars", {}) for source in sources]
        configured_path = next((path for values in variables if (path := values.get(PATH_VARIABLE.lower()))), None)
        self.path = Path(configured_path) if configured_path else default
        if configured_path and not (self.path.is_absolute() and self.path.is_file()):
            raise FileProblem(PATH_VARIABLE, "not the absolute path of a file")
        try:
            super().__init__(settings_cls, self.path)
        except UnicodeDecodeError:
            raise FileProblem(self.path.name, "not UTF-8") from None
        except (ValueError, RecursionError) as error:
            location = re.search(r"\(at (.+)\)$", str(error))
            raise FileProblem(self.path.name, f"not TOML{f', at {location[1]}' if location else ''}") from None
        except OSError:
            raise FileProblem(self.path.name, "the file cannot be read") from None

    @property
    def env_vars(self) -> Mapping[str, str | None]:
        """Return strings of the file by lower-case variable name. FileProblem for a secret's file without a path."""
        # Named as in `EnvSettingsSource`, so that files of secrets are found in both.
        prefix = str(self.config.get("env_prefix", "")).lower()
        texts = {}
        for key, value in self.toml_data.items():
            name = key.lower()
            if isinstance(value, str):
                texts[prefix + name] = value
            elif name.removesuffix("_file") in self._secrets and name not in self._secrets:
                raise FileProblem(f"{prefix}{name}".upper(), "not the absolute path of a file")
        return texts
