"""XML keeps sentences whole and tables as tables, and drops files in base64."""

# ruff: noqa: E501, ISC004 - markup of other programs

from __future__ import annotations

import base64
import io
import random
import zipfile

import pytest
from docx import Document

from retrieval.errors import Skippable
from tests.connectors.parsers.test_office import ODF_XMLNS

pytestmark = pytest.mark.service

TABLE = "| Valve | Bar |\n| --- | --- |\n| V1 | 16 |\n| V2 | 25 |"
BINARY = base64.encodebytes(random.Random(1).randbytes(900)).decode()


def xml(body: str) -> bytes:
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}'.encode()


JATS = xml(
    """<!DOCTYPE article PUBLIC "-//NLM//DTD JATS 1.2//EN" "JATS.dtd"><article xmlns:mml="http://www.w3.org/1998/Math/MathML">
    <front><article-meta><title-group><article-title>Limits of <italic>pumps</italic></article-title></title-group>
    <contrib-group><contrib><name><surname>Doe</surname><given-names>Ann</given-names></name></contrib></contrib-group>
    <abstract><p>We <bold>measured</bold> it.</p></abstract></article-meta></front>
    <body><sec><label>1</label><title>Methods</title><p>At 10<sup>6</sup> cycles<xref ref-type="bibr"><sup>3</sup></xref>
    the H<sub>2</sub>O boils, so <mml:math><mml:msup><mml:mi>x</mml:mi><mml:mn>2</mml:mn></mml:msup></mml:math> grows.</p>
    <p>There are <list list-type="bullet"><list-item><p>pumps</p></list-item><list-item><p>valves</p></list-item></list></p>
    <table-wrap><label>Table 1</label><caption><title>Pressures</title></caption><table><thead><tr><th>Valve</th>
    <th>Bar</th></tr></thead><tbody><tr><td>V<italic>1</italic></td><td>16</td></tr><tr><td>V2</td><td>25</td></tr></tbody>
    </table></table-wrap></sec></body><back><ref-list><ref><mixed-citation><name><surname>Roe</surname><given-names>B</given-names>
    </name>. <source>Valves</source>. <year>2010</year>.</mixed-citation></ref></ref-list></back></article>"""
)
DOCBOOK = xml(
    """<book xmlns="http://docbook.org/ns/docbook"><info><title>Manual</title></info><chapter><title>Safety</title>
    <section><title>Valves</title><para>Close the <emphasis>main</emphasis> valve<footnote><para>Type V1 only.</para></footnote>
    first.</para><itemizedlist><listitem><para>Wait.</para><itemizedlist><listitem><para>Ten minutes.</para></listitem>
    </itemizedlist></listitem><listitem><para>Open.</para></listitem></itemizedlist>
    <table><title>Pressures</title><tgroup cols="2"><colspec colname="a"/><colspec colname="b"/><thead><row><entry>Valve</entry>
    <entry>Bar</entry></row></thead><tbody><row><entry>V1</entry><entry>16</entry></row><row><entry namest="a" nameend="b">
    not tested</entry></row></tbody></tgroup></table><programlisting>open(v1)
  wait(10)</programlisting></section></chapter></book>"""
)
FICTION = xml(
    f"""<FictionBook xmlns="http://www.gribuser.ru/xml/fictionbook/2.0" xmlns:l="http://www.w3.org/1999/xlink"><description>
    <title-info><author><first-name>Ann</first-name><last-name>Doe</last-name></author><book-title>The Harbour</book-title>
    </title-info></description><body><section><title><p>Chapter 1</p><p>The storm</p></title><p>It was <emphasis>dark</emphasis>
    and st<strong>orm</strong>y.</p><poem><stanza><v>The sea is wide,</v><v>the night is long.</v></stanza></poem></section></body>
    <binary id="cover.jpg" content-type="image/jpeg">{BINARY}</binary></FictionBook>"""
)
PATENT = xml(
    """<us-patent-grant><us-bibliographic-data-grant><invention-title>Pump with valve</invention-title>
    </us-bibliographic-data-grant><description><heading>Background</heading><p id="p1" num="0001">The pump <b>10</b> feeds
    the boiler (<figref>FIG. <b>2</b></figref>).</p></description><claims><claim><claim-text>1. A pump, comprising:
    <claim-text>a valve <b>12</b>; and</claim-text><claim-text>a seal.</claim-text></claim-text></claim></claims>
    </us-patent-grant>"""
)


