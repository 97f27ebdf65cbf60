"""Access control of documents: groups, viewers and access lists."""
