"""Random walks through ingestions, changes of access, failures, cancellations, archives and mails: of all that a user
is answered nothing is of a version that was never said to be for that user.

Others than the first two: RETRIEVAL_FIRST_WALK=100 RETRIEVAL_WALKS=20. A walk that fails is a question, not always a
leak: the oracle may not know all that the service does.
"""

from __future__ import annotations

import io
import json
import os
import random
import re
import zipfile
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage

import pytest

from flows import steps
from retrieval.ingestion import items, results
from retrieval.jobs import batches
from tests.flows.configured import STEPS
from tests.flows.ingestion.test_unpack import packed

WALKS = int(os.environ.get("RETRIEVAL_WALKS", "2"))
FIRST = int(os.environ.get("RETRIEVAL_FIRST_WALK", "0"))
LENGTH = 25
USERS = ["ada", "bob", "cyd"]
GROUPS = ["g1", "g2"]
BROKEN = b"\x7fELF\x00\x01\x02" * 50
WORD = re.compile(r"(?<![0-9a-z])zq\d+z(?![0-9a-z])")


@dataclass
class Version:
    """A text of a document. `said`: all statements of whom it is for that count for it."""

    word: str
    said: list
    raw: bool = False


@dataclass
class Known:
    """A document that was sent: what is said of it, and its versions."""

    said: dict | None = None
    versions: list[Version] = field(default_factory=list)
    inside: str = ""
    at: int = 0
    """When it was said."""
    packed: dict[str, list[str]] = field(default_factory=dict)
    """Of a document by itself: words that archives hold under its name, which come once these are unpacked."""

    def say(self, said, at):
        """With a new version: it counts for those from before, too."""
        for version in self.versions:
            version.said.append(said)
        self.said, self.at = said, at


