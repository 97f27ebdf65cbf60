"""Model Context Protocol: operations of the API as tools for language models."""

from importlib import metadata
from typing import Any

# Shown to clients over HTTP and over stdin and stdout.
SERVER_IDENTITY: dict[str, Any] = {
    "title": "Retrieval Service",
    "version": metadata.version("retrieval-service"),
    "instructions": (
        "Search documents by meaning and by words, and read them. Begin with list_namespaces unless the key is bound to"
        " one namespace. Cite results by their document and url. What is added is searchable once its job run is"
        " COMPLETED."
    ),
}
