"""Write Outlook messages: a compound file ([MS-CFB], version 3) with the streams of [MS-OXMSG]."""

from __future__ import annotations

import itertools
import struct

Tree = dict[str, "bytes | Tree"]
SECTOR, MINI, CUTOFF = 512, 64, 4096
END, FREE, FAT, NONE = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFD, 0xFFFFFFFF


def message(subject: str, body: str, attachments: dict[str, bytes | Tree], sender: str = "a@example.org") -> bytes:
    """Return a message; a tree as an attachment is an embedded message."""
    return compound(streams(subject, body, attachments, sender=sender))


def streams(
    subject: str, body: str, attachments: dict[str, bytes | Tree], *, sender: str = "a@example.org", header: int = 32
) -> Tree:
    """Return the streams of a message; `header` has 32 bytes at the top level, 24 when embedded."""
    tree: Tree = {"__properties_version1.0": bytes(header)}
    texts = {"001A": "IPM.Note", "0037": subject, "1000": body, "0C1A": sender, "0C1F": sender, "0E04": "b@example.org"}
    tree |= {f"__substg1.0_{tag}001F": text.encode("utf-16-le") for tag, text in texts.items()}
    for number, (name, data) in enumerate(attachments.items()):
        storage: Tree = {"__properties_version1.0": bytes(8), "__substg1.0_3707001F": name.encode("utf-16-le")}
        storage["__substg1.0_3701000D" if isinstance(data, dict) else "__substg1.0_37010102"] = data
        tree[f"__attach_version1.0_#{number:08X}"] = storage
    return tree


def compound(tree: Tree) -> bytes:
    """A compound file of nested storages (dicts) and streams (bytes)."""
    entries: list[list[object]] = []
    small, big = bytearray(), bytearray()
    mini_fat: list[int] = []
    fat: list[int] = []

    def put(data: bytes) -> int:
        target, unit, table = (big, SECTOR, fat) if len(data) >= CUTOFF else (small, MINI, mini_fat)
        if not data:
            return END
        return _chained(data, target, unit, table)

    def add(name: str, content: bytes | Tree, *, root: bool = False) -> int:
        number = len(entries)
        entries.append([name, 5 if root else 1, NONE, NONE, 0, 0])
        if isinstance(content, bytes):
            entries[number] = [name, 2, NONE, NONE, put(content), len(content)]
            return number
        names = sorted(content, key=lambda one: (len(one), one.upper()))
        children = [add(child, content[child]) for child in names]
        for previous, right in itertools.pairwise(children):
            entries[previous][2] = right
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


def _chained(data: bytes, target: bytearray, unit: int, table: list[int]) -> int:
    first, count = len(target) // unit, -(-len(data) // unit)
    target += data + bytes(-len(data) % unit)
    table += [*range(first + 1, first + count), END]
    return first


def _entry(fields: list[object]) -> bytes:
    name, kind, right, child, start, size = fields
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
