"""The check of tables, files and vector stores against each other (`retrieval fsck`), and its repair."""
