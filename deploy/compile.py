"""Import all modules of a role, to be kept compiled. A failed import is an error.

    python deploy/compile.py service | app

On a read-only file system nothing can be compiled later; all packages compiled would take twice the space.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path

PACKAGES = {"service": ("retrieval", "connectors", "flows", "api", "local"), "app": ("ui",)}
SCRIPTS = ("__main__",)
LATER = {
    # Imported on first use, by us or by Prefect.
    "service": (
        "uvicorn.protocols.http.httptools_impl",
        "alembic.command",
        "asyncpg",
        "boto3.s3.transfer",
        "botocore.httpsession",
        "cohere",
        "doc2docx",
        "dropbox",
        "firecrawl",
        "googleapiclient.discovery",
        "justext",
        "liteparse",
        "msal",
        "notion_client",
        "onnx",
        "onnxruntime",
        "pinecone",
        "prefect.cli.worker",
        "prefect.server.api.server",
        "pypdfium2",
        "rapidocr",
        "spellchecker",
        "sqlalchemy.dialects.postgresql.asyncpg",
        "tokenizers",
        "trafilatura",
        "wordllama",
    ),
    "app": (
        "altair",
        "authlib.integrations.starlette_client",
        "httpx",
        "pandas",
        "pyarrow",
        "streamlit.web.bootstrap",
        "streamlit.web.cli",
        "ui.server",
    ),
}


def main(image: str) -> None:
    sys.path.insert(0, str(Path.cwd()))
    for name in LATER[image]:
        importlib.import_module(name)
    if image == "app":
        return
    for package in PACKAGES[image]:
        modules = pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}.")
        for module in modules:
            if not module.name.endswith(SCRIPTS):
                importlib.import_module(module.name)


if __name__ == "__main__":
    main(sys.argv[1])
