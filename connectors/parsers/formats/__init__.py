"""Readers of each file format, run in a parser child."""
