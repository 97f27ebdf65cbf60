"""The `warm` worker type: flow runs in child processes that are already imported."""
