"""Reader lists: intersection, inheritance, and migration of the first format."""

import json
import random

from retrieval.principals import Access, Viewer, group_principal, user_principal

USERS, GROUPS = ["ada", "bob@x.org", "cyd@y.org"], ["staff", "guests", "domain:x.org"]
VIEWERS = [
    Viewer(name, (user_principal(name), *map(group_principal, [*groups, *domain])))
    for name, domain in zip(USERS, ([], ["domain:x.org"], ["domain:y.org"]), strict=True)
    for groups in ([], ["staff"], ["guests"], ["staff", "guests"])
]


def draw_names(rng, of):
    return tuple(rng.sample(of, rng.randint(0, len(of))))


def draw_access(rng):
    denied = draw_names(rng, USERS) if rng.random() < 0.3 else (), draw_names(rng, GROUPS) if rng.random() < 0.2 else ()
    return Access(draw_names(rng, USERS), draw_names(rng, GROUPS), *denied, rng.random() < 0.2)


def stored(access):
    return None if access is None else json.dumps(access.dump())


def intersected(db, pairs):
    old, new = ([stored(access) for access in side] for side in zip(*pairs, strict=True))
    rows = db.rows(
        "select intersect_access(old, new) as both from unnest(%(old)s::jsonb[], %(new)s::jsonb[]) w (old, new)",
        {"old": old, "new": new},
    )
    return [None if row["both"] is None else Access.load(row["both"]) for row in rows]


def test_two_lists_together_show_nobody_more_than_either_and_nobody_less_than_names_say(db):
    rng = random.Random(462)
    pairs = [(draw_access(rng), draw_access(rng)) for _ in range(3000)]
    for (old, new), both in zip(pairs, intersected(db, pairs), strict=True):
        for viewer in VIEWERS:
            by_both = viewer.sees(old) and viewer.sees(new)
            assert not viewer.sees(both) or by_both
            alike = {*old.users, *map(group_principal, old.groups)} & {*new.users, *map(group_principal, new.groups)}
            of_domain = viewer.user == "bob@x.org" and all(
                {"bob@x.org", "domain:x.org"} & {*access.users, *access.groups} for access in (old, new)
            )
            if by_both and ({viewer.user, *viewer.principals} & alike or old.public or new.public or of_domain):
                assert viewer.sees(both)
