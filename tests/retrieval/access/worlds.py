"""Random worlds of users, nested groups, denials and public documents, with what each user sees by the plain rule."""

from __future__ import annotations

import random
from dataclasses import dataclass

USERS = ["ada", "bob", "cyd", "dan"]
GROUPS = ["g1", "g2", "g3", "g4"]


@dataclass
class World:
    """What was said, by the plain names: of groups, their members; of documents, for whom they are (None: open)."""

    members: dict[str, set[tuple[str, str]]]
    said: dict[str, dict | None]

    @classmethod
    def random(cls, rng: random.Random, names: list[str]) -> World:
        def some(of: list[str], most: int = 2) -> list[str]:
            return rng.sample(of, rng.randint(0, min(most, len(of))))

        def access() -> dict | None:
            if rng.random() < 0.2:
                return None
            return {
                "users": some(USERS),
                "groups": some(GROUPS),
                "denied_users": some(USERS, 1) if rng.random() < 0.3 else [],
                "denied_groups": some(GROUPS, 1) if rng.random() < 0.3 else [],
                "public": rng.random() < 0.15,
            }

        members = {
            one: {("u", name) for name in some(USERS)} | {("g", name) for name in some(GROUPS)}
            for one in GROUPS
            if rng.random() < 0.9
        }
        return cls(members, {name: access() for name in names})

    def groups_of(self, user: str) -> set[str]:
        held: set[str] = set()
        while True:
            more = {
                one
                for one, members in self.members.items()
                if ("u", user) in members or any(("g", group) in members for group in held)
            }
            if more <= held:
                return held
            held |= more

    def seen_by(self, user: str) -> set[str]:
        mine = self.groups_of(user)

        def sees(said: dict | None) -> bool:
            if said is None:
                return True
            if user in said["denied_users"] or mine & set(said["denied_groups"]):
                return False
            return said["public"] or user in said["users"] or bool(mine & set(said["groups"]))

        return {name for name, said in self.said.items() if sees(said)}