@dataclass
class Walk:
    org: object
    space: str
    ring: object
    rng: random.Random
    members: dict[str, set] = field(default_factory=dict)
    known: dict[str, Known] = field(default_factory=dict)
    links: dict[str, set] = field(default_factory=dict)
    contents: dict[str, dict] = field(default_factory=dict)
    runs: list[str] = field(default_factory=list)
    dead: list = field(default_factory=list)
    there: set = field(default_factory=set)
    number: int = 0
    has_mails: bool = False
    log: list[str] = field(default_factory=list)

    # requests

    def ask(self, method, at, body=None, user=None, ok=(200,), **more):
        headers = {} if user is None else {"X-On-Behalf-Of": user}
        answer = self.org.client.request(method, at, json=body, headers=headers, **more)
        assert answer.status_code in ok, (answer.status_code, answer.text, self.log)
        return answer

    def names(self, user=None):
        body = {"namespaceId": self.space, "filterConfig": {}, "pagination": {"pageSize": 100}}
        return {
            one["externalId"]: one for one in self.ask("POST", "/v1/documents", body, user).json()["data"]["documents"]
        }

    # the oracle

    def groups_of(self, user):
        return {group for group, names in self.members.items() if user in names}

    def is_for(self, user, said):
        if said is None:
            return True
        mine = self.groups_of(user)
        if user in said["denied"]["users"] or mine & set(said["denied"]["groups"]):
            return False
        return said["public"] or user in said["users"] or bool(mine & set(said["groups"]))

    def may(self, user, way):
        """The words that a user may be answered."""

        def sees(version):
            return all(self.is_for(user, said) for said in version.said)

        every = [version for one in self.known.values() for version in one.versions]
        texts = {v.word for one in self.known.values() if one.inside for v in one.versions if not v.raw}
        may = {version.word for version in every if not version.raw and sees(version)}
        if way == "link":
            may |= {
                version.word for version in every if version.raw and sees(version) and version.word not in texts - may
            }
        return may

    def below(self, name):
        found = [other for other, one in self.known.items() if one.inside == name]
        return found + [deeper for other in found for deeper in self.below(other)]

    def new_version(self, name, said, word):
        one = self.known.setdefault(name, Known(said))
        if said is not None:
            one.say(said, self.number)
        if word:
            one.versions.append(Version(word, [one.said]))

    def gone(self):
        """Documents that are not there any more leave nothing."""
        there = set(self.names())
        left = self.there - there
        self.there = there
        for name in sorted(left):
            self.contents.pop(name, None)
            if one := self.known.pop(name, None):
                self.dead += one.versions
                if one.inside in self.known:  # a version on its way brings it again
                    top = self.known[one.inside]
                    again = [Version(v.word, [top.said], v.raw) for v in one.versions]
                    self.known[name] = Known(top.said, again, one.inside, top.at)
                    continue
                for other in self.below(name):
                    if other not in there:
                        del self.known[other]
        packed_into = {
            row["name"]: row["archive"]
            for row in self.org.db.rows(
                "select d.external_id as name, a.external_id as archive from documents d join documents a"
                " on a.id = d.archive_id join partitions p on p.id = d.partition_id"
                " where p.namespace_id = %(space)s and d.deleted_at is null",
                {"space": self.space},
            )
        }
        for name, one in self.known.items():
            if name in there:
                one.inside = packed_into.get(name, "")
                self.join(one)
            elif one.inside not in self.known:
                one.inside = ""

    def join(self, one):
        """What was by itself is packed into an archive from now on: what was said last holds."""
        if one.inside in one.packed:
            top = self.known[one.inside]
            if top.said is not None and top.at > one.at:
                one.say(top.said, top.at)
            one.versions += [Version(word, [one.said]) for word in one.packed.pop(one.inside)]

    # what is done

    def word(self):
        self.number += 1
        return f"zq{self.number}z"

    def access(self):
        rng = self.rng
        if rng.random() < 0.35:
            return None

        def some(of, most=2):
            return rng.sample(of, rng.randint(0, most))

        denied = (
            {"users": some(USERS, 1), "groups": some(GROUPS, 1)} if rng.random() < 0.2 else {"users": [], "groups": []}
        )
        return {"users": some(USERS), "groups": some(GROUPS, 1), "denied": denied, "public": rng.random() < 0.15}

    def text(self):
        name, said, word = self.rng.choice(["t1", "t2"]), self.access(), self.word()
        config = {
            "text": f"The words of {word}.",
            "externalId": name,
            "name": f"name {word}",
            "metadata": {"tag": word},
        }
        config |= {} if said is None else {"access": said}
        body = {"namespaceId": self.space, "ingestConfig": {"source": "TEXT", "config": config}}
        answer = self.ask("POST", "/v1/ingest/text", body)
        self.log.append(f"text {name} {word} {said}: {answer.status_code}")
        if answer.status_code == 200:
            self.runs.append(answer.json()["data"]["ingestJobRunId"])
            self.new_version(name, said, word)

    def made(self, former):
        """What an archive holds: names to a word, None for what cannot be read, or another archive."""
        found = {}
        for name in ("one.txt", "two.txt", "three.txt"):
            dice = self.rng.random()
            if dice < 0.3 and former.get(name):
                found[name] = former[name]
            elif dice < 0.65:
                found[name] = self.word()
            elif dice < 0.8:
                found[name] = None
        if self.rng.random() < 0.6:
            same = former.get("in.zip")
            found["in.zip"] = same if same and self.rng.random() < 0.5 else self.made_flat()
        return found

    def made_flat(self):
        found = {"deep.txt": self.word()}
        if self.rng.random() < 0.5:
            found["other.txt"] = self.rng.choice([None, self.word()])
        return found

    def pack(self, held):
        entries = []
        for name, one in held.items():
            content = self.pack(one) if isinstance(one, dict) else BROKEN if one is None else text_of(one)
            entries.append((name, content))
        return packed(entries)

    def archive(self):
        name, said = self.rng.choice(["a.zip", "a.zip", "b.zip"]), self.access()
        former = self.contents.get(name, {})
        held = former if former and self.rng.random() < 0.25 else self.made(former)
        if not held:
            held = {"one.txt": self.word()}
        data = self.pack(held)
        broken = self.rng.random() < 0.1
        if broken:
            data = data[:-30]
        self.send(name, data, said, held, broken=broken)

    def mail(self):
        name, said, word = self.rng.choice(["a.eml", "b.eml"]), self.access(), self.word()
        held = self.made(self.contents.get(name, {}))
        message = EmailMessage()
        message["Subject"] = f"Subject {word}"
        message.set_content(f"The words of {word}.")
        for path, one in held.items():
            content = self.pack(one) if isinstance(one, dict) else BROKEN if one is None else text_of(one)
            message.add_attachment(content, maintype="application", subtype="octet-stream", filename=path)
        self.send(name, message.as_bytes(), said, held, text=word)

    def send(self, name, data, said, held, *, broken=False, text=""):
        form = {"namespaceId": self.space, "externalId": name} | ({} if said is None else {"access": json.dumps(said)})
        files = {"file": (name.rpartition("/")[2], data, "application/octet-stream")}
        answer = self.org.client.post("/v1/ingest/file", data=form, files=files)
        assert answer.status_code == 200, (answer.text, self.log)
        self.log.append(f"file {name} {held} broken {broken} {said}: {answer.status_code}")
        self.runs.append(answer.json()["data"]["ingestJobRunId"])
        self.number += 1
        former = self.known.get(name)
        if former and former.inside and name not in self.there:  # its archive's version is on its way, or never came
            self.known[name] = Known(said, at=self.number, packed={former.inside: [v.word for v in former.versions]})
        if said is not None:
            for other in self.below(name):
                self.known[other].say(said, self.number)
        self.new_version(name, said, held if isinstance(held, str) else text)
        self.known[name].inside = ""
        if isinstance(held, dict):
            self.known[name].versions += [Version(word, [self.known[name].said], True) for word in words(held)]
        if isinstance(held, dict) and not broken:
            self.contents[name] = held
            self.hold(name, held)

    def hold(self, name, held):
        for path, one in held.items():
            inner = f"{name}/{path}"
            own, top = self.known.get(inner), self.known[name]
            if own is None:
                own = self.known[inner] = Known(top.said, [], name, top.at)
            if own.inside != name and isinstance(one, str):  # it was sent by itself
                own.packed.setdefault(name, []).append(one)
            elif isinstance(one, str):
                own.versions.append(Version(one, [own.said]))
            if isinstance(one, dict):
                self.known[inner].versions += [Version(word, [self.known[inner].said], True) for word in words(one)]
                self.hold(inner, one)

    def alone(self):
        """A file by itself that is called as a member is."""
        name, word = self.rng.choice(["a.zip/one.txt", "b.zip/two.txt"]), self.word()
        self.send(name, f"The words of {word}.".encode(), self.access(), word)

    def patch(self):
        there = sorted(self.names())
        if not there:
            return
        name, said = self.rng.choice(there), self.access()
        body = {"namespaceId": self.space, "filterConfig": {"documentExternalIds": [name]}, "data": {"access": said}}
        answer = self.ask("PATCH", "/v1/documents", body, ok=(200, 404))
        self.log.append(f"patch {name} {said}: {answer.status_code}")
        self.number += 1
        if answer.status_code == 200 and name in self.known:
            for other in [name, *self.below(name)]:
                one = self.known[other]
                one.said, one.at = said, self.number
                for version in one.versions:
                    version.said = [said]

    def group(self):
        group, users = self.rng.choice(GROUPS), self.rng.sample(USERS, self.rng.randint(0, 2))
        self.ask("PUT", f"/v1/groups/{group}", {"namespaceId": self.space, "members": {"users": users}})
        self.members[group] = set(users)
        self.log.append(f"group {group} {users}")

    def cancel(self):
        if self.runs:
            run = self.rng.choice(self.runs[-4:])
            self.ask("POST", f"/v1/ingest-job-runs/{run}/cancel", {"namespaceId": self.space})
            self.log.append(f"cancel {self.runs.index(run)}")

    def retry(self):
        if self.runs:
            run = self.rng.choice(self.runs)
            answer = self.ask("POST", f"/v1/ingest-job-runs/{run}/retry", {"namespaceId": self.space}, ok=(200, 400))
            self.log.append(f"retry {self.runs.index(run)}: {answer.status_code}")
            if answer.status_code == 200:
                self.runs.append(answer.json()["data"]["id"])

    def resync(self):
        there = sorted(self.names())
        if there:
            some = self.rng.sample(there, self.rng.randint(1, min(2, len(there))))
            body = {"namespaceId": self.space, "filterConfig": {"documentExternalIds": some}}
            answer = self.ask("POST", "/v1/documents/resync", body, ok=(200, 404))
            self.log.append(f"resync {some}: {answer.status_code}")

    def delete(self):
        there = sorted(self.names())
        if there:
            name = self.rng.choice(there)
            body = {"namespaceId": self.space, "filterConfig": {"documentExternalIds": [name]}}
            answer = self.ask("DELETE", "/v1/documents", body, ok=(200, 404))
            self.log.append(f"delete {name}: {answer.status_code}")

    def work(self):
        db = self.org.db
        self.log.append("work")
        while True:
            batches.form(db, size=64, batches=8)
            waiting = batches.undispatched(db)
            if not waiting:
                break
            for batch in waiting:
                batches.dispatched(db, batch, "run")
                lease = batches.claim(db, batch.id, batch.attempt, seconds=60)
                if lease:
                    self.take(lease)
        self.log.append("worked")

    def take(self, lease):
        db = self.org.db
        while windows := items.windows(db, lease, documents=64, size=1 << 24):
            for window in windows:
                for step in STEPS:
                    if self.rng.random() < 0.06:
                        self.log.append(f"before {step.__name__}:")
                        self.do(
                            self.rng.choice([self.text, self.archive, self.patch, self.cancel, self.group, self.delete])
                        )
                        self.check()
                    step(steps.Work(db, self.ring, lease, window))
                    results.settle(db, lease)
        results.settle(db, lease)
        batches.finish(db, lease)

    def do(self, what):
        what()
        self.gone()

    def step(self):
        often = [
            self.text,
            self.archive,
            self.archive,
            self.archive,
            self.patch,
            self.patch,
            self.work,
            self.work,
            self.work,
        ]
        often += [self.mail, self.mail, self.mail] if self.has_mails else []
        self.do(self.rng.choice([*often, self.group, self.cancel, self.retry, self.resync, self.delete, self.alone]))
        self.check()

    # what users are answered

    def check(self):
        for user in USERS:
            told = self.answers(user)
            wrong = sorted(
                {(way, word) for way, text in told for word in WORD.findall(text)}
                - {(way, word) for way in {way for way, _ in told} for word in self.may(user, way)}
            )
            if wrong:
                state = {name: (one.said, one.versions) for name, one in self.known.items()}
                raise AssertionError(
                    f"{user} was told {wrong}\n"
                    + "\n".join(self.log)
                    + f"\n{state}\n{self.members}\n"
                    + json.dumps(
                        {
                            n: (d.get("access"), d.get("nextAccess"), d["ingestionStatus"])
                            for n, d in self.names().items()
                        }
                    )
                )

    def answers(self, user):
        space, told = {"namespaceId": self.space}, []

        def ask(way, method, at, body=None, **more):
            answer = self.ask(method, at, body, user, ok=(200, 404), **more)
            told.append((way, answer.text))
            return answer.json()

        ask("search", "POST", "/v1/search", {**space, "query": "the words", "topK": 50})
        ask(
            "keywords",
            "POST",
            "/v1/search/hybrid",
            {**space, "query": "words", "topK": 50, "hybridConfig": {"semanticWeight": 0.0, "keywordWeight": 1.0}},
        )
        include = {"parsedTextFileUrl": True, "rawFileUrl": True}
        body = {
            **space,
            "filterConfig": {},
            "includeConfig": include,
            "facets": ["metadata.tag"],
            "pagination": {"pageSize": 100},
        }
        found = ask("list", "POST", "/v1/documents", body)["data"]["documents"]
        held = self.links.setdefault(user, set())
        for one in found:
            ask("chunks", "GET", f"/v1/documents/{one['id']}/chunks", params=space)
            held |= {one[name].partition("/v1/files")[2] for name in include if one[name]}
        for link in sorted(held):
            answer = self.org.client.get("/v1/files" + link)
            if answer.status_code in {404, 410}:
                if self.rng.random() < 0.5:
                    held.discard(link)
                continue
            told.append(("link", unpacked(answer.content)))
        return told


