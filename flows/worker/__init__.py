"""Worker: executes each flow run in a process forked from a prepared process."""
