"""Unknown words are replaced by the nearest readable words; known words stay."""

import pytest

from retrieval.search import search
from retrieval.search.search import Query
from tests.library import viewer_of

CHUNK_TEXTS = [
    "Kubernetes schedules containers.",
    "Arnold Schwarzenegger opened the fair.",
    "Levothyroxine is taken before breakfast.",
    "Ölwechsel und Grenzschicht, café au lait",
    "The order code is AB1234, the other XKCDQ.",
]


def fill(library, texts):
    for text in texts:
        library.put([text], [[1.0] + [0.0] * 7])
    return library


@pytest.fixture(scope="module")
def shelf(new_library):
    """Texts that no test changes."""
    return fill(new_library(), CHUNK_TEXTS)


def find(library, text, user=None):
    viewer = None if user is None else viewer_of(library.db, library.scope, user)
    query = Query(text, semantic_weight=0.0, keyword_weight=1.0)
    return search.run_search(library.db, library.scope, query, viewer=viewer, embedder=None, vectors=None)


@pytest.mark.parametrize(
    ("typed", "text", "instead"),
    [
        ("kuberentes", 0, "kubernetes"),
        ("ubernetes", 0, "kubernetes"),
        ("schwarzeneger", 1, "schwarzenegger"),
        ("Levothyroxn", 2, "levothyroxine"),
        ("contianers", 0, "containers"),
        ("Grenzschihct", 3, "grenzschicht"),
    ],
)
def test_a_typo_is_found_by_words_alone_and_explained(shelf, typed, text, instead):
    result = find(shelf, typed)
    assert [hit.content for hit in result.hits] == [CHUNK_TEXTS[text]]
    assert [correction.note for correction in result.corrections] == [
        f"{typed} was not found; {instead} was searched instead."
    ]


LANGUAGES = [
    (
        "The invoice is due within thirty days, and the refund of the deposit was paid to the customer by the bank. "
        "It was permanently stored in the schedule of the department, which is at the government office. "
        "The environment of the kidney hospital is for the patients and the management of breakfast."
    ),
    (
        "Die Rechnung wird mit der Mahnung an den Kunden gesendet, und das ist die Kündigung für den Vertrag. "
        "Der Widerspruch gegen die Versicherung ist nicht mit dem Fahrzeug und der Steuererklärung zu senden."
    ),
    (
        "La facture est dans le dossier de la société, et les congés sont pour les employés. Le remboursement de "
        "l'assurance est une procédure qui dure trois semaines, et elle est dans le règlement."
    ),
    (
        "La factura de la empresa es para el cliente, y las vacaciones son para los empleados. El presupuesto que "
        "tiene el ayuntamiento no es de la biblioteca, pero la ambulancia está en el hospital."
    ),
    (
        "De factuur van het bedrijf is voor de klant, en de vakantie is niet voor een werknemer. De verzekering van "
        "het voertuig wordt met de belasting van de gemeente betaald."
    ),
    (
        "La fattura della società è per il cliente, e le vacanze sono per gli impiegati. Il rimborso che non è nella "
        "polizza con la quale il medico è assicurato, nel tribunale."
    ),
    "Счёт по договору и налог на отпуск не для врача, что это как он был в больнице, но без документа.",
    "Fakturan är för kunden och den är inte betald av företaget som har en försäkring på sjukhuset.",
]
# Typed forms of words in these texts; None for a missing accent (not a typo).
TYPOS = {
    "invioce": "invoice", "refnud": "refund", "depsoit": "deposit", "custmer": "customer",
    "shedule": "schedule", "deparment": "department", "goverment": "government", "enviroment": "environment",
    "kidny": "kidney", "hosptial": "hospital", "mangement": "management", "brekfast": "breakfast",
    "Rechnugn": "rechnung", "Mahnugn": "mahnung", "Kündigng": "kündigung", "Vertarg": "vertrag",
    "Wiederspruch": "widerspruch", "Versicherng": "versicherung", "Fahrzueg": "fahrzeug",
    "Steuererklrung": "steuererklärung", "factrue": "facture", "rembousement": "remboursement",
    "procedrue": "procédure", "asurance": "assurance", "vacaciónes": None, "presupesto": "presupuesto",
    "ayuntamineto": "ayuntamiento", "bibliotca": "biblioteca", "ambulnacia": "ambulancia", "factuurr": "factuur",
    "vakntie": "vakantie", "verzekring": "verzekering", "belastign": "belasting", "fatutra": "fattura",
    "tribunlae": "tribunale", "polzza": "polizza", "договру": "договору", "отупск": "отпуск", "больнце": "больнице",
    "fakturna": "fakturan", "försäkrng": "försäkring", "sjukhset": "sjukhuset",
}  # fmt: skip
# Words similar to these texts' words, or to stems in another language.
NO_TYPOS = """
    German pipes voice refined stored deposits invoke customs defend duet patents patience scheduled fast king bang
    thirsty chip climate permanent hospitality refunded weak wakes Vortrag Richtung Wohnung Verträge Kanten Kinder
    Steuer Sende facile fracture postures cages employer semaine reglas facturas clima pasado hospitales vacas
    vakanties bedrijven klank fatture medici vacanza classe clienti
""".split()  # noqa: SIM905 - a list of words


@pytest.fixture(scope="module")
def many_languages(new_library):
    return fill(new_library(), LANGUAGES)


def test_typos_of_several_languages_are_corrected_to_the_word_that_was_meant(many_languages):
    corrections = {typo: [word for c in find(many_languages, typo).corrections for word in c.words] for typo in TYPOS}
    assert corrections == {typo: [word] if word else [] for typo, word in TYPOS.items()}


def test_words_of_a_dictionary_and_words_far_from_all_are_not_corrected(many_languages):
    corrections = {word: [c.note for c in find(many_languages, word).corrections] for word in NO_TYPOS}
    assert {word: notes for word, notes in corrections.items() if notes} == {}


@pytest.mark.parametrize("typed", ["kubernetes", "AB1235", "zzqj", "AB-1235", "fiar breakfastfasting", "the", "港海"])
def test_words_that_occur_codes_and_distant_words_are_not_replaced(shelf, typed):
    corrections = find(shelf, typed).corrections
    assert [correction.word for correction in corrections] == (["fiar"] if "fiar" in typed else [])


def test_a_word_that_occurs_once_is_not_replaced_by_a_near_one(library):
    shelf = fill(library, CHUNK_TEXTS)
    shelf.put(["kuberentes is a typo"], [[1.0] + [0.0] * 7])
    result = find(shelf, "kuberentes")
    assert (len(result.hits), list(result.corrections)) == (1, [])


def test_words_of_hidden_documents_change_nothing(library):
    shelf = fill(library, CHUNK_TEXTS)

    def show(text):
        result = find(shelf, text, "ada")
        return [hit.content for hit in result.hits], [correction.note for correction in result.corrections]

    queries = ["kuberentes", "levothyroxn", "mezzannine", "containrs"]
    expected = [show(text) for text in queries]
    for text in ("Kuberentes, levothyroxn and mezzanine", "Contaimrs containrs"):
        hidden = shelf.put([text], [[1.0] + [0.0] * 7])
        shelf.db.rows(
            """update documents set access = '{"users": ["bob"], "groups": []}' where id = %(id)s""", {"id": hidden}
        )
    assert [show(text) for text in queries] == expected
    assert [bool(notes) for _, notes in expected] == [True, True, False, True]
    assert find(shelf, "mezzannine").corrections[0].words == ("mezzanine",)
