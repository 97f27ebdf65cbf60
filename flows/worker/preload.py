"""Preload of the fork server: imports for every flow run, in an own process group."""

import gc
import os

import anyio

# Keeps Ctrl-C and signals to the worker's group away from flow runs: only the worker ends them.
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
    from retrieval.namespaces import namespaces

    settings.load_settings()
    registry.import_local()
    tokenizer_for("LOCAL", MINILM_MODEL)
    namespaces.compile_loading()  # SQLAlchemy's first compilation takes 30 ms of CPU
    "localhost".encode("idna")  # the table of names for HTTP
# The fork server ignores an ImportError silently.
except ImportError as error:
    raise RuntimeError(f"Flow runs cannot be prepared: {error}") from error
anyio.run(anyio.sleep, 0)  # imports the event loop's backend
gc.collect()
gc.freeze()  # flow runs share the imported objects, and their collectors skip them
