"""Statements of documents as functions with typed rows."""
