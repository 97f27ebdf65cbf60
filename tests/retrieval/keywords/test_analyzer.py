"""Words match queries in every common spelling."""

# ruff: noqa: RUF001 - letters that look like others are the subject

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.keywords import analyzer
from retrieval.keywords.word_lists import STOP_WORDS, UNACCENTED_STOP_WORDS
from retrieval.search import search
from retrieval.search.search import Query

# Makes a text long enough for stop words to count.
LONG = " with harbour seals along rocky coasts" * 8

HIDDEN = st.sampled_from(["\u00ad", "\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", ""])
DIGITS = ("0123456789", "٠١٢٣٤٥٦٧٨٩", "۰۱۲۳۴۵۶۷۸۹", "०१२३४५६७८९", "０１２３４５６７８９")
# Interchangeable letters of Arabic, Persian and Urdu.
ALIKE = ("اأإآٱ", "هةہ", "يىی", "كک")


def letters(alphabet, fewest=4):
    return st.text(alphabet, min_size=fewest, max_size=9)


@st.composite
def latin(draw):
    word = draw(letters("abcdefghklmnoprstuvwyz"))
    return word, draw(hidden_in(word)), draw(hidden_in(word.upper())), draw(hidden_in(word.capitalize()))


@st.composite
def hidden_in(draw, word):
    return "".join(letter + draw(HIDDEN) for letter in word[:-1]) + word[-1]


@st.composite
def sharp(draw):
    first, last = draw(letters("abdghkmnrt", 2)), draw(letters("abdeghkmnrt", 1))
    return tuple(first + middle + last for middle in ("ß", "ẞ", "ss", "SS"))


@st.composite
def pointed(draw, alphabet, points):
    word = draw(letters(alphabet))
    marks = st.sampled_from(["", *points])
    return word, *("".join(letter + draw(marks) for letter in word) for _ in range(2))


@st.composite
def arabic(draw):
    word = draw(letters("بتجدرسعفقلمنواهيك"))
    kinds = {letter: group for group in ALIKE for letter in group}

    def typed():
        marks = st.sampled_from(["", "", "\u064e", "\u0650", "\u0651", "\u0640"])
        return "".join(draw(st.sampled_from(kinds.get(letter, letter))) + draw(marks) for letter in word)

    return word, typed(), typed()


@st.composite
def number(draw):
    digits = draw(st.text("0123456789", min_size=4, max_size=9))
    return tuple(digits.translate(str.maketrans(DIGITS[0], script)) for script in DIGITS)


@st.composite
def cyrillic(draw):
    word = draw(letters("абвгдежзиклмнопрст"))
    stressed = re.sub(draw(st.sampled_from("аеио")), "\\g<0>\u0301", word)
    return word, word.upper(), stressed, word.replace("е", "ё")


ONE_WORD = st.one_of(
    latin(),
    sharp(),
    cyrillic(),
    arabic(),
    number(),
    pointed("אבגדהוזחטילמנסעפצקרשת", "\u05b0\u05b4\u05b7\u05b8\u05bc\u05c1"),
    pointed("कखगजडढफमनरल", "\u093c"),
)
NAME = letters("abcdefghklmnoprstuvwyz", 2)
JOIN = st.sampled_from(["-", "/", ".", "_", ":", "@", "\\", "\u2010", "://", "/.", ":\\"])


@st.composite
def joined(draw):
    """Draw a path, address or code with queries for its parts."""
    parts = draw(
        st.lists(st.one_of(NAME, st.from_regex(r"[a-z]{1,3}[0-9]{1,4}", fullmatch=True)), min_size=2, max_size=5)
    )
    prefix = draw(st.sampled_from(["", "/", "$", "~/", "./", "--", "#", "<", "(", '"']))
    text = prefix + "".join(part + draw(JOIN) for part in parts[:-1]) + parts[-1]
    unprefixed = "".join(part + draw(JOIN) for part in parts[:-1]) + parts[-1]
    return text, [*parts, " ".join(parts), "".join(parts), unprefixed, text, "/".join(parts[1:])]


@pytest.fixture
def is_found_by(db):
    """Return a function: does a query match a text in a configuration?"""

    def terms(prepared, configuration):
        row = db.row(
            "select tsvector_to_array(to_tsvector(%(configuration)s::regconfig, %(text)s)) as terms",
            {"configuration": configuration, "text": f"{prepared.text} {prepared.parts}"},
        )
        return {*row["terms"], *prepared.terms}

    def is_found(text, query, configuration="simple"):
        query_terms = terms(analyzer.analyze_query(query, configuration), configuration)
        return bool(query_terms & terms(analyzer.analyze_text(text, configuration), configuration))

    return is_found


@given(ONE_WORD, st.sampled_from(["simple", "english", "arabic", "hindi", "russian", "german"]))
def test_a_word_is_found_by_every_way_to_write_it(is_found_by, ways, configuration):
    for written in ways:
        for spelling in ways:
            assert is_found_by(f"zzz, {written}. yyy", spelling, configuration), (written, spelling)


