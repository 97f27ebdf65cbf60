"""The PINECONE store on a stand-in, with a guard that lets it reach this machine."""

from ipaddress import ip_network

from connectors.vectors.pinecone.client import PineconeClient
from connectors.vectors.pinecone.store import PineconeStore
from retrieval.network.fetch_guard import Guard
from tests.standins.pinecone import KEY, Index

LOOPBACK = Guard((ip_network("127.0.0.0/8"),))


def pinecone_store(index: Index, namespace_id: str, dimensions: int, key: str = KEY) -> PineconeStore:
    """As a namespace's configuration makes it."""
    return PineconeStore(PineconeClient(index.host, key, LOOPBACK), namespace_id, dimensions)
