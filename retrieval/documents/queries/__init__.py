"""Statements of documents, each a function that returns typed rows."""