@given(joined())
def test_a_path_an_address_or_a_code_is_found_by_its_parts(is_found_by, case):
    text, queries = case
    for query in queries:
        assert is_found_by(f"zzz {text}, yyy", query), (text, query)


@given(st.text("abcxyz120.--/._:@&#+<>$~%\\ '=?*^,;()[]{}|!\"e", max_size=30))
def test_every_run_of_letters_is_found_whatever_stands_around_it(is_found_by, text):
    for run in re.findall(r"(?<![a-z0-9])[a-z][a-z0-9]*", text):
        assert is_found_by(text, run), (text, run)


@pytest.fixture
def find(library):
    def run(text):
        query = Query(text, top_k=10, semantic_weight=0.0, keyword_weight=1.0)
        hits = search.run_search(library.db, library.scope, query, viewer=None, embedder=None, vectors=None).hits
        return [hit.content for hit in hits]

    return run


@pytest.mark.parametrize(
    ("text", "queries"),
    [
        ("The shell reads $HOME/.bashrc at first.", ["home", "bashrc", ".bashrc", "$HOME/.bashrc"]),
        ("Mounted at /srv/share on all machines.", ["srv", "share", "/srv/share"]),
        ("See https://doi.org/10.1145/3292500.3330701 now.", ["3292500.3330701", "3330701", "10.1145"]),
        (r"The file C:\Users\anna\notes.txt is gone.", ["users", "notes.txt", r"C:\Users\anna"]),
        ("A map of List<String> in it.", ["string", "List<String>"]),
        ("Python 3.11.7 is needed.", ["3.11", "python 3.11", "v3.11"]),
        ("The boun\u00addary lay\u200ber is thick.", ["boundary", "layer", "boun\u200bdary"]),
        ("Shares of AT&T fell.", ["AT&T", "at&t", "ATT", "AT & T", "AT&amp;T"]),
        ("Money for R&D was cut.", ["R&D", "r&d", "R & D"]),
        ("Written in C++ by hand.", ["C++", "c++"]),
        ("A plot of 12 m^(2) with H_(2)O and CO_(2).", ["m2", "m²", "H2O", "CO2", "CO₂"]),
        ("A rope of Kevlar™ and 2½ metres.", ["Kevlar", "kevlar 2"]),
        ("Written in C# by hand.", ["C#"]),
        ("The .NET runtime is needed.", [".NET", "net"]),
        ("בבית יש שָׁלוֹם גדול", ["שלום"]),
        ("הוא שירת אז בצה״ל", ['בצה"ל', "בצהל"]),
        ("यह क़लम नई है", ["कलम", "क\u093cलम"]),
        ("هذه مدرسة كبيرة في المدينة", ["مدرسه", "المدينه"]),
        ("قال أحمد وآدم", ["احمد", "وادم"]),
        ("این کتاب فارسی است", ["كتاب", "فارسي"]),
        ("من می\u200cخواهم بروم", ["میخواهم", "می خواهم"]),
        ("घर १२३४", ["1234", "١٢٣٤"]),
        ("Die STRAẞE ist lang.", ["Straße", "strasse"]),
    ],
)
def test_what_is_typed_is_found(library, find, text, queries):
    library.put(["Nothing of it stands here."])
    library.put([text])
    for query in queries:
        assert find(query)[:1] == [text], query


def test_stop_words_are_found_where_they_say_something(library, find):
    seals = library.put([f"Nobody saw it, and nobody knows who came{LONG}"])
    report = f"A report by the WHO came{LONG}"
    band = f"At night The Who played{LONG}"
    hamlet = f"To be, or not to be: that is the question{LONG}"
    short = "Let it be."
    for text in (report, band, hamlet, short):
        library.put([text])
    assert seals
    assert set(find("WHO")) == set(find("who")) == set(find("the who")) - {hamlet, short} | {report, band}
    assert find("to be or not to be")[0] == hamlet
    assert find("let it be") == [short]
    assert find("it") == find("i\u200bt") == [short]
    assert find("WHO report")[0] == report
    assert find("the seals who") == find("seals"), "beside other words they do not count"
    library.put([f"Ask the IT department{LONG}"])
    library.put([f"Ask the department, it knows{LONG}"])
    assert find("IT department")[0].startswith("Ask the IT")


@pytest.mark.parametrize("configuration", sorted(STOP_WORDS))
def test_stop_words_are_those_of_postgresql(db, configuration):
    rows = db.rows(
        "select w from unnest(%(words)s::text[]) w where to_tsvector(%(language)s::regconfig, w) <> ''::tsvector",
        {"words": sorted(STOP_WORDS[configuration]), "language": configuration},
    )
    assert {row["w"] for row in rows} <= UNACCENTED_STOP_WORDS.get(configuration, frozenset())
