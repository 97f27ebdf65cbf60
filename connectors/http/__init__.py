"""What all vendors have in common over HTTP: tokens, retries, bounded bodies, paging, HTML."""
