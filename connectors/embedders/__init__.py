"""Embedding models, one module per vendor."""
