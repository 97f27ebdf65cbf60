"""`flows/sources.py` has a flow for each source of the registry."""

import importlib
from pathlib import Path

from connectors import registry
from flows import deployments, sources
from retrieval.sources import FETCHED

SOURCE_FLOWS = Path(sources.__file__).read_text()


def lines_to_add(name, documents):
    return (
        f'@flow(name="{deployments.FLOWS[name]}", persist_result=False)\n'
        f"async def ingest_{name.lower()}(batch_id: str, attempt: int) -> State[None]:\n"
        f'    """Ingest {documents[0].lower()}{documents[1:]}."""\n'
        "    return await run_ingestion(batch_id, attempt)\n"
    )


def test_every_service_of_the_registry_has_a_written_out_flow():
    services = {name: info.documents for name, info in registry.source_infos().items()}
    missing = [
        lines_to_add(name, text) for name, text in services.items() if f"def ingest_{name.lower()}(" not in SOURCE_FLOWS
    ]
    assert not missing, "Add to flows/sources.py:\n\n" + "\n\n".join(missing)


def test_the_entrypoint_of_every_deployment_is_the_flow_of_its_name():
    entrypoints = {entry["name"]: entry["entrypoint"] for entry in deployments.read_plan()["deployments"]}
    assert set(entrypoints) >= set(deployments.FLOWS.values())
    assert set(deployments.FLOWS) == {"TEXT", "LOCAL_FILE", "REEMBED", "DRY_RUN", *FETCHED}
    for name, entrypoint in entrypoints.items():
        module, _, function = entrypoint.rpartition(".")
        assert getattr(importlib.import_module(module), function).name == name
