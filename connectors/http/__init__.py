"""Shared HTTP client code of vendors: tokens, retries, bounded bodies, paging, HTML."""
