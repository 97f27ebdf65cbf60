"""Containers of every kind, built by their usual libraries or by specification."""

from __future__ import annotations

import binascii
import ctypes
import io
import struct
import zipfile
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage, Message
from email.mime.base import MIMEBase
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText

import pypdfium2
import pypdfium2.raw as pdfium
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import pkcs7
from docx import Document
from openpyxl import Workbook
from reportlab.pdfgen.canvas import Canvas

from tests.standins import outlook

File = tuple[str, bytes]
"""A name and the content."""
NOTE = "The harbour office sends this on Monday."


def file_name(word: str, ending: str) -> str:
    """Return a file name with the word reversed, so a list of names is no text with the word."""
    return f"{word[::-1].lower()}.{ending}"


def text(word: str) -> File:
    return file_name(word, "txt"), f"The word is {word}.".encode()


def page(word: str) -> File:
    return file_name(word, "html"), f"<!doctype html><html><body><p>The word is {word}.</p></body></html>".encode()


def pdf(word: str) -> File:
    file = io.BytesIO()
    canvas = Canvas(file)
    canvas.drawString(72, 700, f"The word is {word}.")
    canvas.save()
    return file_name(word, "pdf"), file.getvalue()


def docx(word: str) -> File:
    file, document = io.BytesIO(), Document()
    document.add_paragraph(f"The word is {word}.")
    document.save(file)
    return file_name(word, "docx"), file.getvalue()


def xlsx(word: str) -> File:
    file, book = io.BytesIO(), Workbook()
    book.active.append(["word", word])
    book.save(file)
    return file_name(word, "xlsx"), file.getvalue()


def calendar(word: str) -> File:
    """Fold the line in the middle of the word."""
    summary = f"SUMMARY:{'Meeting of the harbour board in the long room at noon about'[:64]} {word}"
    folded = f"{summary[:72]}\r\n {summary[72:]}"
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "BEGIN:VEVENT", folded, "DTSTART:20261125T100000Z", "END:VEVENT"]
    return file_name(word, "ics"), "\r\n".join([*lines, "END:VCALENDAR", ""]).encode()


def card(word: str) -> File:
    return file_name(word, "vcf"), f"BEGIN:VCARD\r\nVERSION:3.0\r\nFN:{word} Miller\r\nEND:VCARD\r\n".encode()


LEAVES = (text, page, pdf, docx, xlsx, calendar, card)
TYPES = {
    "pdf": "application/pdf", "txt": "text/plain", "html": "text/html", "ics": "text/calendar", "vcf": "text/vcard",
    "png": "image/png", "eml": "message/rfc822", "p7m": "application/pkcs7-mime", "dat": "application/ms-tnef",
}  # fmt: skip


def part(file: File, *, with_name: bool = True, attachment: bool = True, cid: bool = False) -> Message:
    name, data = file
    main, _, sub = TYPES.get(name.rpartition(".")[2], "application/octet-stream").partition("/")
    if main == "message":
        main, sub = "application", "octet-stream"
    mime_part = MIMEBase(main, sub)
    mime_part.set_payload(binascii.b2a_base64(data).decode())
    mime_part["Content-Transfer-Encoding"] = "base64"
    if attachment:
        mime_part["Content-Disposition"] = "attachment"
    if with_name:
        mime_part.add_header("Content-Disposition", "inline", filename=name) if not attachment else mime_part.set_param(
            "filename", name, "Content-Disposition"
        )
    if cid:
        mime_part["Content-ID"] = f"<{name}>"
    return mime_part


def mail(kind: str, *parts: Message, body: str = NOTE) -> bytes:
    whole = MIMEMultipart(kind)
    whole["Subject"], whole["From"] = "Minutes", "ann@example.com"
    for subpart in ([MIMEText(body)] if body else []) + list(parts):
        whole.attach(subpart)
    return whole.as_bytes()


def mail_with_attachments(files: list[File]) -> File:
    return "attached.eml", mail("mixed", *map(part, files))


def mail_without_names(files: list[File]) -> File:
    return "nameless.eml", mail("mixed", *(part(file, with_name=False, attachment=False) for file in files))


