"""The limited child processes that read files: their pool, limits and folders."""
