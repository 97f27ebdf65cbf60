"""Subtitles and plain text in the encodings of their languages are read without a wrong letter."""

# ruff: noqa: RUF001 - letters of many scripts

from __future__ import annotations

import unicodedata

import pytest

from connectors.parsers import detect
from tests.connectors.parsers.conftest import Read

# Encodings, and three short cues: few letters between many numbers.
CUES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "ru": (("cp1251", "koi8-r"), ("Что ты здесь делаешь?", "Я жду тебя уже целый час.", "- Поехали!")),
    "uk": (("cp1251",), ("Що ти тут робиш?", "Я чекаю на тебе вже цілу годину.", "Поїхали!")),
    "zh": (("gbk", "gb18030"), ("你在这里做什么？", "我已经等了你一个小时了。", "我们走吧！")),
    "zh-TW": (("big5",), ("你在這裡做什麼？", "我已經等了你一個小時了。", "我們走吧！")),
    "ja": (("shift_jis", "euc_jp"), ("ここで何をしているの？", "もう一時間も待っているんだ。", "行こう！")),
    "ko": (("cp949",), ("여기서 뭐 해?", "벌써 한 시간이나 기다렸어.", "가자!")),
    "fr": (("cp1252",), ("Qu'est-ce que tu fais là ?", "Ça fait une heure que je t'attends.", "Allons-y !")),
    "de": (("cp1252",), ("Was machst du hier?", "Ich warte schon über eine Stunde.", "Los, gehen wir!")),
    "pl": (("cp1250",), ("Co tu robisz?", "Czekam na ciebie już godzinę.", "Nie śpiesz się, proszę.")),
    "tr": (("cp1254",), ("Burada ne yapıyorsun?", "Bir saattir seni bekliyorum.", "Hadi gidelim, kapı açık, oğlum!")),
    "el": (("cp1253",), ("Τι κάνεις εδώ;", "Σε περιμένω μία ώρα.", "Πάμε!")),
    "he": (("cp1255",), ("מה אתה עושה כאן?", "אני מחכה לך כבר שעה.", "בוא נלך!")),
    "ar": (("cp1256",), ("ماذا تفعل هنا؟", "أنا أنتظرك منذ ساعة.", "هيا بنا!")),
    "th": (("cp874",), ("คุณมาทำอะไรที่นี่", "ฉันรอคุณมาหนึ่งชั่วโมงแล้ว", "ไปกันเถอะ")),
    "lv": (("cp1257",), ("Ko tu šeit dari?", "Es tevi gaidu jau stundu.", "Nesteidzies, lūdzu.")),
}
SSA_HEAD = "[Script Info]\r\nTitle: x\r\n\r\n[Events]\r\nFormat: Layer, Start, End, Style, Name, MarginL, MarginR\r\n"


def clock(seconds: int, mark: str) -> str:
    return f"00:{seconds // 60:02}:{seconds % 60:02}{mark}500"


def srt(cues: tuple[str, ...], mark: str = ",") -> str:
    return "".join(
        f"{number}\r\n{clock(7 * number, mark)} --> {clock(7 * number + 4, mark)}\r\n{cue}\r\n\r\n"
        for number, cue in enumerate(cues, 1)
    )


SOURCES = {
    "a.srt": srt,
    "a.vtt": lambda cues: "WEBVTT\r\n\r\n" + srt(cues, "."),
    "a.ass": lambda cues: (
        SSA_HEAD
        + "".join(f"Dialogue: 0,0:00:0{n}.50,0:02:05.00,Default,,0,0,0,,{cue}\r\n" for n, cue in enumerate(cues))
    ),
    "a.sub": lambda cues: "".join(f"{{{100 * n}}}{{{100 * n + 80}}}{cue}\r\n" for n, cue in enumerate(cues)),
    "a.txt": lambda cues: "\r\n".join(cues) + "\r\n",
}


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("language", CUES)
def test_cues_between_numbers_are_decoded(language: str, name: str) -> None:
    encodings, cues = CUES[language]
    for encoding in (*encodings, "utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"):
        for repetitions in (1, 30):
            source = SOURCES[name](cues * repetitions)
            assert detect.text_of(source.encode(encoding)) == source.replace("\r\n", "\n"), encoding


def test_vietnamese_with_combining_tones_is_decoded() -> None:
    text = "Bạn đang làm gì ở đây?\nTôi đã đợi bạn một giờ rồi.\nĐi thôi!\n"
    tones = frozenset("\u0300\u0301\u0303\u0309\u0323")
    data = b""
    for sign in text:
        base, *marks = list(unicodedata.normalize("NFD", sign))
        letter = unicodedata.normalize("NFC", base + "".join(mark for mark in marks if mark not in tones))
        data += (letter + "".join(mark for mark in marks if mark in tones)).encode("cp1258")
    assert detect.text_of(data) == text


@pytest.mark.service
@pytest.mark.parametrize(("language", "encoding"), [("zh", "gbk"), ("ru", "cp1251"), ("th", "cp874"), ("ja", "utf-16")])
def test_subtitles_of_any_encoding_are_sentences(read: Read, language: str, encoding: str) -> None:
    cues = CUES[language][1]
    parsed = read("film.srt", srt(cues).encode(encoding))
    assert parsed.text == f"[00:00:07] {' '.join(cues)}\n"
    assert parsed.qualities[0].quality == 1


@pytest.mark.service
@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("film.sub", "{1}{1}25\n{500}{550}{y:i}The quay|is closed.\n{600}{650}/Go home.\n"),
        ("film", "{500}{550}The quay|is closed.\n{600}{650}Go home.\n"),
        ("film.txt", "{500}{550}The quay|is closed.\n{600}{650}Go home.\n"),
        ("film.sub", "[200][220]The quay|is closed.\n[240][260]/Go home.\n"),
        ("song.lrc", "[ar:Ada]\n[00:20.10]The quay\n[00:22.00]is closed.\n[00:24.30]Go home.\n"),
        (
            "film.smi",
            (
                "<SAMI><STYLE><!-- P {} --></STYLE><BODY>\n<SYNC Start=20000><P>The quay<br>is closed."
                "\n<SYNC Start=22000><P>&nbsp;\n<SYNC Start=24000><P Class=EN>Go home.\n</BODY></SAMI>"
            ),
        ),
    ],
)
def test_frames_and_lyrics_are_sentences(read: Read, name: str, source: str) -> None:
    assert read(name, source.encode()).text == "[00:00:20] The quay is closed. Go home.\n"


@pytest.mark.service
def test_a_subtitle_file_without_cues_stays_as_it_is(read: Read) -> None:
    assert read("notes.srt", b"Cues are still to be written.\n").text == "Cues are still to be written.\n"
