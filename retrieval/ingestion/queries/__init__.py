"""Statements on documents of job runs, each a function that returns typed rows."""
