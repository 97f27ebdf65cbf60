"""The Python client of the Retrieval Service.

::

    from retrieval_client import RetrievalClient

    with RetrievalClient("http://127.0.0.1:8000", api_key) as client:
        space = client.namespaces.create("manuals")
        client.ingest.file(space.id, "manual.pdf", wait=True)
        for hit in client.search(space.id, "How do I open the cover?"):
            print(hit.score, hit.metadata["source"], hit.content)
"""

from retrieval_client._async.client import AsyncRetrievalClient
from retrieval_client._sync.client import RetrievalClient
from retrieval_client.errors import RetrievalError, WaitTimeout
from retrieval_client.record import Record
from retrieval_client.requests import Retries
from retrieval_client.results import SearchResults

__all__ = [
    "AsyncRetrievalClient",
    "Record",
    "Retries",
    "RetrievalClient",
    "RetrievalError",
    "SearchResults",
    "WaitTimeout",
]