def text_of(word):
    return f"The words of {word}.".encode()


def words(held):
    """All that an archive holds, at any depth."""
    return [word for one in held.values() if one for word in (words(one) if isinstance(one, dict) else [one])]


def unpacked(content):
    if b"MIME-Version" in content:
        parts = message_from_bytes(content).walk()
        return "\n".join(unpacked(part.get_payload(decode=True)) for part in parts if not part.is_multipart())
    if not content.startswith(b"PK"):
        return content.decode(errors="replace")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            return "\n".join(unpacked(file.read(name)) for name in file.namelist())
    except zipfile.BadZipFile:
        return ""


@pytest.fixture
def walk(organization, ring, api_db):
    """A function that walks: its argument is the number of the walk."""
    api_db.rows("update job_runs set finished_at = now() where finished_at is null")
    api_db.rows("update batches set finished_at = now() where finished_at is null")
    org = organization(requests_per_minute=10**7)

    def go(number, **more):
        one = Walk(org, org.namespace(), ring, random.Random(number), **more)
        for _ in range(LENGTH):
            one.step()
        one.do(one.work)
        one.check()

    return go


@pytest.mark.slow
@pytest.mark.parametrize("number", range(FIRST, FIRST + WALKS))
def test_no_user_is_told_what_was_never_for_them(number, walk):
    walk(number)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(FIRST, FIRST + WALKS))
def test_nor_where_there_are_mails(number, walk):
    walk(number, has_mails=True)
