"""Fair shares: organizations by weight, then scopes; short jobs use a separate queue."""

from retrieval.jobs.fair_queue import BULK_QUEUE, DEFAULT_QUEUE, SHORT_QUEUE, OpenBatchCounts, QueueGroup, choose_groups


def group(organization, partition, *, source="TEXT", weight=1, first=1, short=False):
    return QueueGroup(partition, source, organization, weight, first, short)


def count_open(**organizations):
    counts = OpenBatchCounts()
    for partition, (organization, count) in enumerate(organizations.items(), 1000):
        counts.add(organization, partition, BULK_QUEUE, count)
    return counts


def names(chosen):
    return [(choice.organization, queue) for choice, queue in chosen]


def rounds(groups, open_, room):
    """Return the organization of each dispatched batch, with endless work in each group."""
    chosen = []
    for _ in range(room):
        chosen += choose_groups(groups, open_, remaining=1)
    return [choice.organization for choice, _ in chosen]


def test_an_organization_that_waits_gets_a_place_however_many_another_has():
    busy, quiet = group("a", 1, first=1), group("b", 2, first=9000)
    assert names(choose_groups([busy, quiet], count_open(a=4), remaining=0)) == [("b", DEFAULT_QUEUE)]


def test_further_batches_of_an_organization_run_after_the_first_ones_of_others():
    assert names(choose_groups([group("a", 1)], count_open(a=1), remaining=3)) == [("a", BULK_QUEUE)]
    assert names(choose_groups([group("a", 1)], count_open(), remaining=3)) == [("a", DEFAULT_QUEUE)]


def test_shares_follow_the_plans_weight():
    turns = rounds([group("pilot", 1, weight=1), group("team", 2, weight=4, first=2)], count_open(), 9)
    assert (turns.count("pilot"), turns.count("team")) == (2, 8)


def test_scopes_of_an_organization_share_its_part():
    turns = rounds_of_partitions([group("a", 1, first=1), group("a", 2, first=2)], 6)
    assert (turns.count(1), turns.count(2)) == (3, 3)


def rounds_of_partitions(groups, room):
    open_ = count_open()
    return [choice.partition for _ in range(room) for choice, _ in choose_groups(groups, open_, remaining=1)]


def test_what_was_sent_leaves_before_what_is_listed_elsewhere():
    listing, sent_group = group("a", 1, source="WEBSITE", first=1), group("a", 1, source="TEXT", first=2)
    assert [choice.source for choice, _ in choose_groups([listing, sent_group], count_open(), remaining=1)] == ["TEXT"]


def test_something_short_leaves_at_once_even_where_there_is_no_room():
    assert names(choose_groups([group("a", 1, short=True)], count_open(a=40), remaining=-30)) == [("a", SHORT_QUEUE)]


def test_only_one_short_batch_of_an_organization_is_on_its_way():
    open_ = count_open(a=4)
    open_.add("a", 1, SHORT_QUEUE)
    assert choose_groups([group("a", 1, short=True)], open_, remaining=0) == []


def test_many_organizations_at_once_are_bounded():
    waiting = [group(f"org {number}", number, first=number) for number in range(100)]
    assert len(choose_groups(waiting, count_open(a=4), remaining=0)) == 16
