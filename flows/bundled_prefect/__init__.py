"""The Prefect server that `retrieval up` starts, on one machine."""
