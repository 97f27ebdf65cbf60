"""Export of a namespace to a file, and import into another instance."""
