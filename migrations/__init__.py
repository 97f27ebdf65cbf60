"""The schema's history, applied by `retrieval migrate` and at every start."""
