"""Clocks that jump by an hour in the middle of a stream: of each role, of PostgreSQL, of Prefect; there and back."""

import time

import pytest

from tests.faults import faults, rounds
from tests.faults.place import Place

SEED = 20_261_123
SECONDS = 40.0
PATIENCE = 3
"""Other tests run beside this one."""


@pytest.fixture(scope="module")
def place():
    made = Place(SEED, has_own_prefect=True)
    if not made.clocks:
        made.close()
        pytest.skip("libfaketime is not installed (Debian's package faketime): no clock can jump on this machine")
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seconds", [faults.HOUR, -faults.HOUR])
@pytest.mark.parametrize("role", faults.CLOCKS)
def test_work_goes_on_while_a_clock_is_wrong(place, role, seconds):
    """Not only after it was set right: a machine without NTP stays where it is."""
    place.set_clock(role, seconds)
    try:
        time.sleep(2)  # it is looked at every second
        word = f"{role}{'ahead' if seconds > 0 else 'behind'}x"
        made = place.service.text(f"A text with the word {word}.", name=word)
        place.service.wait(made["ingestJobRunId"], seconds=20 * PATIENCE)
        keywords = {"semanticWeight": 0, "keywordWeight": 1}
        assert [hit["document"]["name"] for hit in place.service.search(word, topK=3, hybridConfig=keywords)] == [word]
    finally:
        place.set_clock(role, 0)
        time.sleep(2)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_clocks_may_jump(place):
    names = [f"clock of {role} jumps" for role in faults.CLOCKS]
    done = rounds.run(place, SEED, 0, SECONDS, names, PATIENCE)
    assert not done.wrong, str(done)
    assert done.acknowledged > 10
