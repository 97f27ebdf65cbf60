"""Access control of documents in a scope: groups, viewers, and access lists."""
