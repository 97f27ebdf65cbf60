"""Evaluations: judged questions, and search metrics for different settings."""
