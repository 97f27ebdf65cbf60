"""Keyword search in many languages finds planted documents."""

import time

import pytest

from retrieval.keywords import analyzer, languages
from retrieval.maintenance import index_upkeep
from retrieval.search import search
from retrieval.search.search import Query


def find(library, text, top_k=10):
    query = Query(text, top_k=top_k, semantic_weight=0.0, keyword_weight=1.0)
    return [
        hit.content
        for hit in search.run_search(library.db, library.scope, query, viewer=None, embedder=None, vectors=None).hits
    ]


def read_in(library):
    rows = library.db.rows(
        "select keyword_language as language, count(*) as documents from documents"
        " where partition_id = %(id)s group by 1",
        {"id": library.partition},
    )
    return {row["language"]: row["documents"] for row in rows}


def request_language(library, language):
    library.db.rows(
        "update namespaces set keyword_language = %(language)s where id = %(id)s",
        {"id": library.scope.namespace, "language": language},
    )


@pytest.mark.parametrize(
    ("text", "queries"),
    [
        ("Order AB-1234 was sent.", ["AB-1234", "AB1234", "ab 1234", "ab1234"]),
        ("The part AB1234 is sold out.", ["AB-1234", "AB1234", "ab 1234"]),
        ("See doi 10.1000/xyz for more.", ["10.1000/xyz", "10.1000/XYZ"]),
        ("Frau Müller kommt nicht in die Stadt.", ["Müller", "Muller", "Mueller", "müller"]),
        ("Frau Mueller kommt nicht in die Stadt.", ["Müller", "Mueller"]),
        ("Le café et la forêt sont là.", ["café", "cafe", "foret", "Forêt"]),
        ("The e-mail was read.", ["e-mail", "email"]),
        ("We counted 1,234,567 seals.", ["1234567", "1,234,567"]),
        ("The valve opens at -40 degrees.", ["40", "-40"]),
        ("The pressure is 3.14 bar.", ["3.14"]),
        ("Write to anna.berg@example.com today.", ["anna.berg@example.com", "example.com", "berg"]),
        ("港海豹可以在水下停留。", ["海豹", "水下"]),
        ("하버 물범은 잠수한다", ["물범은", "물범"]),
        ("El niño bajó de la montaña.", ["nino", "montana", "niño"]),
    ],
)
def test_words_are_found_as_people_type_them(library, text, queries):
    library.put(["Nothing of it stands in this text, which has other words."])
    library.put([text])
    for query in queries:
        assert find(library, query)[:1] == [text], query


def test_a_document_is_read_in_its_own_language_else_in_the_one_that_is_set(library):
    library.put(["Die Häuser an der Straße sind alt und werden verkauft."])
    library.put(["houses"])
    library.put(["港海豹可以在水下停留三十分钟"])
    library.put(["Domy przy ulicy są stare i nie będą sprzedane, jak się okazało."])
    assert read_in(library) == {"german": 1, "english": 1, "simple": 2}
    assert len(find(library, "Haus")) == 1
    assert find(library, "house") == ["houses"]


def test_documents_are_indexed_again_when_another_language_is_fixed_or_none(library, monkeypatch):
    texts = [f"Die Häuser mit der Nummer {n} sind alt und werden verkauft." for n in range(60)]
    for text in texts:
        library.put([text])
    library.db.rows(
        "update documents set keyword_language = null where partition_id = %(id)s", {"id": library.partition}
    )
    for language, configuration in ((None, "german"), ("de", "=german"), ("en", "=english"), (None, "german")):
        request_language(library, language)
        index_upkeep.index_in_other_language(library.db, "english")
        assert read_in(library) == {configuration: 60}
        assert len(find(library, "Häuser", 100)) == 60
        stems = library.db.rows(
            "select chunk_id from postings where partition_id = %(id)s and term = 'haus'", {"id": library.partition}
        )
        assert len(stems) == (0 if configuration == "=english" else 60)
    monkeypatch.setattr(index_upkeep, "_index_documents", None)  # nothing is left to do
    index_upkeep.index_in_other_language(library.db, "english")
    counts = library.db.row(
        "select p.chunks, p.terms,"
        " (select count(distinct chunk_id) from postings where partition_id = p.id) as indexed,"
        " (select sum(tf) from postings where partition_id = p.id and left(term, 1) not in ('^', '~')) as stand"
        " from partitions p where p.id = %(id)s",
        {"id": library.partition},
    )
    assert (counts["chunks"], counts["terms"]) == (counts["indexed"], counts["stand"])


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("de", "Der Seehund taucht bis zu dreißig Minuten."),
        ("en", "The printing press of Mainz used an oil-based ink that Gutenberg adapted."),
        ("fr", "Le phare de Kervel fonctionne sans gardien depuis vingt ans et des poussières."),
        ("es", "Los pescadores reparan las redes durante la niebla."),
        ("pt", "O barco não chega quando há uma tempestade no mar."),
        ("it", "Il forno della piazza non apre prima delle sette."),
        ("nl", "De boot vaart niet als het stormt en de haven is gesloten."),
        ("sv", "Båten går inte när det stormar och hamnen är stängd."),
        ("pl", "Statek nie płynie, gdy jest sztorm i port się zamyka."),
        ("ru", "Паром через залив не ходит при сильном ветре."),
        ("uk", "Пором через затоку не ходить, коли є сильний вітер і її хвилі."),  # noqa: RUF001
        ("ja", "灯台は嵐の後に赤く塗られた。"),
        ("zh", "灯塔在暴风雨之后被漆成红色。"),
        ("ko", "등대는 폭풍 후에 빨갛게 칠해졌다."),
        ("th", "ประภาคารถูกทาสีแดงหลังพายุ"),
        ("el", "Το καράβι δεν φεύγει όταν φυσάει."),  # noqa: RUF001
        (None, "wing flow"),
        (None, "AB-1234 77"),
    ],
)
def test_the_language_of_a_text_is_told_or_left_open(language, text):
    assert languages.detect_language(text) == language


@pytest.mark.parametrize("run", ["a" * 8_192, "7" * 8_192, "é" * 4_096])
def test_a_run_of_letters_without_an_end_takes_no_time_to_read(run):
    start = time.process_time()
    analyzer.analyze_query(run, "english")
    analyzer.analyze_text(run * 4, "english")
    assert time.process_time() - start < 1
