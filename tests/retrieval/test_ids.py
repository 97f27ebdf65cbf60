"""Ids carry a type prefix, sort by age and are unguessable."""

import re

import pytest

from retrieval import ids

MAKERS = {
    "org_": ids.organization_id,
    "ns_": ids.namespace_id,
    "doc_": ids.document_id,
    "job_": ids.job_id,
    "ijr_": ids.job_run_id,
    "conn_": ids.connection_id,
    "key_": ids.key_id,
}


@pytest.mark.parametrize("prefix", MAKERS)
def test_an_id_carries_its_prefix_and_enough_randomness(prefix):
    generated = {MAKERS[prefix]() for _ in range(1000)}
    assert len(generated) == 1000
    assert all(re.fullmatch(prefix + "[0-9a-hjkmnp-tv-z]{36}", identifier) for identifier in generated)
    random_bits = (36 * 5) - 48
    assert random_bits >= 120
