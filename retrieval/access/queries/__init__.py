"""Statements of access control as functions with typed rows."""
