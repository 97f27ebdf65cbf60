"""Word lists by language."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final


@lru_cache(maxsize=64)
def compile_words(words: Sequence[str]) -> re.Pattern[str] | None:
    """Compile a pattern of any of the words; None without words."""
    return re.compile(rf"\b{_build_alternatives(words)}\b", re.IGNORECASE) if words else None


def _build_alternatives(endings: Iterable[str]) -> str:
    """Build a pattern of alternatives by prefix, linear in the text."""
    by_first: dict[str, list[str]] = {}
    for ending in endings:
        by_first.setdefault(ending[:1], []).append(ending[1:])
    is_complete = by_first.pop("", None)
    alternatives = "|".join(re.escape(first) + _build_alternatives(rests) for first, rests in by_first.items())
    return f"(?:{alternatives}){'?' if is_complete else ''}" if alternatives else ""


def _parse_lists(lines: str) -> Mapping[str, frozenset[str]]:
    """Parse lines of a language and words."""
    word_lists: dict[str, frozenset[str]] = {}
    for line in filter(None, map(str.strip, lines.splitlines())):
        language, *words = line.split()
        word_lists[language] = word_lists.get(language, frozenset()) | frozenset(words)
    return word_lists


def _invert_lists(lists: Mapping[str, frozenset[str]]) -> Mapping[str, tuple[str, ...]]:
    """Return languages by word."""
    words = frozenset[str]().union(*lists.values())
    return {word: tuple(language for language, own_words in lists.items() if word in own_words) for word in words}


# Stop words of PostgreSQL's configurations, normalized by the analyzer.
STOP_WORDS: Final = _parse_lists(
    """
    danish ad af alle alt anden at blev blive bliver da de dem den denne der deres det dette dig din disse dog du
    danish efter eller en end er et for fra ham han hans har havde have hende hendes her hos hun hvad hvis hvor i ikke
    danish ind jeg jer jo kunne man mange med meget men mig min mine mit mod nar ned noget nogle nu og ogsa om op os
    danish over pa sadan selv sig sin sine sit skal skulle som thi til ud under vaere vaeret var vi vil ville vor
    dutch aan al alles als altijd andere ben bij daar dan dat de der deze die dit doch doen door dus een eens en er ge
    dutch geen geweest haar had heb hebben heeft hem het hier hij hoe hun iemand iets ik in is ja je kan kon kunnen
    dutch maar me meer men met mij mijn moet na naar niet niets nog nu of om omdat onder ons ook op over reeds te
    dutch tegen toch toen tot u uit uw van veel voor want waren was wat werd wezen wie wil worden wordt zal ze zelf
    dutch zich zij zijn zo zonder zou
    english a about above after again against all am an and any are as at be because been before being below between
    english both but by can did do does doing don down during each few for from further had has have having he her
    english here hers herself him himself his how i if in into is it its itself just me more most my myself no nor not
    english now of off on once only or other our ours ourselves out over own s same she should so some such t than
    english that the their theirs them themselves then there these they this those through to too under until up very
    english was we were what when where which while who whom why will with you your yours yourself yourselves
    finnish ei eivat emme en et etta ette han haneen hanella hanelle hanelta hanen hanessa hanesta hanet hanta he
    finnish heidan heidat heihin heilla heille heilta heissa heista heita itse ja johon joiden joihin joiksi joilla
    finnish joille joilta joina joissa joista joita joka joksi jolla jolle jolta jona jonka jos jossa josta jota jotka
    finnish kanssa keiden keihin keiksi keilla keille keilta keina keissa keista keita keneen keneksi kenella kenelle
    finnish kenelta kenen kenena kenessa kenesta kenet keta ketka koska kuin kuka kun me meidan meidat meihin meilla
    finnish meille meilta meissa meista meita mihin mika miksi milla mille milta mina minka minua minulla minulle
    finnish minulta minun minussa minusta minut minuun missa mista mita mitka mukaan mutta naiden naihin naiksi nailla
    finnish naille nailta naina naissa naista naita nama ne niiden niihin niiksi niilla niille niilta niin niina
    finnish niissa niista niita noiden noihin noiksi noilla noille noilta noin noina noissa noista noita nuo nyt ole
    finnish olemme olen olet olette oli olimme olin olisi olisimme olisin olisit olisitte olisivat olit olitte olivat
    finnish olla olleet ollut on ovat poikki se seka sen siihen siina siita siksi silla sille silta sina sinua sinulla
    finnish sinulle sinulta sinun sinussa sinusta sinut sinuun sita tahan tai taksi talla talle talta tama taman tana
    finnish tassa tasta tata te teidan teidat teihin teilla teille teilta teissa teista teita tuo tuohon tuoksi tuolla
    finnish tuolle tuolta tuon tuona tuossa tuosta tuota vaan vai vaikka yli
    french a ai aie aient aies ait as au aura aurai auraient aurais aurait auras aurez auriez aurions aurons auront
    french aux avaient avais avait avec avez aviez avions avons ayant ayante ayantes ayants ayez ayons c ce ces d dans
    french de des du elle en es est et etaient etais etait etant etante etantes etants ete etee etees etes etiez
    french etions eu eue eues eumes eurent eus eusse eussent eusses eussiez eussions eut eutes eux fumes furent fus
    french fusse fussent fusses fussiez fussions fut futes il j je l la le leur lui m ma mais me meme mes moi mon n ne
    french nos notre nous on ont ou par pas pour qu que qui s sa se sera serai seraient serais serait seras serez
    french seriez serions serons seront ses soient sois soit sommes son sont soyez soyons suis sur t ta te tes toi ton
    french tu un une vos votre vous y
    german aber alle allem allen aller alles als also am an ander andere anderem anderen anderer anderes anderm andern
    german anderr anders auch auf aus bei bin bis bist da damit dann das dass dasselbe dazu dein deine deinem deinen
    german deiner deines dem demselben den denn denselben der derer derselbe derselben des desselben dessen dich die
    german dies diese dieselbe dieselben diesem diesen dieser dieses dir doch dort du durch ein eine einem einen einer
    german eines einig einige einigem einigen einiger einiges einmal er es etwas euch euer eure eurem euren eurer
    german eures fur gegen gewesen hab habe haben hat hatte hatten hier hin hinter ich ihm ihn ihnen ihr ihre ihrem
    german ihren ihrer ihres im in indem ins ist jede jedem jeden jeder jedes jene jenem jenen jener jenes jetzt kann
    german kein keine keinem keinen keiner keines konnen konnte machen man manche manchem manchen mancher manches mein
    german meine meinem meinen meiner meines mich mir mit muss musste nach nicht nichts noch nun nur ob oder ohne sehr
    german sein seine seinem seinen seiner seines selbst sich sie sind so solche solchem solchen solcher solches soll
    german sollte sondern sonst uber um und uns unse unsem unsen unser unses unter viel vom von vor wahrend war waren
    german warst was weg weil weiter welche welchem welchen welcher welches wenn werde werden wie wieder will wir wird
    german wirst wo wollen wollte wurde wurden zu zum zur zwar zwischen
    hungarian a abban ahhoz ahogy ahol aki akik akkor alatt altal altalaban amely amelyek amelyekben amelyeket amelyet
    hungarian amelynek ami amig amikor amit amolyan annak arra arrol at az azert azok azon azonban azt aztan azutan
    hungarian azzal bar be belul benne cikk cikkek cikkeket csak de e ebben eddig egesz egy egyeb egyes egyetlen egyik
    hungarian egyre ehhez ekkor el eleg ellen elo eloszor elott elso emilyen en ennek eppen erre es ez ezek ezen ezert
    hungarian ezt ezzel fel fele hanem hiszen hogy hogyan igen igy ill ill. illetve ilyen ilyenkor ismet ison itt jo
    hungarian jobban jol kell kellett keressunk keresztul ki kivul kozott kozul legalabb legyen lehet lehetett lenne
    hungarian lenni lesz lett maga magat majd mar mas masik meg mellett mely melyek mert mi miert mig mikor milyen
    hungarian minden mindenki mindent mindig mint mintha mit mivel most nagy nagyobb nagyon ne neha nehany nekem neki
    hungarian nelkul nem nincs o ok oket olyan ossze ott pedig persze ra s sajat sem semmi sok sokat sokkal szamara
    hungarian szemben szerint szinte talan tehat teljes tobb tovabb tovabba ugy ugyanis uj ujabb ujra utan utana
    hungarian utolso vagy vagyis vagyok valaki valami valamint valo van vannak vele vissza viszont volna volt voltak
    hungarian voltam voltunk
    italian a abbia abbiamo abbiano abbiate ad agl agli ai al all alla alle allo anche avemmo avendo avesse avessero
    italian avessi avessimo aveste avesti avete aveva avevamo avevano avevate avevi avevo avra avrai avranno avrebbe
    italian avrebbero avrei avremmo avremo avreste avresti avrete avro avuta avute avuti avuto c che chi ci coi col
    italian come con contro cui da dagl dagli dai dal dall dalla dalle dallo degl degli dei del dell della delle dello
    italian di dov dove e ebbe ebbero ebbi ed era erano eravamo eravate eri ero essendo faccia facciamo facciano
    italian facciate faccio facemmo facendo facesse facessero facessi facessimo faceste facesti faceva facevamo
    italian facevano facevate facevi facevo fai fanno fara farai faranno farebbe farebbero farei faremmo faremo
    italian fareste faresti farete faro fece fecero feci fosse fossero fossi fossimo foste fosti fu fui fummo furono
    italian gli ha hai hanno ho i il in io l la le lei li lo loro lui ma mi mia mie miei mio ne negl negli nei nel
    italian nell nella nelle nello noi non nostra nostre nostri nostro o per perche piu quale quanta quante quanti
    italian quanto quella quelle quelli quello questa queste questi questo sara sarai saranno sarebbe sarebbero sarei
    italian saremmo saremo sareste saresti sarete saro se sei si sia siamo siano siate siete sono sta stai stando
    italian stanno stara starai staranno starebbe starebbero starei staremmo staremo stareste staresti starete staro
    italian stava stavamo stavano stavate stavi stavo stemmo stesse stessero stessi stessimo steste stesti stette
    italian stettero stetti stia stiamo stiano stiate sto su sua sue sugl sugli sui sul sull sulla sulle sullo suo
    italian suoi ti tra tu tua tue tuo tuoi tutti tutto un una uno vi voi vostra vostre vostri vostro
    nepali अक्सर अगाडि अगाडी अझै अनुसार अन्तर्गत अन्य अन्यथा अब अरु अरू अर्का अर्की अर्को अर्थात अर्थात् अर्ब अलग
    nepali अलिकति असार आइतवार आए आज आठ आत्म आदि आफू आफ्नै आफ्नो आयो आश्विन उदाहरण उन उप उही एउटै एक एकदम एकै ओठ औं कति
    nepali कतै कत्रा कत्री कत्रो करोड कस कसरी कसै कस्ता कस्ती कस्तो कहिल्यै कहीं का कार्तिक कि किन किनभने कुन कुनै
    nepali कुरा कृपया के केहि केही को कोही क्रमशः खर्ब गयौ चाँडै चार चाले चाहनुहुन्छ चाहन्छु चाहिए चैत चौथो छ छन् छु
    nepali छू छैन छौँ छौं जताततै जति जत्रा जत्री जत्रो जब जबकि जस जस्ता जस्ती जस्तो जस्तोसुकै जहाँ जान जाहिर जुन जे
    nepali जेठ जो जोसुकै ठीक त तत्काल तथा तदनुसार तपाई तपाईं तर तल तापनि तापनी तिन तिनी तिमी तिर ती तीन तुरुन्तै
    nepali तेस्कारण तेस्रो त्यसकारण त्यसपछि त्यसमा त्यसैले त्यहाँ त्यो त्सपछि त्सैले थिए थिएन थिएनन् थियो थोरै दस दिए
    nepali दिनुभएको दिनुहुन्छ दुई देख देखि देखिन्छ देखियो देखे देखेको देखेर देख्न दोश्रो दोस्रो धेरै न नजिकै नत्र नयाँ
    nepali नि निम्ति निम्न निम्नानुसार निर्दिष्ट नै नौ पक्का पक्कै पछि पछिल्लो पटक पनि पर्छ पर्थ्यो पर्याप्त पर्सी
    nepali पहिले पहिलो पहिल्यै पाँच पाँचौं पूर्व पौष प्रति प्रतेक प्रत्येक प्रथम प्लस फागुन फेरि फेरी बने बन्द बन्न
    nepali बरु बाटो बारे बाहिर बाहेक बिरुद्ध बिशेष बिहिवार बीच बुधवार भए भदौ भन् भर भित्र भित्री भोलि भोली म मंसिर
    nepali मङ्गलवार महिना मा माघ मात्र माथि मुख्य मेरो यति यत्ति यत्रा यत्री यत्रो यथोचित यदि यद्यपि यस यसरी यसो यस्ता
    nepali यस्ती यस्तो यहाँ या यिन यिनी यी यो र रही रहेका रहेको राखे राख्छ राम्रो रूप लगभग लाई लाख लागि ले वरिपरि
    nepali वरीपरी वर्ष वास्तवमा वाहेक विरुद्ध विशेष वैशाख शनिवार शायद शुक्रवार सँग सँगै संग संगै सक्छ सट्टा सधै सधैं
    nepali सबै समय सम्भव सम्म सय सही साँच्चै साउन सात साथ साथै सायद सारा सुन्ना सो सोध्न सोमवार सोही स्पष्ट हजार हप्ता
    nepali हरे हरेक हामी हाम्रो हिजो हुन्छ होला होस्
    norwegian a alle at av bade bae bare begge ble blei bli blir blitt da de deg dei deim deira deires dem den denne
    norwegian der dere deres det dette di din disse ditt du dykk dykkar eg ein eit eitt eller elles en enn er et ett
    norwegian etter for fordi fra ha hadde han hans har hennar henne hennes her hja ho hoe honom hoss hossen hun hva
    norwegian hvem hver hvilke hvilken hvis hvor hvordan hvorfor i ikke ikkje ingen ingi inkje inn inni ja jeg kan kom
    norwegian korleis korso kun kunne kva kvar kvarhelst kven kvi kvifor man mange me med medan meg meget mellom men
    norwegian mi min mine mitt mot mykje na nar ned no noe noen noka noko nokon nokor nokre og ogsa om opp oss over pa
    norwegian sa samme sann seg selv si sia sidan siden sin sine sitt sjol skal skulle slik so som somme somt til um
    norwegian upp ut uten vaere vaert var vart varte ved vere verte vi vil ville vore vors vort
    portuguese a ao aos aquela aquelas aquele aqueles aquilo as ate com como da das de dela delas dele deles depois do
    portuguese dos e ela elas ele eles em entre era eram eramos essa essas esse esses esta estamos estao estas estava
    portuguese estavam estavamos este esteja estejam estejamos estes esteve estive estivemos estiver estivera
    portuguese estiveram estiveramos estiverem estivermos estivesse estivessem estivessemos estou eu foi fomos for
    portuguese fora foram foramos forem formos fosse fossem fossemos fui ha haja hajam hajamos hao havemos hei houve
    portuguese houvemos houver houvera houveram houveramos houverao houverei houverem houveremos houveria houveriam
    portuguese houveriamos houvermos houvesse houvessem houvessemos isso isto ja lhe lhes mais mas me mesmo meu meus
    portuguese minha minhas muito na nao nas nem no nos nossa nossas nosso nossos num numa o os ou para pela pelas
    portuguese pelo pelos por qual quando que quem sao se seja sejam sejamos sem sera serao serei seremos seria seriam
    portuguese seriamos seu seus so somos sou sua suas tambem te tem temos tenha tenham tenhamos tenho tera terao
    portuguese terei teremos teria teriam teriamos teu teus teve tinha tinham tinhamos tive tivemos tiver tivera
    portuguese tiveram tiveramos tiverem tivermos tivesse tivessem tivessemos tu tua tuas um uma voce voces vos
    russian а без более больше будет будто бы был была были было быть в вам вас вдруг ведь во вот впрочем все всегда
    russian всего всех всю вы где да даже два для до другой его ее ей ему если есть еще ж же за зачем здесь и из или
    russian им иногда их к как какая какой когда конечно кто куда ли лучше между меня мне много может можно мой моя мы
    russian на над надо наконец нас не него нее ней нельзя нет ни нибудь никогда ним них ничего но ну о об один он она
    russian они опять от перед по под после потом потому почти при про раз разве с сам свою себе себя сейчас со совсем
    russian так такой там тебя тем теперь то тогда того тоже только том тот три тут ты у уж уже хорошо хоть чего чем
    russian через что чтоб чтобы чуть эти этого этой этом этот эту я
    spanish a al algo algunas algunos ante antes como con contra cual cuando de del desde donde durante e el ella
    spanish ellas ellos en entre era erais eramos eran eras eres es esa esas ese eso esos esta estaba estabais
    spanish estabamos estaban estabas estad estada estadas estado estados estais estamos estan estando estar estara
    spanish estaran estaras estare estareis estaremos estaria estariais estariamos estarian estarias estas este esteis
    spanish estemos esten estes esto estos estoy estuve estuviera estuvierais estuvieramos estuvieran estuvieras
    spanish estuvieron estuviese estuvieseis estuviesemos estuviesen estuvieses estuvimos estuviste estuvisteis estuvo
    spanish fue fuera fuerais fueramos fueran fueras fueron fuese fueseis fuesemos fuesen fueses fui fuimos fuiste
    spanish fuisteis ha habeis habia habiais habiamos habian habias habida habidas habido habidos habiendo habra
    spanish habran habras habre habreis habremos habria habriais habriamos habrian habrias han has hasta hay haya
    spanish hayais hayamos hayan hayas he hemos hube hubiera hubierais hubieramos hubieran hubieras hubieron hubiese
    spanish hubieseis hubiesemos hubiesen hubieses hubimos hubiste hubisteis hubo la las le les lo los mas me mi mia
    spanish mias mio mios mis mucho muchos muy nada ni no nos nosotras nosotros nuestra nuestras nuestro nuestros o os
    spanish otra otras otro otros para pero poco por porque que quien quienes se sea seais seamos sean seas sentid
    spanish sentida sentidas sentido sentidos sera seran seras sere sereis seremos seria seriais seriamos serian
    spanish serias si siente sin sintiendo sobre sois somos son soy su sus suya suyas suyo suyos tambien tanto te
    spanish tendra tendran tendras tendre tendreis tendremos tendria tendriais tendriamos tendrian tendrias tened
    spanish teneis tenemos tenga tengais tengamos tengan tengas tengo tenia teniais teniamos tenian tenias tenida
    spanish tenidas tenido tenidos teniendo ti tiene tienen tienes todo todos tu tus tuve tuviera tuvierais tuvieramos
    spanish tuvieran tuvieras tuvieron tuviese tuvieseis tuviesemos tuviesen tuvieses tuvimos tuviste tuvisteis tuvo
    spanish tuya tuyas tuyo tuyos un una uno unos vosostras vosostros vuestra vuestras vuestro vuestros y ya yo
    swedish alla allt an ar at att av blev bli blir blivit da dar de dem den denna deras dess dessa det detta dig din
    swedish dina ditt du efter ej eller en er era ert ett for fran ha hade han hans har henne hennes hon honom hur i
    swedish icke ingen inom inte jag ju kan kunde man med mellan men mig min mina mitt mot mycket nagon nagot nagra
    swedish nar ni nu och om oss over pa sa sadan sadana sadant samma sedan sig sin sina sitta sjalv skulle som till
    swedish under upp ut utan vad var vara varfor varit varje vars vart vem vi vid vilka vilkas vilken vilket
    turkish acaba ama aslinda az bazi belki biri birkac birsey biz bu cok cunku da daha de defa diye eger en gibi hem
    turkish hep hepsi her hic icin ile ise kez ki kim mi mu nasil ne neden nerde nerede nereye nicin niye o sanki sey
    turkish siz su tum ve veya ya yani
    """  # noqa: RUF001 - Russian and Nepali
)
# Stop words of PostgreSQL, without accents.
UNACCENTED_STOP_WORDS: Final = _parse_lists(
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
# Most frequent words and question words, by ISO 639-1.
FUNCTION_WORDS: Final = _parse_lists(
    """
    en the of and to in is that it for was on are with as be at by this from have has which or not what
    en how who where when does an were can do did why will would there their its you your i my we our
    en if than
    de der die das und ist nicht ein eine einen einem einer den dem des mit zu auf für von im sich auch
    de es wird wie was wann wer wo welche welcher welches am aus bei nach bis oder kann sind werden
    de wurde zum zur über wenn
    fr le la les des et est un une du que qui dans pour sur pas avec ce cette au aux en il elle sont
    fr par plus quel quelle quels quelles où quand comment se son sa ses ou ne nous vous d l qu combien
    fr à de ont été avant après leurs leur aussi sans être fait si y
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
    sv vilken vilket eller sig under så men ska blir efter vid ut upp in inom mot mellan över genom utan
    sv varje alla här där nu vi ni jag kommer finns får måste också samt sedan
    da og at det som en på er af for med den til ikke om et har de var fra kan hvordan hvad hvornår
    da hvor hvem hvilken hvilket eller sig så men skal bliver efter ved blev hver ud op ind inden mellem
    da over under uden alle her der nu vi jeg kommer findes får også samt gennem mod bør ligger
    no og å det som en på er av for med den til ikke om et har de var fra kan hvordan hva når hvor hvem
    no hvilken hvilket eller seg så men skal blir etter ved ble hver ut opp inn innen mellom over under
    no uten alle her der nå vi jeg kommer finnes får også samt gjennom mot bør ligger
    fi ja on ei se että hän oli mutta joka kun niin tai ovat kuin myös sen mitä missä milloin kuka
    fi kuinka miten mikä jos voi ole tämä eikä sekä ennen jälkeen aikana edessä takana vieressä mukaan
    fi kanssa ilman jokainen kaikki saa tulee pitää vain nyt siihen sitä ne he alla yli läpi asti
    fi sitten vielä jo päivittäin lopussa kuluessa
    hu a az és hogy nem is egy ez van meg de ha csak mint volt vagy mi mikor hol ki hogyan milyen
    hu melyik mennyi hány kell lehet el után előtt alatt között szerint esetén minden vannak
    hu lesz majd mert ezt azt ti ők nagyon már még itt ott
    ro și este în la de un o cu pe nu să care din pentru se au sunt mai ce când unde cine cum cât fost
    ro sau al ale prin după înainte conform iar până fără toate acest această fi
    tr ve bir bu için ile de da ne olarak çok daha gibi var kadar nasıl nerede kim hangi kaç mi mı
    tr değil olan en sonra önce göre her bütün bunu şu o hem ya edilir olur
    pl i w na z się nie jest do że to o jak co po dla przez są od kiedy gdzie kto ile który jaka jaki
    pl oraz ma mają przed podczas przy bez nad pod ze lub czy tak już być było będzie został
    cs a v na se je že to s do z o jak co kdy kde kdo kolik který pro jsou není nebo také by po při před
    cs podle ve ze za mezi byl byla bylo byly jako už jen když aby jeho jejich
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
# Languages by function word.
LANGUAGES_OF: Final = _invert_lists(FUNCTION_WORDS)
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
