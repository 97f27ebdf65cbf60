"""Statements of access, each a function that returns typed rows."""
