"""Services read by a description: a YAML file each, executed by a common engine."""
