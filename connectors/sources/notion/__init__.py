"""Notion, through its SDK."""
