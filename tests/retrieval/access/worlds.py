"""Random users, nested groups, denials and public documents, with the plain visibility rule."""

from __future__ import annotations

import random
from dataclasses import dataclass

USERS = ["ada", "bob", "cyd", "dan"]
GROUPS = ["g1", "g2", "g3", "g4"]


@dataclass
class World:
    """Members by group, and access entries by document (None: open)."""

    members: dict[str, set[tuple[str, str]]]
    said: dict[str, dict | None]

    @classmethod
    def random(cls, rng: random.Random, names: list[str]) -> World:
        def sample_names(of: list[str], max_count: int = 2) -> list[str]:
            return rng.sample(of, rng.randint(0, min(max_count, len(of))))

        def access() -> dict | None:
            if rng.random() < 0.2:
                return None
            return {
                "users": sample_names(USERS),
                "groups": sample_names(GROUPS),
                "denied_users": sample_names(USERS, 1) if rng.random() < 0.3 else [],
                "denied_groups": sample_names(GROUPS, 1) if rng.random() < 0.3 else [],
                "public": rng.random() < 0.15,
            }

        members = {
            group: {("u", name) for name in sample_names(USERS)} | {("g", name) for name in sample_names(GROUPS)}
            for group in GROUPS
            if rng.random() < 0.9
        }
        return cls(members, {name: access() for name in names})

    def groups_of(self, user: str) -> set[str]:
        groups: set[str] = set()
        while True:
            containing = {
                candidate
                for candidate, members in self.members.items()
                if ("u", user) in members or any(("g", group) in members for group in groups)
            }
            if containing <= groups:
                return groups
            groups |= containing

    def seen_by(self, user: str) -> set[str]:
        mine = self.groups_of(user)

        def sees(access: dict | None) -> bool:
            if access is None:
                return True
            if user in access["denied_users"] or mine & set(access["denied_groups"]):
                return False
            return access["public"] or user in access["users"] or bool(mine & set(access["groups"]))

        return {name for name, access in self.said.items() if sees(access)}
