"""Cutting a parsed text into chunks: by tokens, at the best boundary, offsets exact."""
