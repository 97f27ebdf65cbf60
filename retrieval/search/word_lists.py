"""Lists of words by language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final


def read(lines: str) -> Mapping[str, frozenset[str]]:
    """Parse lines of a language and some of its words."""
    word_lists: dict[str, frozenset[str]] = {}
    for line in filter(None, map(str.strip, lines.splitlines())):
        language, *words = line.split()
        word_lists[language] = word_lists.get(language, frozenset()) | frozenset(words)
    return word_lists


def _inverted(lists: Mapping[str, frozenset[str]]) -> Mapping[str, tuple[str, ...]]:
    """By word the languages that have it, in their order."""
    words = frozenset[str]().union(*lists.values())
    return {word: tuple(language for language, own_words in lists.items() if word in own_words) for word in words}


UNACCENTED: Final = read(
    """
    danish nar ogsa pa sadan vaere vaeret
    finnish eivat etta han haneen hanella hanelle hanelta hanen hanessa hanesta hanet hanta heidan heidat
    finnish heilla heilta heissa heista heita keilla keilta keina keissa keista keita kenella kenelta kenena
    finnish kenessa kenesta keta ketka meidan meidat meilla meilta meissa meista meita mika milla milta mina
    finnish minka missa mista mita mitka naiden naihin naiksi nailla naille nailta naina naissa naista naita
    finnish nama niilla niilta niina niissa niista niita seka siina siita silla silta sina sita tahan taksi
    finnish talla talle talta tama taman tana tassa tasta tata teidan teidat teilla teilta teissa teista
    finnish teita tuota
    french a etaient etais etait etant etante etantes etants ete etee etees etes etiez etions eumes eutes
    french fumes futes meme
    german dass fur konnen konnte uber wahrend wurde wurden
    hungarian altal altalaban amig arrol at azert aztan azutan bar belul egesz egyeb eleg elo eloszor elott
    hungarian elso en eppen es ezert fele igy ismet jo jol keressunk keresztul kivul kozott kozul legalabb
    hungarian magat mar mas masik miert mig neha nehany nelkul o ok oket ossze ra sajat szamara talan tehat
    hungarian tobb tovabb tovabba ugy uj ujabb ujra utan utana utolso valo
    italian avra avro fara faro perche piu sara saro stara staro
    norwegian a bade bae hja na nar ogsa pa sa sann sjol vaere vaert
    portuguese ate eramos estao estavamos estiveramos estivessemos foramos fossemos ha hao houveramos houverao
    portuguese houveriamos houvessemos ja nao sao sera serao seriamos so tambem tera terao teriamos tinhamos
    portuguese tiveramos tivessemos voce voces
    spanish eramos estabamos estais estan estara estaran estaras estare estareis estaria estariais
    spanish estariamos estarian estarias esteis esten estes estuvieramos estuviesemos fueramos fuesemos
    spanish habeis habia habiais habiamos habian habias habra habran habras habre habreis habria habriais
    spanish habriamos habrian habrias hayais hubieramos hubiesemos mas mia mias mio mios seais sera seran
    spanish seras sere sereis seria seriais seriamos serian serias si tambien tendra tendran tendras tendre
    spanish tendreis tendria tendriais tendriamos tendrian tendrias teneis tengais tenia teniais teniamos
    spanish tenian tenias tuvieramos tuviesemos
    swedish an ar at da dar for fran nagon nagot nagra nar over pa sa sadan sadana sadant sjalv varfor
    turkish aslinda bazi birkac birsey cok cunku eger hic icin mi nasil nicin sey su tum
    """
)
"""Stop words of PostgreSQL's configurations as they read without the accents that its own lists have."""
FUNCTION_WORDS: Final = read(
    """
    en the of and to in is that it for was on are with as be at by this from have has which or not what
    en how who where when does an were can do did why will would there their its you your i my we our
    en if than
    de der die das und ist nicht ein eine einen einem einer den dem des mit zu auf für von im sich auch
    de es wird wie was wann wer wo welche welcher welches am aus bei nach bis oder kann sind werden
    de wurde zum zur über wenn
    fr le la les des et est un une du que qui dans pour sur pas avec ce cette au aux en il elle sont
    fr par plus quel quelle quels quelles où quand comment se son sa ses ou ne nous vous d l qu combien
    fr à
    es el la los las de que y en un una es por con para del se su al lo como más pero sus le ya o este
    es está qué cuándo dónde cuál cuánto cuántos cómo quién sí son hay fue ha desde sobre puede
    it il lo la gli di che e è un una del della dei delle in per con non si da sono al alla nel nella
    it come più anche quando dove quale quanto quanti chi cosa ha questo questa i le dal dalla viene
    it può
    pt o a os as de que e em um uma do da dos das no na nos nas para com não se por mais como ao é foi
    pt são quando onde qual quanto quantos quem pelo pela ou seu sua está tem pode às
    nl de het een van en is in op te dat die niet met voor zijn er aan ook als bij naar uit door wordt
    nl worden hoe wat wanneer waar wie welke kan om heeft of dan over tot maar
    sv och att det som en på är av för med den till inte om ett har de var från kan hur vad när vem
    sv vilken vilket eller sig under så men ska blir
    da og at det som en på er af for med den til ikke om et har de var fra kan hvordan hvad hvornår
    da hvor hvem hvilken hvilket eller sig så men skal bliver efter ved
    no og å det som en på er av for med den til ikke om et har de var fra kan hvordan hva når hvor hvem
    no hvilken hvilket eller seg så men skal blir etter ved
    fi ja on ei se että hän oli mutta joka kun niin tai ovat kuin myös sen mitä missä milloin kuka
    fi kuinka miten mikä jos voi ole tämä
    hu a az és hogy nem is egy ez van meg de ha csak mint volt vagy mi mikor hol ki hogyan milyen
    hu melyik mennyi hány kell lehet el
    ro și este în la de un o cu pe nu să care din pentru se au sunt mai ce când unde cine cum cât fost
    ro sau al ale prin
    tr ve bir bu için ile de da ne olarak çok daha gibi var kadar nasıl nerede kim hangi kaç mi mı
    tr değil olan en
    pl i w na z się nie jest do że to o jak co po dla przez są od kiedy gdzie kto ile który jaka jaki
    pl oraz
    cs a v na se je že to s do z o jak co kdy kde kdo kolik který pro jsou není nebo také by
    sk a v na sa je že to s do z o ako čo kedy kde kto koľko ktorý pre sú nie alebo tiež by
    hr i u na se je da to s za od kako što kada gdje tko koliko koji su nije ili također
    ca el la els les de que i en un una és per amb del al es no són com més on quan qui quin quina
    ca quants
    id yang dan di dari untuk dengan ini itu pada adalah tidak ke dalam akan apa kapan siapa bagaimana
    id berapa atau oleh
    vi và của là có không được trong cho một các với này khi những bao nhiêu ở
    lt ir yra kad su į iš tai ne kaip bet apie kas kada kur kiek arba prie
    eu eta da ez bat du dira hau zer non noiz nola den ere izan dute
    ga an na agus ar i is le do ag a go tá ní bhí cad conas nuair
    """  # noqa: RUF001 - Turkish has an i without a dot
)
"""The most frequent words of each language, by ISO 639-1, those of questions among them."""
LANGUAGES_OF: Final = _inverted(FUNCTION_WORDS)
"""The same by word."""
ISO_639_1: Final = frozenset(
    """
    aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz
    ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik
    io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml
    mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd
    se sg si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi
    vo wa wo xh yi yo za zh zu
    """.split()  # noqa: SIM905 - a list of words
)
