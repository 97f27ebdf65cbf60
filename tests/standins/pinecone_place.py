"""The PINECONE store on a stand-in, with a guard for loopback."""

from ipaddress import ip_network

from connectors.vectors.pinecone.client import PineconeClient
from connectors.vectors.pinecone.store import PineconeStore
from retrieval.network.fetch_guard import Guard
from tests.standins.pinecone import API_KEY, Index

LOOPBACK = Guard((ip_network("127.0.0.0/8"),))


def pinecone_store(index: Index, namespace_id: str, dimensions: int, key: str = API_KEY) -> PineconeStore:
    """Return the store for a namespace's configuration."""
    return PineconeStore(PineconeClient(index.host, key, LOOPBACK), namespace_id, dimensions)
