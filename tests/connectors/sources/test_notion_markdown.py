"""From Notion's enhanced Markdown to plain Markdown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.sources.notion.content import tidy_markdown

WRITTEN = """# Why {color="blue"}
First paragraph with <span color="red">red **bold**</span> words.
Second paragraph.<br>Its second line.
- one {color="gray_bg"}
\t- inner
\t\tA child of the inner one.
- [ ] open
1. first
> quoted
<callout icon="\U0001f4a1" color="gray_bg">
\tMind the gap.
</callout>
<details>
<summary>More</summary>
\tHidden text.
</details>
<columns>
\t<column>
\t\tLeft.
\t</column>
\t<column>
\t\tRight.
\t</column>
</columns>
<table header-row="true">
\t<tr>
\t\t<td>Name</td>
\t\t<td>Size | weight</td>
\t</tr>
\t<tr color="red">
\t\t<td>**Box**</td>
\t</tr>
</table>
<page url="https://www.notion.so/abc" color="red">Next page</page>
See <mention-page url="https://www.notion.so/def">Travel</mention-page>, ask <mention-user url="user://1">Ada</mention-user>
before <mention-date start="2026-03-01" end="2026-03-05"/>.
It costs \\$5 in \\{braces\\}, \\<not a tag\\> and `<span>` in code.
<empty-block/>
<table_of_contents/>
<unknown url="https://www.notion.so/x#y" alt="bookmark"/>
```python
if a:
\treturn "<callout>{color=\\"x\\"}"
```
---
The end."""

PLAIN = """# Why

First paragraph with red **bold** words.

Second paragraph.

Its second line.

- one
    - inner

A child of the inner one.

- [ ] open
1. first

> quoted

Mind the gap.

More

Hidden text.

Left.

Right.

| Name | Size \\| weight |
| --- | --- |
| **Box** |  |

[Next page](https://www.notion.so/abc)

See [Travel](https://www.notion.so/def), ask Ada

before 2026-03-01 to 2026-03-05.

It costs $5 in {braces}, \\<not a tag\\> and `<span>` in code.

```python
if a:
\treturn "<callout>{color=\\"x\\"}"
```

---

The end."""


def test_a_page_with_everything():
    assert tidy_markdown(WRITTEN) == PLAIN


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("", ""),
        ("```\nnever closed <span>", "```\nnever closed <span>"),
        ("- item\n\t```js\n\tlet a\n\t\tb\n\t```", "- item\n\n```js\nlet a\n\tb\n```"),
        ('<mention-page url="https://www.notion.so/Plan-1"/>', "[Plan-1](https://www.notion.so/Plan-1)"),
        ('<pdf src="https://x.example/a%20b.pdf?exp=1&Signature=z"></pdf>', "[a b.pdf](https://x.example/a%20b.pdf)"),
        ("https://x.example/find?q=kept", "https://x.example/find?q=kept"),
        ("a < b and c > d", "a < b and c > d"),
        ("<table></table>", ""),
        ("<table>\n<tr>\n<td>a<br>b</td>\n</tr>\n</table>", "| a b |\n| --- |"),
        ("Write `<table>` before `</table>`.", "Write `<table>` before `</table>`."),
    ],
)
def test_small_ones(written, plain):
    assert tidy_markdown(written) == plain


@given(st.text('ab<>/="`\t\n\\{}-|#tdrspan ', max_size=200))
def test_any_text_has_a_plain_form(text):
    # No text makes the conversion fail, and letters outside of tags stay.
    plain = tidy_markdown(text)
    if "<" not in text and "{" not in text:
        assert [letter for letter in plain if letter.isalpha()] == [letter for letter in text if letter.isalpha()]
