"""Rerankers, one module per vendor."""
