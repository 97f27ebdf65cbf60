"""Short fixed round of the fault suite; `make soak` runs longer."""

import pytest

from tests.faults import rounds
from tests.faults.place import Place

SEED = 20_261_122
SECONDS = 22.0
# Other tests run at the same time.
PATIENCE = 3
NAMES = ("SIGKILL api", "SIGKILL child", "SIGSTOP worker", "SIGKILL postgres", "reset network", "disk for files full")


@pytest.fixture
def installation():
    started = Place(SEED)
    yield started
    started.close()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_nothing_is_lost_doubled_or_half_seen_whatever_dies(installation):
    names = [name for name in NAMES if installation.has_disk or name != "disk for files full"]
    done = rounds.run(installation, SEED, 0, SECONDS, names, PATIENCE)
    assert not done.wrong, str(done)
    assert done.acknowledged > 10
    assert done.reads >= rounds.READS
