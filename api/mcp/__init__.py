"""The Model Context Protocol: the API's operations as tools for language models."""

from importlib import metadata
from typing import Any

IDENTITY: dict[str, Any] = {
    "title": "Retrieval Service",
    "version": metadata.version("retrieval-service"),
    "instructions": (
        "Search documents by meaning and by words, and read them. Begin with list_namespaces unless the key is bound to"
        " one namespace. Cite results by their document and url. What is added is searchable once its job run is"
        " COMPLETED."
    ),
}
"""The server as clients see it, over HTTP and over stdin and stdout."""