def test_inline_elements_stay_in_their_sentence(read):
    text = read("rules.xml", xml(
        "<rules><rule><title>Limits</title><text>The pump of <i>type</i> <b>4711</b> must <em>st</em>op at "
        "<ref n='1'>Fig. <b>1</b></ref>, unless clause 2b says so.</text></rule></rules>"
    )).text  # fmt: skip
    assert "The pump of type 4711 must stop at Fig. 1, unless clause 2b says so." in text.split("\n")


def test_an_article_of_a_journal_is_read(read):
    parsed = read("article.nxml", JATS)
    assert parsed.title == "Limits of pumps"
    assert parsed.text.count("Limits of pumps") == 1
    lines = parsed.text.split("\n")
    assert "We measured it." in lines
    assert "## 1 Methods" in lines
    assert "At 10^(6) cycles^(3) the H_(2)O boils, so x^(2) grows." in lines
    assert "There are\n- pumps\n- valves" in parsed.text
    assert f"Table 1 Pressures\n\n{TABLE}" in parsed.text
    assert "Roe B . Valves. 2010." in lines


def test_a_manual_in_docbook_is_read(read):
    text = read("manual.xml", DOCBOOK).text
    assert text == (
        "# Manual\n\n## Safety\n\n### Valves\n\nClose the main valve first.\n\nFootnote: Type V1 only.\n\n"
        "- Wait.\n  - Ten minutes.\n- Open.\n\nPressures\n\n| Valve | Bar |\n| --- | --- |\n| V1 | 16 |\n| not tested |  |\n\n"
        "```\nopen(v1)\n  wait(10)\n```\n"
    )


def test_a_book_is_read_without_its_pictures(read):
    parsed = read("harbour.fb2", FICTION)
    assert parsed.title == "The Harbour"
    assert "## Chapter 1 The storm\n\nIt was dark and stormy.\n\nThe sea is wide,\n\nthe night is long." in parsed.text
    assert BINARY[:60] not in parsed.text
    assert parsed.properties["notice"] == "Not read: embedded files in base64 (1): cover.jpg."


def test_claims_of_a_patent_are_read(read):
    text = read("grant.xml", PATENT).text
    assert text.startswith("# Pump with valve\n")
    assert "The pump 10 feeds the boiler (FIG. 2)." in text
    assert "1. A pump, comprising:\na valve 12; and\na seal." in text


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("<shop><item><name>Rope</name><price>9</price></item></shop>", ["name: Rope", "price: 9"]),
        ('<tides><tide time="06:12" height="3.4"/><tide time="18:40"/></tides>', ["tide: time: 06:12; height: 3.4"]),
        ("<rss><item><description><![CDATA[<p>High <b>water</b></p>]]></description></item></rss>", ["High water"]),
        ("<x><h:table xmlns:h='urn:h'><h:tr><h:td>a</h:td><h:td>b</h:td></h:tr></h:table></x>", ["| a | b |"]),
        (
            "<catalog><book><title>A tale</title><year>1999</year></book></catalog>",
            ["# catalog", "## A tale", "year: 1999"],
        ),
    ],
)
def test_data_in_xml_keeps_the_names_of_its_values(read, body, lines):
    text = read("data.xml", xml(body)).text
    assert not [line for line in lines if line not in text.split("\n")], text


@pytest.mark.parametrize(
    "body", ["<svg xmlns='http://www.w3.org/2000/svg'><path d='M20 5.5a3.498 3.498'/></svg>", "<root><empty/></root>"]
)
def test_xml_without_words_holds_no_text(read, body):
    with pytest.raises(Skippable, match="holds no text"):
        read("a.xml", xml(body))