def mail_inline_with_ids(files: list[File]) -> File:
    """Attach files inline, as Outlook and Apple Mail do."""
    return "inline.eml", mail("related", *(part(file, attachment=False, cid=True) for file in files))


def mail_in_alternative(files: list[File]) -> File:
    """Put files beside the HTML within the alternative, as Apple Mail does."""
    rich = MIMEMultipart("mixed")
    rich.attach(MIMEText(f"<p>{NOTE}</p>", "html"))
    for file in files:
        rich.attach(part(file))
    return "apple.eml", mail("alternative", rich)


def mail_of_one_part(files: list[File]) -> File:
    """Make the file the whole mail, as scanners do; several files become several mails."""
    mails = []
    for file in files:
        mime_part = part(file, with_name=False, attachment=False)
        mime_part["Subject"] = "Scan"
        mime_part["MIME-Version"] = "1.0"
        mails.append((f"{file[0]}.eml", mime_part.as_bytes()))
    return mails[0] if len(mails) == 1 else zipped(mails)


def mail_of_mails(files: list[File]) -> File:
    whole = EmailMessage()
    whole["Subject"] = "Forwarded"
    whole.set_content(NOTE)
    for file in files:
        inner = EmailMessage()
        inner["Subject"] = file[0]
        inner.set_content(NOTE)
        inner.add_attachment(file[1], "application", "octet-stream", filename=file[0])
        whole.add_attachment(inner)
    return "forwarded.eml", whole.as_bytes()


def mail_with_uuencode(files: list[File]) -> File:
    blocks = []
    for name, data in files:
        lines = [binascii.b2a_uu(data[at : at + 45], backtick=True).decode() for at in range(0, len(data), 45)]
        blocks.append(f"begin 644 {name}\n{''.join(lines)}`\nend\n")
    return "old.eml", f"Subject: Minutes\n\n{NOTE}\n\n{''.join(blocks)}".encode()


def tnef(files: list[File], body: str = "") -> bytes:
    def attribute(level: int, name: int, kind: int, value: bytes) -> bytes:
        return struct.pack("<BHHI", level, name, kind, len(value)) + value + struct.pack("<H", sum(value) & 0xFFFF)

    data = struct.pack("<IH", 0x223E9F78, 1) + attribute(1, 0x9006, 8, struct.pack("<I", 0x10000))
    data += attribute(1, 0x800C, 2, body.encode("cp1252") + b"\0") if body else b""
    for name, content in files:
        data += attribute(2, 0x9002, 6, bytes(14))
        data += attribute(2, 0x8010, 1, name.encode("cp1252") + b"\0") + attribute(2, 0x800F, 6, content)
    return data


def mail_with_winmail(files: list[File]) -> File:
    return "exchange.eml", mail("mixed", part(("winmail.dat", tnef(files))))


def winmail(files: list[File]) -> File:
    return "winmail.dat", tnef(files, NOTE)


SIGNING_KEY = rsa.generate_private_key(65537, 2048)
_NAME = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "ann@example.com")])
_NOW = datetime.now(UTC)
CERTIFICATE = (
    x509.CertificateBuilder()
    .subject_name(_NAME)
    .issuer_name(_NAME)
    .public_key(SIGNING_KEY.public_key())
    .serial_number(7)
    .not_valid_before(_NOW - timedelta(days=1))
    .not_valid_after(_NOW + timedelta(days=1))
    .sign(SIGNING_KEY, hashes.SHA256())
)


def signed(data: bytes) -> bytes:
    builder = pkcs7.PKCS7SignatureBuilder().set_data(data).add_signer(CERTIFICATE, SIGNING_KEY, hashes.SHA256())
    return builder.sign(serialization.Encoding.DER, [pkcs7.PKCS7Options.Binary])


def encrypted(data: bytes) -> bytes:
    builder = pkcs7.PKCS7EnvelopeBuilder().set_data(data).add_recipient(CERTIFICATE)
    return builder.encrypt(serialization.Encoding.DER, [pkcs7.PKCS7Options.Binary])


def smime(kind: str, content: bytes) -> bytes:
    head = f'Subject: Minutes\r\nContent-Type: application/pkcs7-mime; smime-type={kind}; name="smime.p7m"\r\n'
    head += 'Content-Transfer-Encoding: base64\r\nContent-Disposition: attachment; filename="smime.p7m"\r\n\r\n'
    return head.encode() + binascii.b2a_base64(content)


