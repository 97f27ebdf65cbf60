"""Page of the kinds of files, from the table of the detection."""

from __future__ import annotations

from connectors.parsers import detect, signatures
from connectors.parsers.detect import Kind

HEAD = """\
# Kinds of files

The content decides the kind of a file, then its name. The table says what is read of each kind and what is left out;
a `notice` on the document names what was left out of that file. Superscripts are written `^(2)`, subscripts `_(2)`,
marks of notes `[1]`, and struck-out text `~~like this~~`.

"""
REFUSED_HEAD = """
## Refused

Any other kind is FAILED by its name, with advice. These are some of the names, next to pictures, recordings, archives
and programs of all usual formats:

"""
OFFICE_LEFT_OUT = "pictures without a description, macros"
# Read, and left out.
KINDS: dict[Kind, tuple[str, str]] = {
    detect.PDF: (
        "text in reading order, tables, code listings, form values, notes, attachments; scans with STANDARD_OCR",
        "pictures; pages with low `textQuality` are named",
    ),
    detect.DOCX: ("text, lists, tables, notes, comments, text boxes, charts, embedded files", OFFICE_LEFT_OUT),
    detect.DOC: ("text, tables, notes of Word 97 and later", f"{OFFICE_LEFT_OUT}, charts"),
    detect.ODT: ("text, lists, tables and tables in cells, notes, comments, charts, formulas", OFFICE_LEFT_OUT),
    detect.RTF: ("text, lists, tables and tables in cells, notes, embedded files", "pictures, drawings"),
    detect.PPTX: ("slides, tables, charts, diagrams, notes", OFFICE_LEFT_OUT),
    detect.PPT: ("slides, tables, notes", f"{OFFICE_LEFT_OUT}, charts"),
    detect.ODP: ("slides, tables, charts, notes", OFFICE_LEFT_OUT),
    detect.XLSX: ("cells as shown, comments, charts, text boxes, hidden sheets", "formulas, pictures"),
    detect.XLS: ("cells as shown, charts", "formulas, pictures"),
    detect.ODS: ("cells as shown, comments, charts, text boxes", "formulas, pictures"),
    detect.VSDX: ("text of each page in reading order", "lines and pictures"),
    detect.ODG: ("text of each page in reading order", "lines and pictures"),
    detect.CSV: ("records", ""),
    detect.TSV: ("records", ""),
    detect.HTML: (
        "text, tables, formulas; tabs, accordions, shadow roots and `srcdoc` frames",
        "what a browser does not show: hidden elements, closed dialogs, `noscript`, embedded pages; scripts",
    ),
    detect.XML: (
        "flat OpenDocument, Word and Excel XML as these; otherwise paragraphs and tables",
        "base64 and signatures",
    ),
    detect.SVG: (
        "title, description, visible texts row by row",
        "pictures, copies beyond 100,000; a drawing of shapes only is refused",
    ),
    detect.MIND_MAP: (
        "topics as an outline, notes, values, links, connections; outlines of OPML too",
        "pictures, encrypted topics",
    ),
    detect.LYX: (
        "headings, lists, tables, formulas, footnotes, references",
        "pictures, LaTeX code, files that it includes, notes and inactive branches",
    ),
    detect.JSON: ("text as it is", ""),
    detect.JSONL: ("text as it is", ""),
    detect.NOTEBOOK: ("cells and their outputs of text", "pictures and other binary outputs"),
    detect.SUBTITLES: ("sentences, with a time about every minute", "numbers and times of cues, styles"),
    detect.MARKDOWN: ("text as it is", "inline pictures"),
    detect.LOG: (
        "lines as a terminal shows them; a line that repeats stands once with its number of repetitions",
        "codes of terminals, earlier states of progress",
    ),
    detect.PLAIN: ("text as it is, in any encoding", ""),
    detect.EML: ("subject, people, date, text; attachments as documents", "pictures in the text"),
    detect.MBOX: ("each mail as a document", ""),
    detect.MSG: ("mails, appointments, contacts and tasks; attachments as documents", "pictures in the text"),
    detect.TNEF: ("text; attachments as documents", ""),
    detect.SIGNED: ("the signed content", "the signature; encrypted content is refused"),
    detect.ICS: ("events and tasks", "alarms"),
    detect.VCF: ("names, addresses, numbers, notes", "pictures"),
    detect.EPUB: ("chapters in order", "pictures, styles"),
    detect.IMAGE: ("recognised text with STANDARD_OCR", "a picture without OCR is refused"),
    detect.ZIP: ("each file as a document, and their list", "files that cannot be read fail with the reason"),
}


def render_kinds() -> str:
    """Return the page. KeyError for a kind without a description."""
    lines = ["| Kind | Endings | Read | Left out |", "| --- | --- | --- | --- |"]
    for kind in detect.ALL_KINDS:
        read, left_out = KINDS[kind]
        endings = ", ".join(f"`.{ending}`" for ending in kind.endings)
        lines.append(f"| {kind.label[0].upper()}{kind.label[1:]} | {endings} | {read} | {left_out or 'nothing'} |")
    refused = [f"- {known.name}. {known.remedy}".rstrip() for known in signatures.list_refused()]
    return HEAD + "\n".join(lines) + "\n" + REFUSED_HEAD + "\n".join(refused) + "\n"