def test_base64_anywhere_is_left_out_with_a_notice(read):
    parsed = read(
        "scan.xml", xml(f"<doc><p>A letter.</p><file name='scan.pdf'>{BINARY}</file><raw>{BINARY}</raw></doc>")
    )
    assert parsed.text == "# doc\n\nA letter.\n"
    assert parsed.properties["notice"] == "Not read: embedded files in base64 (2): scan.pdf, raw."


WORD_2003 = xml(
    f"""<?mso-application progid="Word.Document"?><w:wordDocument
    xmlns:w="http://schemas.microsoft.com/office/word/2003/wordml" xmlns:wx="http://schemas.microsoft.com/office/word/2003/auxHint"
    xmlns:o="urn:schemas-microsoft-com:office:office" xmlns:aml="http://schemas.microsoft.com/aml/2001/core">
    <o:DocumentProperties><o:Title>Pump manual</o:Title><o:Author>Ann Doe</o:Author></o:DocumentProperties>
    <w:lists><w:listDef w:listDefId="0"><w:lvl w:ilvl="0"><w:start w:val="1"/><w:lvlText w:val="%1."/></w:lvl></w:listDef>
    <w:list w:ilfo="1"><w:ilst w:val="0"/></w:list></w:lists>
    <w:styles><w:style w:type="paragraph" w:styleId="H1"><w:name w:val="heading 1"/></w:style></w:styles>
    <w:body><wx:sect><wx:sub-section><w:p><w:pPr><w:pStyle w:val="H1"/></w:pPr><w:r><w:t>Valves</w:t></w:r></w:p>
    <w:p><w:r><w:t>Close the </w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>main</w:t></w:r><w:r><w:t> valve</w:t></w:r>
    <w:r><w:footnote><w:p><w:r><w:t>Type V1 only.</w:t></w:r></w:p></w:footnote></w:r>
    <aml:annotation w:type="Word.Deletion"><aml:content><w:r><w:delText>never</w:delText></w:r></aml:content></aml:annotation>
    <aml:annotation w:type="Word.Insertion"><aml:content><w:r><w:t> first.</w:t></w:r></aml:content></aml:annotation></w:p>
    <w:p><w:pPr><w:listPr><w:ilvl w:val="0"/><w:ilfo w:val="1"/></w:listPr></w:pPr><w:r><w:t>Wait.</w:t></w:r></w:p>
    <w:tbl><w:tr><w:tc><w:p><w:r><w:t>Valve</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>Bar</w:t></w:r></w:p></w:tc></w:tr>
    <w:tr><w:tc><w:p><w:r><w:t>V1</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>16</w:t></w:r></w:p></w:tc></w:tr></w:tbl>
    <w:p><w:hlink w:dest="http://example.org/"><w:r><w:t>More</w:t></w:r></w:hlink><w:r><w:pict><w:binData w:name="a.png">{BINARY}
    </w:binData></w:pict></w:r></w:p></wx:sub-section><w:sectPr><w:hdr w:type="odd"><w:p><w:r><w:t>Plant Kiel</w:t></w:r></w:p></w:hdr>
    </w:sectPr></wx:sect></w:body></w:wordDocument>"""
)


@pytest.mark.parametrize("name", ["manual.xml", "manual.doc"])
def test_word_2003_xml_is_read_as_a_word_document(read, name):
    parsed = read(name, WORD_2003)
    assert (parsed.title, parsed.properties["author"]) == ("Pump manual", "Ann Doe")
    assert "# Valves\n\nClose the main valve" in parsed.text
    assert " first." in parsed.text
    assert "1. Wait.\n\n| Valve | Bar |\n| --- | --- |\n| V1 | 16 |\n\n[More](http://example.org/)" in parsed.text
    assert "Type V1 only." in parsed.text
    assert "Plant Kiel" in parsed.text
    assert "never" not in parsed.text
    assert "Not read: pictures (1)" in parsed.properties["notice"]
    assert BINARY[:60] not in parsed.text


