"""Text recognition of pages that have no text of their own."""
