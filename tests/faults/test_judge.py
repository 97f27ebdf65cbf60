"""The judge of the suite: what is left alone is wrong, what the workers are getting through is not."""

import pytest

from tests.faults import judge


class Database:
    """Ends one more of `count` job runs `every` seconds, from `begins` on; a clock of its own."""

    def __init__(self, count, every, begins=0.0):
        self.now, self._count, self._every, self._begins = 0.0, count, every, begins

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds

    def _ended(self):
        return min(self._count, max(0, int((self.now - self._begins) / self._every)))

    def execute(self, statement):
        asks_how_far = isinstance(statement, bytes)
        self._rows = (
            [{"runs": self._ended()}] if asks_how_far else [{"id": n} for n in range(self._count - self._ended())]
        )
        return self

    def fetchone(self):
        return self._rows[0]

    def fetchall(self):
        return self._rows


@pytest.mark.parametrize(
    ("database", "said"),
    [
        (Database(10, every=1), None),
        (Database(100, every=1.5), None),
        (Database(10, every=1, begins=judge.OPEN_SECONDS - 5), None),
        (Database(10, every=1, begins=judge.OPEN_SECONDS + judge.PAUSE_SECONDS + 5), "10 job runs are open, and none"),
        (Database(3, every=90), "3 job runs are open, and none has moved"),
        (Database(1000, every=1), "job runs are open after 240 s"),
    ],
)
def test_job_runs_are_late_where_nothing_moves_or_for_too_long(monkeypatch, database, said):
    monkeypatch.setattr(judge, "time", database)
    found = judge._until_ended(database, 1)
    assert len(found) == (said is not None)
    assert all(said in one for one in found)


def test_how_far_everything_is_can_be_asked(db):
    found = db.row(judge._SO_FAR)
    assert found is not None
    assert found["runs"] >= 0