def flat(data: bytes) -> bytes:
    """Return the Word document in one file, as "Word XML Document" of Word 2007 and later."""
    space = "http://schemas.microsoft.com/office/2006/xmlPackage"
    parts = []
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in archive.namelist():
            content = archive.read(name)
            if name.endswith((".xml", ".rels")) and not name.startswith("["):
                body = f"<pkg:xmlData>{content.decode().partition('?>')[2]}</pkg:xmlData>"
            else:
                body = f"<pkg:binaryData>{base64.encodebytes(content).decode()}</pkg:binaryData>"
            parts.append(f'<pkg:part pkg:name="/{name}">{body}</pkg:part>')
    return xml(
        f'<?mso-application progid="Word.Document"?><pkg:package xmlns:pkg="{space}">{"".join(parts)}</pkg:package>'
    )


def test_a_flat_package_is_read_as_the_document_that_it_holds(read):
    file, document = io.BytesIO(), Document()
    document.core_properties.title = "Pump manual"
    document.add_heading("Valves", 1)
    document.add_paragraph("Close the ").add_run("main").bold = True
    table = document.add_table(1, 2)
    table.rows[0].cells[0].text, table.rows[0].cells[1].text = "V1", "16"
    document.save(file)
    parsed, packed = read("manual.xml", flat(file.getvalue())), read("manual.docx", file.getvalue())
    assert (parsed.text, parsed.title) == (packed.text, packed.title)
    assert "Close the main" in parsed.text


ODF = "application/vnd.oasis.opendocument."
FLAT_ODF = {
    "fodt": ("text", "<office:text><text:h text:outline-level='2'>Valves</text:h><text:p>Close the <text:span>main</text:span>"
             f" valve.<draw:frame><draw:image><office:binary-data>{BINARY}</office:binary-data></draw:image></draw:frame></text:p>"
             "</office:text>", "## Valves\n\nClose the main valve."),
    "fods": ("spreadsheet", "<office:spreadsheet><table:table table:name='Bars'><table:table-row><table:table-cell><text:p>V1"
             "</text:p></table:table-cell><table:table-cell><text:p>16</text:p></table:table-cell></table:table-row></table:table>"
             "</office:spreadsheet>", "| V1 | 16 |"),
    "fodp": ("presentation", "<office:presentation><draw:page><draw:frame presentation:class='title'><draw:text-box><text:p>Valves"
             "</text:p></draw:text-box></draw:frame></draw:page></office:presentation>", "## Valves"),
    "fodg": ("graphics", "<office:drawing><draw:page><draw:custom-shape><text:p>Valve V1</text:p></draw:custom-shape></draw:page>"
             "</office:drawing>", "Valve V1"),
}  # fmt: skip


@pytest.mark.parametrize("ending", FLAT_ODF)
def test_a_flat_opendocument_file_is_read_by_its_own_reader(read, ending):
    kind, body, text = FLAT_ODF[ending]
    meta = '<office:meta xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Plant</dc:title></office:meta>'
    parsed = read(
        f"plant.{ending}",
        xml(
            f'<office:document{ODF_XMLNS} office:mimetype="{ODF}{kind}">{meta}<office:body>{body}</office:body></office:document>'
        ),
    )
    assert text in parsed.text
    assert parsed.title == "Plant"
    assert parsed.properties["mimeType"] == ODF + kind
    assert BINARY[:60] not in parsed.text
    assert ending != "fodt" or "pictures (1)" in parsed.properties["notice"]


def test_a_workbook_of_excel_2003_is_a_table(read):
    row = "<Row><Cell><Data ss:Type='String'>{}</Data></Cell><Cell><Data ss:Type='Number'>{}</Data></Cell></Row>"
    space = "urn:schemas-microsoft-com:office:spreadsheet"
    rows = row.format("Valve", "Bar") + row.format("V1", 16) + row.format("V2", 25)
    text = read("bars.xls", xml(
        f"<Workbook xmlns='{space}' xmlns:ss='{space}'><Worksheet ss:Name='Bars'><Table>{rows}</Table></Worksheet></Workbook>"
    )).text  # fmt: skip
    assert TABLE in text
    assert "Bars" in text


