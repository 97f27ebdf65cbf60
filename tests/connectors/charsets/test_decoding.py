"""Characters are decoded correctly whatever header, page, mail or sitemap declare."""

# ruff: noqa: RUF001 - letters of many scripts

from __future__ import annotations

import pytest

from connectors.charsets import decoding
from connectors.parsers import parser as documents
from connectors.web.crawl.sitemap import read_sitemap
from retrieval.errors import Skippable
from retrieval.ports import OcrStrategy, RawContent, ScrapeOptions

SAMPLE_TEXTS = {
    "windows-1252": "Größe der Flut: “hoch” – für 5 € täglich übermäßig schön geprüft.",
    "iso-8859-2": "Příliš žluťoučký kůň úpěl ďábelské ódy u řeky, když pršelo.",
    "windows-1250": "Zażółć gęślą jaźń, świąteczne źrebię ćwiczy na łące pod Łodzią.",
    "windows-1251": "Смотритель маяка каждый вечер записывал высоту прилива в тетрадь.",
    "koi8-r": "Смотритель маяка каждый вечер записывал высоту прилива в тетрадь.",
    "gb2312": "船在黎明时分离开了港口，船长在日志里记下了货物的名称。",
    "gbk": "船在黎明时分离开了港口，船長在日誌裡記下了貨物的名稱。",
    "big5": "船在黎明時分離開了港口，船長在日誌裡記下了貨物的名稱。",
    "shift_jis": "船長の名前と積荷を日誌に記録する。①髙い潮が来る。",
    "euc-jp": "船長の名前と積荷を日誌に記録する。高い潮が来る。",
    "euc-kr": "배는 새벽에 항구를 떠났고 선장은 화물의 이름을 일지에 적었다.",
    "windows-1253": "Ο φύλακας του φάρου έγραφε κάθε βράδυ το ύψος της παλίρροιας.",
    "windows-1254": "Gemi şafakta limandan ayrıldı, kaptan yükün adını günlüğe yazdı.",
    "utf-8": "Größe, kůň, прилив, 港口, 船長, 항구.",
}
PYTHON_CODECS = {"gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "euc-kr": "cp949"}
# Header and meta element of a page; {} is the page's charset.
DECLARATIONS = {
    "header and meta right": ("{}", '<meta charset="{}">'),
    "header right, meta wrong": ("{}", '<meta charset="utf-8">'),
    "header wrong, meta right": ("utf-8", '<meta charset="{}">'),
    "header wrong, http-equiv right": (
        "utf-8",
        "<META content='text/html; charset={}' http-equiv=Content-Type>",
    ),
    "header wrong, no meta": ("utf-8", ""),
    "both wrong": ("utf-8", '<meta charset="utf-8">'),
    "neither": ("", ""),
    "unknown label": ("x-unknown", '<meta charset="none">'),
    "Western header, meta right": ("iso-8859-1", '<meta charset="{}">'),
    "ASCII header, meta right": ("us-ascii", '<meta charset="{}">'),
    "comment before meta": ("utf-8", '<!-- <meta charset="koi8-u"> --><meta charset="{}">'),
}


def encoded(text, charset):
    return text.encode(PYTHON_CODECS.get(charset, charset))


@pytest.fixture
def parse(tmp_path):
    """Return a function to parse bytes as a file or as a web page."""

    def read(data, name, media_type="", *, page=False):
        path = tmp_path / "raw"
        path.write_bytes(data)
        options = ScrapeOptions() if page else None
        raw = RawContent(path, name, media_type, len(data), page=options)
        return documents.document_parser().parse(raw, OcrStrategy.BASIC_PARSER).text

    return read


@pytest.mark.parametrize("charset", SAMPLE_TEXTS)
def test_a_page_is_decoded_by_its_bytes(charset):
    for case, (header_format, meta_format) in DECLARATIONS.items():
        header, meta = header_format.format(charset), meta_format.format(charset)
        head = f"<!doctype html><html><head>{meta}<title>Harbour</title></head>"
        page = f"{head}<body><p>{SAMPLE_TEXTS[charset]}</p></body></html>"
        assert decoding.decode_text(encoded(page, charset), header, markup=True) == page, case


@pytest.mark.parametrize("charset", ["windows-1252", "windows-1251", "gb2312", "shift_jis", "euc-kr"])
def test_every_kind_of_text_is_decoded_despite_a_wrong_declaration(charset, parse):
    text = SAMPLE_TEXTS[charset]
    page = encoded(f"<!doctype html><html><meta charset={charset}><body><p>{text}</p></body></html>", charset)
    assert text in parse(page, "https://example.org/", "text/html; charset=utf-8", page=True)
    assert text in parse(page, "a.html", "text/html; charset=utf-8")
    cell = text.replace(",", "")
    for name, media_type in (("a.txt", "text/plain"), ("a.csv", "text/csv")):
        assert cell in parse(encoded(cell, charset), name, f"{media_type}; charset=utf-8")
    for kind, body in (("plain", text), ("html", f"<html><body><p>{text}</p></body></html>")):
        head = f"From: a@example.org\nSubject: Tide\nContent-Type: text/{kind}; charset=utf-8\n"
        mail = f"{head}Content-Transfer-Encoding: 8bit\n\n".encode() + encoded(body, charset)
        assert text in parse(mail, "a.eml")


@pytest.mark.parametrize("charset", SAMPLE_TEXTS)
def test_a_sitemap_is_read_in_any_charset(charset, tmp_path):
    url = f"https://example.org/{SAMPLE_TEXTS[charset].replace(' ', '-')}"
    body = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>{url}</loc></url></urlset>'
    file = tmp_path / "sitemap"
    declarations = [f'<?xml version="1.0" encoding="{label}"?>' for label in ("utf-8", charset)]
    for data in (url, body, *(declaration + body for declaration in declarations)):
        file.write_bytes(encoded(data, charset))
        assert [entry.url for entry in read_sitemap(file, "text/xml; charset=utf-8")] == [url], data


@pytest.mark.parametrize(
    ("label", "text", "codec"),
    [
        ("ISO-8859-1", "“smart” – 5 €", "cp1252"),
        ("latin1", "“smart” – 5 €", "cp1252"),
        ("gb2312", "船長，髙", "gb18030"),
        ("x-gbk", "船長，髙", "gb18030"),
        ("x-sjis", "①髙い", "cp932"),
        ("Windows-31J", "①髙い", "cp932"),
        ("ks_c_5601-1987", "똠방각하", "cp949"),
        ("iso-8859-9", "ışık – “şey”", "cp1254"),
        ("tis-620", "ราคา “ห้า”", "cp874"),
        ("x-mac-cyrillic", "Привет, Ёж", "mac-cyrillic"),
        ("unicode", "Привет", "utf-16-le"),
        ("UTF8", "Привет", "utf-8"),
    ],
)
def test_labels_select_the_codecs_of_browsers(label, text, codec):
    assert decoding.find_codec(label) == codec
    assert decoding.decode_text(text.encode(codec), label) == text


@pytest.mark.parametrize("label", ["zip", "idna", "rot13", "unicode_escape", "utf-7", "punycode", "undefined", "x\0"])
def test_labels_of_other_codecs_are_ignored(label):
    assert decoding.find_codec(label) is None


@pytest.mark.parametrize("charset", ["gb2312", "shift_jis", "big5", "euc-kr"])
def test_a_page_that_was_cut_within_a_character_keeps_the_rest(charset):
    data = encoded(SAMPLE_TEXTS[charset] * 5, charset)[:-1]
    assert decoding.decode_text(data, charset).rstrip("\ufffd") == (SAMPLE_TEXTS[charset] * 5)[:-1]


@pytest.mark.parametrize(("name", "page"), [("a.txt", False), ("a.md", False), ("a.html", False), ("https://a/", True)])
def test_a_text_of_replacement_characters_is_refused_with_the_reason(name, page, parse):
    text = "Gr\ufffd\ufffde f\ufffdr t\ufffdglich " * 10
    with pytest.raises(Skippable, match="replacement characters"):
        parse(f"<!doctype html><html><body><p>{text}</p></body></html>".encode(), name, page=page)


def test_a_damaged_text_of_ascii_is_not_taken_for_utf_16():
    page = (
        b'<HTML><HEAD>\r\n<META http-equiv=3DContent-Type content=3D"tex'
        b't/html; =\r\ncharset=3Dwindows-1252">\r\n<META content=3D"'
        b'MSHTML 6.00p\xc0l\x07\x00\x02\x00\x00\x00\x02\x00\x00\x80\xc2l\x07.6000.16850" name=3D'
        b"Hi, Luis.</BODY>"
    )
    assert "Hi, Luis." in decoding.decode_text(page, markup=True)
