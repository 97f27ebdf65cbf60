"""Vectors in an index at Pinecone."""