def test_cells_of_excel_2003_keep_their_columns(read):
    cell = "<Cell{}><Data>{}</Data></Cell>".format
    rows = [
        cell("", "Valve") + cell("", "Bar") + cell("", "Place"),
        cell("", "V1") + cell(" ss:Index='3'", "Bay 1"),
        cell(" ss:MergeAcross='1'", "V2") + cell("", "Bay 2"),
        cell(" ss:MergeDown='1'", "V3") + cell("", 16) + cell("", "Bay 3"),
        cell(" ss:Index='3'", "Bay 4"),
    ]
    space = "urn:schemas-microsoft-com:office:spreadsheet"
    table = "".join(f"<Row>{row}</Row>" for row in rows)
    text = read("bars.xml", xml(
        f"<Workbook xmlns='{space}' xmlns:ss='{space}'><Worksheet ss:Name='Bars'><Table>{table}</Table></Worksheet></Workbook>"
    )).text  # fmt: skip
    lines = ["| Valve | Bar | Place |", "| --- | --- | --- |", "| V1 |  | Bay 1 |", "| V2 |  | Bay 2 |"]
    assert "\n".join([*lines, "| V3 | 16 | Bay 3 |", "| V3 |  | Bay 4 |"]) in text


def test_text_after_a_list_within_an_item_is_kept(read):
    text = read("a.xml", xml("<a><ul><li>Close the valve<ul><li>by hand</li></ul>before noon.</li></ul></a>")).text
    assert "- Close the valve before noon.\n  - by hand\n" in text


def test_sections_of_tei_have_headings_and_forms(read):
    body = (
        "<p>Held in May.</p><div><head>1. Welcome</head><p>Area: 12 km<hi rendition='simple:superscript'>2</hi>, "
        "CO<hi rend='sub'>2</hi>: <hi rend='line-through'>30 t</hi> 28 t.</p></div>"
        "<div><head>2. Resolutions</head><list type='ordered:arabic'><item><p>The fence.</p></item></list></div>"
    )
    text = read("a.xml", xml(f"<TEI><text><body>{body}</body></text></TEI>")).text
    assert text == (
        "# TEI\n\nHeld in May.\n\n## 1. Welcome\n\nArea: 12 km^(2), CO_(2): ~~30 t~~ 28 t.\n\n"
        "## 2. Resolutions\n\n1. The fence.\n"
    )


def test_text_between_sections_keeps_their_headings(read):
    sections = "<section><title><p>Fees</p></title>What does it cost?<p>Nothing.</p></section> \u00a9 Town library"
    text = read(
        "a.fb2",
        xml(
            f"<FictionBook><body>Preface<section><title><p>Hours</p></title><p>Daily.</p></section>{sections}</body></FictionBook>"
        ),
    ).text
    assert text == (
        "# FictionBook\n\nPreface\n\n## Hours\n\nDaily.\n\n## Fees\n\nWhat does it cost?\n\nNothing.\n\n\u00a9 Town library\n"
    )


@pytest.mark.parametrize("name", ["strike", "strikethrough", "del"])
def test_struck_text_of_xml_is_marked(read, name):
    assert (
        "Due in ~~two~~ three weeks."
        in read("a.xml", xml(f"<a><p>Due in <{name}>two</{name}> three weeks.</p></a>")).text
    )


def test_references_without_text_and_entities_without_declaration_keep_their_name(read):
    text = read(
        "manual.xml",
        xml(
            '<book><title>Pumps</title><chapter id="v"><title>Valves</title><para>See <xref linkend="v"/> and'
            ' <xref linkend="w"/> of &app;, 5&nbsp;bar.</para><screen><![CDATA[a &app; b]]></screen></chapter></book>'
        ),
    ).text
    assert "See Valves and w of &app;, 5 bar." in text
    assert "a &app; b" in text


def test_a_book_is_read_without_data_about_its_file(read):
    text = read(
        "a.fb2",
        xml(
            '<FictionBook xmlns="http://www.gribuser.ru/xml/fictionbook/2.0"><description><title-info><genre>sf</genre>'
            "<book-title>Tides</book-title><lang>en</lang></title-info><document-info><program-used>x</program-used>"
            "</document-info></description><body><section><a>Home</a> <a>FAQ</a></section><section><p>\u2022 Rope</p>"
            "<p>\u2022 \u2022 Hemp</p></section></body></FictionBook>"
        ),
    ).text
    assert text == "# Tides\n\nHome\n\nFAQ\n\n- Rope\n\n  - Hemp\n"


