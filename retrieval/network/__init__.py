"""Which addresses may be dialled, and which URLs are taken."""
