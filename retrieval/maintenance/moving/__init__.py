"""A namespace as one file: exported from one instance, imported into another."""
