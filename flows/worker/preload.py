"""Imported by the fork server alone: what every flow run needs, and a process group of its own.

The group keeps a Ctrl-C or a signal sent to the worker's group away from flow runs: only the worker decides when they
end. An ImportError is raised as another kind, because the fork server would swallow it in silence.
"""

import gc
import os

import anyio

os.setpgid(0, 0)
try:
    import prefect.flow_engine
    import prefect.task_engine
    import prefect.utilities.visualization  # noqa: F401

    import flows.sources
    import flows.worker.run_process  # noqa: F401
    from connectors import registry
    from retrieval import settings
    from retrieval.ingestion.chunking.tokenizer import MINILM_MODEL, tokenizer_for

    settings.load_settings()
    registry.import_local()
    tokenizer_for("LOCAL", MINILM_MODEL)
except ImportError as error:
    raise RuntimeError(f"Flow runs cannot be prepared: {error}") from error
anyio.run(anyio.sleep, 0)  # imports the event loop's backend
gc.collect()
gc.freeze()  # what is imported is shared by all flow runs, and looked at by none of their collectors
