"""A text without a byte order mark is decoded by its most likely encoding; binary data is refused."""

# ruff: noqa: RUF001 - letters of many scripts

from __future__ import annotations

import random

import pytest

from connectors.parsers import detect
from retrieval.errors import Skippable
from tests.connectors.parsers.conftest import Read

SENTENCES: dict[str, tuple[str, str]] = {
    "Russian": ("Корабль вышел из гавани на рассвете.", "В журнале отмечены груз и фамилия капитана."),
    "Ukrainian": ("Корабель вийшов із гавані на світанку.", "У журналі записано вантаж і прізвище капітана."),
    "Bulgarian": ("Корабът напусна пристанището призори.", "В дневника са записани товарът и капитанът."),
    "Japanese": ("船は夜明けに港を出ました。", "船長の名前と積荷を日誌に記録する。"),
    "Japanese in Katakana": ("サーバーのログをチェックしてください。", "コンピュータのデータをコピーする。"),
    "Simplified Chinese": ("船在黎明时分离开了港口。", "日志里记录了货物和船长的名字。"),
    "Traditional Chinese": ("船在黎明時分離開了港口。", "日誌裡記錄了貨物和船長的名字。"),
    "Korean": ("배는 새벽에 항구를 떠났다.", "일지에는 화물과 선장의 이름이 적혀 있다."),
    "Czech": ("Loď vyplula z přístavu za úsvitu.", "V deníku je zapsán náklad a jméno kapitána lodě."),
    "Polish": ("Statek wypłynął z portu o świcie.", "W dzienniku zapisano ładunek i nazwisko kapitana."),
    "Hungarian": ("A hajó hajnalban elhagyta a kikötőt.", "A naplóban szerepel a rakomány és a kapitány nevű mező."),
    "German": ("Das Schiff verließ den Hafen früh.", "Im Logbuch stehen die Größe der Ladung und der Kapitän."),
    "French": ("Le navire a quitté le port à l’aube.", "Où est le capitaine ? Le bateau s'arrête ici, forêt comprise."),
    "Spanish": ("El barco salió del puerto al amanecer.", "¿Dónde está el capitán? Mañana será otro día."),
    "Portuguese": ("O navio saiu do porto de manhã.", "O comandante não está; a tripulação também não."),
    "Danish": ("Skibet forlod havnen før daggry på øen.", "Kaptajnens navn står i bogen, også lasten."),
    "English": ("The captain’s log – “thick” – cost 5 €.", "It’s a naïve café."),
    "Greek": ("Το πλοίο έφυγε από το λιμάνι την αυγή.", "Στο ημερολόγιο γράφεται το φορτίο."),
    "Turkish": ("Gemi şafakta limandan ayrıldı.", "Seyir defterinde yük ve kaptanın adı yazılıdır."),
    "Arabic": ("غادرت السفينة الميناء عند الفجر.", "يسجل الدفتر الحمولة واسم القبطان."),
    "Hebrew": ("האונייה יצאה מהנמל עם שחר.", "ביומן רשומים המטען ושם הקברניט."),
    "Thai": ("เรือออกจากท่าเรือตอนรุ่งสาง", "สมุดบันทึกระบุสินค้าและชื่อกัปตัน"),
}
ENCODINGS: dict[str, tuple[str, ...]] = {
    "Russian": ("koi8-r", "cp1251", "iso8859-5", "cp866"),
    "Ukrainian": ("koi8-u", "cp1251"),
    "Bulgarian": ("cp1251",),
    "Japanese": ("shift_jis", "cp932", "euc_jp", "iso2022_jp"),
    "Japanese in Katakana": ("shift_jis", "euc_jp"),
    "Simplified Chinese": ("gb2312", "gbk", "gb18030"),
    "Traditional Chinese": ("big5", "cp950"),
    "Korean": ("euc_kr", "cp949"),
    "Czech": ("cp1250", "iso8859-2"),
    "Polish": ("cp1250", "iso8859-2"),
    "Hungarian": ("cp1250", "iso8859-2"),
    "German": ("cp1252", "latin-1", "iso8859-15"),
    "French": ("cp1252",),
    "Spanish": ("cp1252", "latin-1"),
    "Portuguese": ("cp1252", "latin-1"),
    "Danish": ("cp1252", "latin-1"),
    "English": ("cp1252",),
    "Greek": ("cp1253", "iso8859-7"),
    "Turkish": ("cp1254", "iso8859-9"),
    "Arabic": ("cp1256", "iso8859-6"),
    "Hebrew": ("cp1255", "iso8859-8"),
    "Thai": ("cp874", "tis-620"),
}


@pytest.mark.parametrize("language", SENTENCES)
def test_a_sentence_without_a_mark_is_decoded(language: str) -> None:
    first, second = SENTENCES[language]
    for encoding in (*ENCODINGS[language], "utf-16-le", "utf-16-be", "utf-8"):
        for text in (first, second, f"{first} {second} " * 20):
            data = text.encode(encoding)
            assert detect.text_of(data) == text, encoding
            assert detect.kind_of(data[: detect.HEAD_BYTES], "a.txt", "") is detect.PLAIN, encoding


def test_bytes_of_no_text_are_refused() -> None:
    chance = random.Random(7)
    for _ in range(12):
        data = chance.randbytes(chance.choice([512, 4096]))
        with pytest.raises(Skippable, match="Kinds that are taken"):
            detect.kind_of(data, "a.bin", "")
        with pytest.raises(Skippable, match=r"named \.csv, but its content is of another kind"):
            detect.kind_of(data, "a.csv", "")


def test_a_text_named_like_a_word_document_is_a_text_with_a_notice(read: Read) -> None:
    parsed = read("readme.doc", b"Read the manual before you start the pump.\n")
    assert parsed.text == "Read the manual before you start the pump.\n"
    assert parsed.properties["notice"] == "The file is named like a Word document and is a plain text."
