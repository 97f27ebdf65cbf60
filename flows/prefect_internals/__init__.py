"""All that is used of Prefect beyond its documented API, and the only place that imports it.

`tests/flows/test_prefect_internals.py` names each member with the parameters that are passed: after an upgrade of
Prefect it says what has to be changed here.
"""