SYNOPSES = """<refentry><refmeta><refentrytitle>tide</refentrytitle><manvolnum>1</manvolnum></refmeta>
<refnamediv><refname>tide</refname><refname>ebb</refname><refpurpose>print tides</refpurpose></refnamediv><refsynopsisdiv>
<cmdsynopsis><command>tide</command><arg>-v</arg><arg choice="req"><option>--file</option> <replaceable>FILE</replaceable></arg>
<arg choice="plain" rep="repeat">place</arg><group><arg>-a</arg><arg>-b</arg></group><sbr/><arg>more<arg>=x</arg></arg></cmdsynopsis>
<funcsynopsis><funcsynopsisinfo>#include &lt;tide.h&gt;</funcsynopsisinfo><funcprototype><funcdef>int <function>max</function></funcdef>
<paramdef>int <parameter>a</parameter></paramdef><varargs/></funcprototype><funcprototype><funcdef>int <function>now</function></funcdef>
<void/></funcprototype></funcsynopsis><classsynopsis><ooclass><modifier>public</modifier><classname>Tide</classname></ooclass>
<fieldsynopsis><type>int</type><varname>day</varname><initializer>1</initializer></fieldsynopsis><methodsynopsis><type>int</type>
<methodname>high</methodname><methodparam><type>int</type><parameter>day</parameter></methodparam></methodsynopsis></classsynopsis>
</refsynopsisdiv><refsect1><title>See also</title><para>See <citerefentry><refentrytitle>ls</refentrytitle><manvolnum>1</manvolnum>
</citerefentry>.</para></refsect1></refentry>"""


def test_synopses_of_commands_and_functions_are_written_as_people_read_them(read):
    parsed = read("tide.xml", xml(SYNOPSES))
    assert parsed.title == "tide(1)"
    assert parsed.text == (
        "# tide(1)\n\ntide, ebb \u2014 print tides\n\n"
        "```\ntide [-v] {--file FILE} place... [-a | -b]\n[more[=x]]\n```\n\n"
        "```\n#include <tide.h>\nint max(int a, ...);\nint now(void);\n```\n\n"
        "```\npublic Tide\nint day = 1;\nint high(int day);\n```\n\n## See also\n\nSee ls(1).\n"
    )


RATES = """<stock day="2026-05-12"><item sku="A1" qty="2"><title>Bolt</title><price currency="EUR">1.20</price></item>
<rate currency="USD" value="1.1"/></stock>"""
DITA = """<topic><title>Pump</title><body><simpletable><sthead><stentry>Part</stentry><stentry>Key</stentry></sthead>
<strow><stentry>Tap</stentry><stentry>7</stentry></strow></simpletable></body></topic>"""
LISTS = """<article><variablelist><varlistentry><term>-v</term><listitem><para>Be loud</para></listitem></varlistentry>
</variablelist><procedure><step><para>One</para><substeps><step><para>Sub</para></step></substeps></step></procedure>
<segmentedlist><segtitle>Name</segtitle><segtitle>Age</segtitle><seglistitem><seg>Ann</seg><seg>7</seg></seglistitem>
</segmentedlist></article>"""


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        (RATES, ["## Bolt\n\nitem: sku: A1; qty: 2\nprice: 1.20 (currency: EUR)", "rate: currency: USD; value: 1.1"]),
        (DITA, ["| Part | Key |\n| --- | --- |\n| Tap | 7 |"]),
        (LISTS, ["- -v: Be loud\n", "1. One\n  1. Sub\n", "| Name | Age |\n| --- | --- |\n| Ann | 7 |"]),
        ('<book><para role="note">Sea</para><title id="t">Wind</title></book>', ["Sea\n"]),
    ],
)
def test_values_in_attributes_and_tables_and_lists_of_manuals_are_read(read, source, lines):
    text = read("a.xml", xml(source)).text
    assert [part for part in lines if part not in text] == []
    assert "role" not in text
