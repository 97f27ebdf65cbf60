"""Job runs: accepted, grouped into batches, followed, cancelled, retried."""
