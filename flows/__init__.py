"""What runs in the background, in Prefect's words: flows, tasks, the worker, the dispatcher and the reconciler."""
