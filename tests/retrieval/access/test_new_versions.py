"""What is kept of an old and a new access until the new version is there: shown to nobody whom either leaves out."""

import json
import random

from retrieval.access import new_versions
from retrieval.principals import Access, Viewer, group, user

USERS, GROUPS = ["ada", "bob@x.org", "cyd@y.org"], ["staff", "guests", "domain:x.org"]
VIEWERS = [
    Viewer(name, (user(name), *map(group, [*held, *domain])))
    for name, domain in zip(USERS, ([], ["domain:x.org"], ["domain:y.org"]), strict=True)
    for held in ([], ["staff"], ["guests"], ["staff", "guests"])
]


def some(rng, of):
    return tuple(rng.sample(of, rng.randint(0, len(of))))


def made(rng):
    denied = some(rng, USERS) if rng.random() < 0.3 else (), some(rng, GROUPS) if rng.random() < 0.2 else ()
    return Access(some(rng, USERS), some(rng, GROUPS), *denied, rng.random() < 0.2)


def kept(db, pairs):
    statement = (
        "select d.access as old, said, "
        + new_versions.narrowed("d", "said", "7")
        + " as kept from (select 'none' as id, * from unnest(%(old)s::jsonb[], %(said)s::jsonb[]) w (access, said)) d"
    )
    sides = zip(*pairs, strict=True)
    old, said = ([None if one is None else json.dumps(one.dump()) for one in side] for side in sides)
    return db.rows(statement, {"old": old, "said": said})


def test_what_is_kept_shows_nobody_more_than_either_and_nobody_less_than_names_say(db):
    rng = random.Random(462)
    pairs = [(made(rng), made(rng)) for _ in range(3000)]
    for row in kept(db, pairs):
        old, said, both = (Access.load(row[name]) for name in ("old", "said", "kept"))
        comes = new_versions.coming(row["kept"])
        assert both == said if comes is None else Access.load(comes) == said
        assert row["kept"].get("next", {}).get("from", 7) == 7
        for viewer in VIEWERS:
            by_both = viewer.sees(old) and viewer.sees(said)
            assert not viewer.sees(both) or by_both
            alike = {*old.users, *map(group, old.groups)} & {*said.users, *map(group, said.groups)}
            named = {viewer.user, *viewer.principals} & alike
            of_domain = viewer.user == "bob@x.org" and all(
                {"bob@x.org", "domain:x.org"} & {*one.users, *one.groups} for one in (old, said)
            )
            if by_both and (named or old.public or said.public or of_domain):
                assert viewer.sees(both)
        if both == said:
            assert comes is None


def test_the_same_said_again_an_open_document_and_a_narrower_word_wait_for_nothing(db):
    wide = Access(("ada", "bob"), ("staff",), ("cyd",), ("guests",), public=True)
    pairs = [
        (wide, wide),
        (None, wide),
        (Access(("b", "a")), Access(("a",))),
        (Access(public=True), Access(("a",), ("g",), ("x",))),
        (wide, Access(denied_users=("cyd",), denied_groups=("guests",))),
    ]
    for row in kept(db, pairs):
        assert row["kept"] == row["said"]
