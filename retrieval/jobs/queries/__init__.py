"""Statements on job runs and batches, each a function that returns typed rows."""
