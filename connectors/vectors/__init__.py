"""Vector stores: where embeddings are searched."""
