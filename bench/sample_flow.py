"""The flow that both workers run in `worker_vs_process_pool.py`: as small as a flow can be."""

from prefect import flow


@flow(name="tick")
async def tick() -> None:
    """Nothing: what remains is the orchestration."""
