"""The judge reports abandoned work and accepts a backlog in progress."""

import pytest

from tests.faults import judge


class Database:
    """Fake clock and database: a job run of `count` ends every `interval` seconds from `begins` on."""

    def __init__(self, count, interval, begins=0.0):
        self.now, self._count, self._every, self._begins = 0.0, count, interval, begins

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
    ("database", "expected"),
    [
        (Database(10, interval=1), None),
        (Database(100, interval=1.5), None),
        (Database(10, interval=1, begins=judge.OPEN_SECONDS - 5), None),
        (
            Database(10, interval=1, begins=judge.OPEN_SECONDS + judge.PAUSE_SECONDS + 5),
            "10 job runs are open, and none",
        ),
        (Database(3, interval=90), "3 job runs are open, and none has moved"),
        (Database(1000, interval=1), "job runs are open after 240 s"),
    ],
)
def test_job_runs_are_late_where_nothing_moves_or_for_too_long(monkeypatch, database, expected):
    monkeypatch.setattr(judge, "time", database)
    problems = judge._until_ended(database, 1)
    assert len(problems) == (expected is not None)
    assert all(expected in problem for problem in problems)


def test_how_far_everything_is_can_be_asked(db):
    progress = db.row(judge._SO_FAR)
    assert progress is not None
    assert progress["runs"] >= 0
