"""Outlook messages, written: a compound file ([MS-CFB], version 3) with the streams that [MS-OXMSG] asks for."""

from __future__ import annotations

import itertools
import struct

Tree = dict[str, "bytes | Tree"]
SECTOR, MINI, CUTOFF = 512, 64, 4096
END, FREE, FAT, NONE = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFD, 0xFFFFFFFF


def message(subject: str, body: str, attachments: dict[str, bytes | Tree], sender: str = "a@example.org") -> bytes:
    """A message; an attachment that is a tree is a message within the message."""
    return compound(streams(subject, body, attachments, sender=sender))


def streams(
    subject: str, body: str, attachments: dict[str, bytes | Tree], *, sender: str = "a@example.org", header: int = 32
) -> Tree:
    """The streams of a message. `header`: 32 bytes for one of its own, 24 for one within another."""
    tree: Tree = {"__properties_version1.0": bytes(header)}
    texts = {"001A": "IPM.Note", "0037": subject, "1000": body, "0C1A": sender, "0C1F": sender, "0E04": "b@example.org"}
    tree |= {f"__substg1.0_{tag}001F": text.encode("utf-16-le") for tag, text in texts.items()}
    for number, (name, data) in enumerate(attachments.items()):
        held: Tree = {"__properties_version1.0": bytes(8), "__substg1.0_3707001F": name.encode("utf-16-le")}
        held["__substg1.0_3701000D" if isinstance(data, dict) else "__substg1.0_37010102"] = data
        tree[f"__attach_version1.0_#{number:08X}"] = held
    return tree


def compound(tree: Tree) -> bytes:
    """A compound file of nested storages (dicts) and streams (bytes)."""
    entries: list[list[object]] = []
    small, big = bytearray(), bytearray()
    mini_fat: list[int] = []
    fat: list[int] = []

    def put(data: bytes) -> int:
        where, unit, table = (big, SECTOR, fat) if len(data) >= CUTOFF else (small, MINI, mini_fat)
        if not data:
            return END
        return _chained(data, where, unit, table)

    def add(name: str, what: bytes | Tree, *, root: bool = False) -> int:
        number = len(entries)
        entries.append([name, 5 if root else 1, NONE, NONE, 0, 0])
        if isinstance(what, bytes):
            entries[number] = [name, 2, NONE, NONE, put(what), len(what)]
            return number
        names = sorted(what, key=lambda one: (len(one), one.upper()))
        children = [add(child, what[child]) for child in names]
        for left, right in itertools.pairwise(children):
            entries[left][2] = right
        entries[number][3] = children[0] if children else NONE
        return number

    add("Root Entry", tree, root=True)
    entries[0][4:] = [_chained(bytes(small), big, SECTOR, fat) if small else END, len(small)]
    directory = b"".join(map(_entry, entries))
    directory += _entry(["", 0, NONE, NONE, 0, 0]) * (-len(entries) % 4)
    directory_at = _chained(directory, big, SECTOR, fat)
    minis = struct.pack(f"<{len(mini_fat)}I", *mini_fat)
    minis += struct.pack("<I", FREE) * (-len(mini_fat) % 128)
    minis_at = _chained(minis, big, SECTOR, fat) if minis else END
    return _file(bytes(big), fat, directory_at, minis_at, len(minis) // SECTOR)


def _chained(data: bytes, where: bytearray, unit: int, table: list[int]) -> int:
    first, count = len(where) // unit, -(-len(data) // unit)
    where += data + bytes(-len(data) % unit)
    table += [*range(first + 1, first + count), END]
    return first


def _entry(one: list[object]) -> bytes:
    name, kind, right, child, start, size = one
    encoded = str(name).encode("utf-16-le")
    length = len(encoded) + 2 if encoded else 0
    links = struct.pack("<III", NONE, right, child)
    return encoded.ljust(64, b"\0") + struct.pack("<HBB", length, kind, 1) + links + bytes(36) + struct.pack(
        "<IQ", start, size
    )  # fmt: skip


def _file(big: bytes, fat: list[int], directory: int, minis: int, mini_sectors: int) -> bytes:
    count = 0
    while count * 128 < len(fat) + count:
        count += 1
    places = range(len(fat), len(fat) + count)
    table = [*fat, *[FAT] * count]
    table += [FREE] * (-len(table) % 128)
    header = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + struct.pack("<HHHHH", 0x3E, 3, 0xFFFE, 9, 6)
    header += bytes(6) + struct.pack("<IIIIIIIII", 0, count, directory, 0, CUTOFF, minis, mini_sectors, END, 0)
    header += struct.pack("<109I", *[*places, *[FREE] * (109 - count)])
    return header + big + struct.pack(f"<{len(table)}I", *table)