def mail_signed_opaquely(files: list[File]) -> File:
    inner = MIMEMultipart("mixed")
    inner.attach(MIMEText(NOTE))
    for file in files:
        inner.attach(part(file))
    return "signed.eml", smime("signed-data", signed(inner.as_bytes()))


def signed_files(files: list[File]) -> File:
    signed_list = [(f"{name}.p7m", signed(data)) for name, data in files]
    return signed_list[0] if len(signed_list) == 1 else zipped(signed_list)


def outlook_message(files: list[File]) -> File:
    return "minutes.msg", outlook.message("Minutes", NOTE, dict(files))


def outlook_message_in_message(files: list[File]) -> File:
    inner = outlook.streams("Older letter", NOTE, dict(files), header=24)
    return "outer.msg", outlook.message("Minutes", NOTE, {"letter": inner})


def pdf_with_files(files: list[File], *, words: str = NOTE) -> File:
    document = pypdfium2.PdfDocument(pdf(words)[1]) if words else pypdfium2.PdfDocument.new()
    if not words:
        document.new_page(300, 300)
    for name, data in files:
        document.new_attachment(name).set_data(data)
    file = io.BytesIO()
    document.save(file)
    return "attached.pdf", file.getvalue()


def pdf_portfolio(files: list[File]) -> File:
    return "portfolio.pdf", pdf_with_files(files, words="")[1]


def pdf_with_files_on_pages(files: list[File]) -> File:
    document = pypdfium2.PdfDocument(pdf(NOTE)[1])
    page = pdfium.FPDF_LoadPage(document.raw, 0)
    for name, data in files:
        annotation = pdfium.FPDFPage_CreateAnnot(page, pdfium.FPDF_ANNOT_FILEATTACHMENT)
        wide = ctypes.create_string_buffer(name.encode("utf-16-le") + b"\0\0")
        letters = ctypes.cast(wide, ctypes.POINTER(pdfium.FPDF_WCHAR))
        attachment = pdfium.FPDFAnnot_AddFileAttachment(annotation, letters)
        pdfium.FPDFAttachment_SetFile(attachment, document.raw, data, len(data))
        pdfium.FPDFPage_CloseAnnot(annotation)
    pdfium.FPDF_ClosePage(page)
    file = io.BytesIO()
    document.save(file)
    return "pinned.pdf", file.getvalue()


def zipped(files: list[File]) -> File:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files:
            archive.writestr(name, data)
    return "all.zip", file.getvalue()


