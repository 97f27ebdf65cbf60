"""Files of an item and of the comments, packed with the item's text as a mail; attachments become members."""

from __future__ import annotations

import html
import mimetypes
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from connectors.sources.described import templates
from connectors.sources.described.description import Attachments, Content
from connectors.sources.described.fields import fill_address, fill_text, is_kept, read_field, read_value
from retrieval.errors import Skippable

if TYPE_CHECKING:
    from connectors.sources.described.service import Service, Site
    from retrieval.ports import TokenSource

MAX_FILES: Final = 100
"""Maximum number of files read per item."""
PACKED_TYPE: Final = "message/rfc822"


@dataclass(frozen=True, slots=True)
class Attachment:
    """File to request at `url`; `hosts`: receive the credentials, besides the service itself."""

    name: str
    url: str
    hosts: tuple[str, ...] = ()
    # Field with the file's address, and expression of its name, in the JSON at `url`.
    address: str = ""
    named: str = ""


def find_attachments(content: Content, entry: Any, values: Mapping[str, str], base: str) -> Iterator[Attachment]:
    """Yield the files of an item or comment; `base`: address of the API."""
    for about in content.attachments:
        files = read_value(entry, about.each)
        for file in files if isinstance(files, list) else ():
            if isinstance(file, Mapping) and is_kept(file, about.keep, values):
                yield _make_attachment(about, file, values, base)


def _make_attachment(about: Attachments, file: Mapping[str, Any], values: Mapping[str, str], base: str) -> Attachment:
    names = {**values, **{name: str(read_value(file, source)) for name, source in about.fields.items()}}
    address = fill_address(about.get, names)
    url = base + address if address.startswith("/") else address
    name = names.get("name") or unquote(urlsplit(url).path).rpartition("/")[2]
    name = " ".join(name.replace("/", "-").split())[:200] or "attachment"
    hosts = tuple(fill_text(host, values) for host in about.hosts)
    return Attachment(name, url, hosts, about.address, about.named)


@dataclass(frozen=True, slots=True)
class Packer:
    """Packs the text of an item with its files, up to `max_bytes`."""

    service: Service
    tokens: TokenSource
    site: Site
    max_bytes: int

    def pack(self, text: bytes, media_type: str, attachments: Sequence[Attachment]) -> bytes:
        """Return a mail with the text and the files; the text names files that cannot be read, with the reason."""
        message, total, notices = EmailMessage(), len(text), list[str]()
        files = list[tuple[str, str, bytes]]()
        for attachment in dict.fromkeys(attachments):
            try:
                file = self._resolve(attachment) if attachment.address else attachment
                kind, data = self._read(file, len(files), total)
            except Skippable as error:
                notices.append(f"Attachment {attachment.name} was not read: {error}")
            else:
                total += len(data)
                files.append((file.name, kind, data))
        subtype = media_type.partition("/")[2]
        notices = [f"<p>{html.escape(notice)}</p>" for notice in notices] if subtype == "html" else notices
        parts = [text.decode("utf-8", "replace"), *notices]
        message.set_content("\n\n".join(parts), subtype=subtype, charset="utf-8", cte="base64")
        for name, kind, data in files:
            main, _, sub = kind.partition("/")
            is_generic = not sub or main in {"multipart", "message"}
            ending = "" if mimetypes.guess_type(name)[0] else mimetypes.guess_extension(kind) or ""
            types = ("application", "octet-stream") if is_generic else (main, sub)
            message.add_attachment(data, *types, filename=name + ending)
        return bytes(message)

    def _resolve(self, attachment: Attachment) -> Attachment:
        """Return the file that the answer at the address of an attachment names."""
        answer = self.service.read_json(self.service.download(self.tokens, self.site, attachment.url, attachment.hosts))
        name = str(templates.evaluate(attachment.named, answer)) if attachment.named else ""
        return Attachment(name or attachment.name, str(read_field(answer, attachment.address)), attachment.hosts)

    def _read(self, attachment: Attachment, count: int, total: int) -> tuple[str, bytes]:
        """Return the media type and the content of a file. Skippable with the reason for an unreadable one."""
        if count == MAX_FILES:
            raise Skippable(f"More than {MAX_FILES} files are attached.")
        answer = self.service.download(self.tokens, self.site, attachment.url, attachment.hosts)
        if total + len(answer.content) > self.max_bytes:
            raise Skippable(f"With it the document is larger than {self.max_bytes / 2**20:,.0f} MiB.")
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "text/html" and mimetypes.guess_type(attachment.name)[0] not in {None, "text/html"}:
            raise Skippable("The service answers with a page: the credentials may not read files.")
        return kind, answer.content
