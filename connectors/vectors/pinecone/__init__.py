"""Vectors in an index at Pinecone, through its SDK."""
