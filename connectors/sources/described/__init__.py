"""Services that are read by a description: one YAML file each, and an engine that executes it."""
