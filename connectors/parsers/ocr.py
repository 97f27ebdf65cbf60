"""OCR of pages with no or unreliable text, in parallel, merged at their positions in the document."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec

from connectors.parsers import detect, ocr_engines, trust
from connectors.parsers.messages import Recognise, Reply, Task
from connectors.parsers.pool import ChildPool, is_always_needed
from retrieval.errors import Skippable
from retrieval.ports import ExternalParser, PageQuality
from retrieval.setting_values import WrongSetting


@dataclass(frozen=True, slots=True)
class TextRecognition:
    """OCR settings and the pool of its children."""

    pool: ChildPool
    # Path of tesseract, or "" for the packaged engine.
    program: str
    languages: tuple[str, ...]
    page_seconds: float
    max_pages: int

    def recognise_pages(
        self,
        task: Task,
        reply: Reply,
        external: ExternalParser | None = None,
        is_needed: Callable[[], bool] = is_always_needed,
    ) -> Reply:
        """Add text and quality of the pages that need OCR. `external`: recognises instead of the local engines.
        Interrupted once `is_needed` returns False.
        """
        if len(reply.ocr_pages) > self.max_pages:
            raise Skippable(
                f"The file has {len(reply.ocr_pages):,} pages to recognise; at most {self.max_pages:,} are. "
                "Split it into smaller files and upload those."
            )
        if external is None:
            self._refuse_scripts()
        with ThreadPoolExecutor(self.pool.size, thread_name_prefix="recognise") as threads:
            answers = list(
                threads.map(lambda page: self._recognise_page(task, reply, page, external, is_needed), reply.ocr_pages)
            )
        return merge_reply(reply, dict(zip(reply.ocr_pages, answers, strict=True)))

    def unsupported_languages(self) -> tuple[str, ...]:
        """Return the configured languages unknown to the packaged engine; none if tesseract is installed."""
        return (
            () if self.program else tuple(name for name in self.languages if name not in ocr_engines.PACKAGED_LANGUAGES)
        )

    def _refuse_scripts(self) -> None:
        """Raise Skippable if the engine reads none of the configured languages."""
        # Text in an unknown script would come out as look-alike letters.
        unread = self.unsupported_languages()
        if unread and len(unread) == len(self.languages):
            raise Skippable(
                f"The text recognition of this installation does not read: {', '.join(unread)}; it reads Latin, "
                "Chinese and Japanese script. Ask its operator to install tesseract with the data of that language."
            )

    def _recognise_page(
        self, task: Task, reply: Reply, page: int, external: ExternalParser | None, is_needed: Callable[[], bool]
    ) -> Reply:
        request = Recognise(page, reply.pdf, self.program, self.languages, draws=external is not None)
        answer = self.pool.run(
            msgspec.structs.replace(task, recognise=request, cpu_seconds=self.page_seconds), is_needed=is_needed
        )
        if answer.refusal:
            return Reply(qualities=(trust.unreadable_page(page, answer.refusal, recognised=True),))
        if external is None or not answer.picture:
            return answer
        try:
            text = detect.make_storable(
                external.read(answer.picture, f"{Path(task.name).stem}-{page}.png", "image/png")
            )
        except Skippable as error:
            return Reply(qualities=(trust.unreadable_page(page, str(error), recognised=True),))
        if not text.strip():
            return Reply(qualities=(trust.unreadable_page(page, trust.NOTHING_RECOGNISED, recognised=True),))
        quality = trust.judge_recognised(page, text)
        return Reply(text="" if quality.unread else text, qualities=(quality,))


def require_languages(languages: Sequence[str]) -> None:
    """Raise WrongSetting for languages missing from the installed tesseract."""
    program = shutil.which("tesseract")
    if program is None:
        return
    try:
        installed = ocr_engines.installed_languages(program) - {"", "osd"}
    except (Skippable, OSError):  # scans report it
        return
    if installed and (missing := [name for name in languages if name not in installed]):
        problem = f"tesseract has no data for {', '.join(missing)}; it has {', '.join(sorted(installed))}"
        raise WrongSetting([("RETRIEVAL_OCR_LANGUAGES", f"{problem}. Name those, or install the data.")])


def merge_reply(reply: Reply, recognised: Mapping[int, Reply]) -> Reply:
    """Insert recognised pages with their qualities into a reply."""
    texts = {page: answer.text for page, answer in recognised.items()}
    text, pages = merge_pages(reply.text, reply.pages, texts, reply.count)
    qualities = {quality.page: quality for quality in reply.qualities}
    for page, answer in recognised.items():
        qualities[page] = _combine_qualities(qualities.get(page), answer.qualities[0])
    return msgspec.structs.replace(reply, text=text, pages=pages, ocr_pages=(), qualities=tuple(qualities.values()))


def _combine_qualities(layer: PageQuality | None, picture: PageQuality) -> PageQuality:
    """Combine the qualities of a page's text layer and picture: the lower one if both are readable."""
    if layer is None or layer.unread:
        return picture
    return PageQuality(
        layer.page,
        min(layer.quality, picture.quality),
        (*layer.reasons, *picture.reasons),
        recognised=not picture.unread,
    )


def merge_pages(
    text: str, pages: tuple[int, ...], recognised: Mapping[int, str], count: int
) -> tuple[str, tuple[int, ...]]:
    """Return the text with the recognised pages inserted, and the new offset of every page."""
    if text.strip() and not pages:
        return "\n\n".join([text.rstrip(), *filter(None, recognised.values())]), ()
    starts = [*(pages or [0] * count), len(text)]
    page_texts: list[str] = []
    offsets: list[int] = []
    length = 0
    for page in range(1, len(starts)):
        page_text = text[starts[page - 1] : starts[page]]
        recognised_text = recognised.get(page, "")
        if recognised_text:
            page_text = (
                f"{page_text.rstrip()}\n\n{recognised_text}\n\n" if page_text.strip() else f"{recognised_text}\n\n"
            )
        offsets.append(length)
        page_texts.append(page_text)
        length += len(page_text)
    return "".join(page_texts), tuple(offsets)
