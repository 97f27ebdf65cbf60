"""Background work with Prefect: flows, tasks, the worker, the dispatcher and the reconciler."""