def with_entries(data: bytes, extra_entries: list[File]) -> bytes:
    """The ZIP with entries added or replaced."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    return zipped(list((entries | dict(extra_entries)).items()))[1]


_RELATION = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def office(base: File, part_of: str, embedded: list[File], *, kind: str = "package") -> bytes:
    """Return an Office document with the files in the folder `embeddings` of the main part."""
    folder = part_of.partition("/")[0]
    with zipfile.ZipFile(io.BytesIO(base[1])) as archive:
        rels_path = f"{folder}/_rels/{part_of.partition('/')[2]}.rels"
        relations = archive.read(rels_path).decode() if rels_path in archive.namelist() else "<Relationships/>"
    lines = "".join(
        f'<Relationship Id="e{number}" Type="{_RELATION}/{kind}" Target="embeddings/{name}"/>'
        for number, (name, _) in enumerate(embedded)
    )
    relations = relations.replace("</Relationships>", f"{lines}</Relationships>")
    return with_entries(
        base[1], [(rels_path, relations.encode()), *((f"{folder}/embeddings/{n}", d) for n, d in embedded)]
    )


def word_with_files(files: list[File]) -> File:
    return "letter.docx", office(docx(NOTE), "word/document.xml", files)


def sheet_with_objects(files: list[File]) -> File:
    """Embed files of any kind in OLE objects of the packager, as Office does."""
    objects = [(f"oleObject{number}.bin", ole_object(file)) for number, file in enumerate(files, 1)]
    return "book.xlsx", office(xlsx(NOTE), "xl/workbook.xml", objects, kind="oleObject")


def package(file: File) -> bytes:
    name = file[0].encode("cp1252") + b"\0"
    path = b"C:\\" + name
    data = struct.pack("<H", 2) + name + path + struct.pack("<HHI", 0, 3, len(path)) + path
    return data + struct.pack("<I", len(file[1])) + file[1]


def ole_object(file: File) -> bytes:
    native = package(file)
    return outlook.compound({"\x01Ole10Native": struct.pack("<I", len(native)) + native})


def rtf_with_objects(files: list[File]) -> File:
    objects = ""
    for file in files:
        native = package(file)
        data = (
            struct.pack("<II", 0x501, 2) + struct.pack("<I", 8) + b"Package\0" + struct.pack("<III", 0, 0, len(native))
        )
        objects += "{\\object\\objemb{\\*\\objdata " + (data + native).hex() + "}}"
    return "letter.rtf", ("{\\rtf1\\ansi " + NOTE + "\\par " + objects + "}").encode()


_MANIFEST = "urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"
_ODF = "application/vnd.oasis.opendocument"


def odt_content(words: str) -> bytes:
    names = "urn:oasis:names:tc:opendocument:xmlns"
    head = f'<office:document-content xmlns:office="{names}:office:1.0" xmlns:text="{names}:text:1.0">'
    body = f"<office:body><office:text><text:p>{words}</text:p></office:text></office:body>"
    return f"{head}{body}</office:document-content>".encode()


def open_document(words: list[str]) -> File:
    """Return an OpenDocument text with further texts embedded, each in its own folder."""
    lines = [f'<m:file-entry m:full-path="/" m:media-type="{_ODF}.text"/>']
    entries: list[File] = [("mimetype", f"{_ODF}.text".encode()), ("content.xml", odt_content(NOTE))]
    for number, word in enumerate(words, 1):
        lines.append(f'<m:file-entry m:full-path="Object {number}/" m:media-type="{_ODF}.text"/>')
        entries.append((f"Object {number}/content.xml", odt_content(f"The word is {word}.")))
    manifest = f'<m:manifest xmlns:m="{_MANIFEST}">{"".join(lines)}</m:manifest>'
    return "report.odt", zipped([*entries, ("META-INF/manifest.xml", manifest.encode())])[1]


def book(chapters: list[File], *, extra_names: tuple[str, ...] = ()) -> bytes:
    names = [name for name, _ in chapters] + list(extra_names)
    items = "".join(
        f'<item id="c{n}" href="{name}" media-type="{TYPES.get(name[-3:], "application/xhtml+xml")}"/>'
        for n, name in enumerate(names)
    )
    spine = "".join(f'<itemref idref="c{n}"/>' for n, _ in enumerate(names))
    package_file = (
        '<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="i">'
        '<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:identifier id="i">x</dc:identifier>'
        f"<dc:title>Tides</dc:title><dc:language>en</dc:language></metadata><manifest>{items}</manifest>"
        f"<spine>{spine}</spine></package>"
    )
    container = (
        '<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="EPUB/p.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
    )
    head = [("mimetype", b"application/epub+zip"), ("META-INF/container.xml", container.encode())]
    return zipped([*head, ("EPUB/p.opf", package_file.encode()), *((f"EPUB/{n}", d) for n, d in chapters)])[1]


def chapter(words: str) -> bytes:
    return f'<html xmlns="http://www.w3.org/1999/xhtml"><body><p>{words}</p></body></html>'.encode()


def book_with_files(files: list[File]) -> File:
    pdfs = [file for file in files if file[0].endswith(".pdf")]
    other_files = [file for file in files if file not in pdfs]
    book_file = ("book.epub", book([("c.xhtml", chapter(NOTE)), *pdfs]))
    return zipped([book_file, *other_files]) if other_files else book_file


CONTAINERS = (
    mail_with_attachments, mail_without_names, mail_inline_with_ids, mail_in_alternative, mail_of_one_part,
    mail_of_mails, mail_with_uuencode, mail_with_winmail, winmail, mail_signed_opaquely, signed_files, outlook_message,
    outlook_message_in_message, pdf_with_files, pdf_portfolio, pdf_with_files_on_pages, zipped, word_with_files,
    sheet_with_objects, rtf_with_objects, book_with_files,
)  # fmt: skip
