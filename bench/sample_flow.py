"""Smallest flow, for `worker_vs_process_pool.py`."""

from prefect import flow


@flow(name="tick")
async def tick() -> None:
    """Do nothing: only the orchestration takes time."""
