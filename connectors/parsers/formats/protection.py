"""Open password-protected files as temporary copies."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from connectors.parsers import detect, document
from connectors.parsers.detect import Kind
from retrieval.errors import Skippable


@contextmanager
def open_copy(path: Path, kind: Kind, password: str) -> Iterator[Path]:
    """Yield an unprotected temporary copy, or the file without protection. Skippable for a wrong password."""
    # The reader of an archive decrypts its members.
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "raw"
        if kind is detect.PDF:
            yield _open_pdf(path, copy, password)
        else:
            yield _open_office(path, copy, password) if kind is detect.COMPOUND else path


def _open_pdf(path: Path, copy: Path, password: str) -> Path:
    import pypdfium2
    import pypdfium2.raw as pdfium

    with suppress(pypdfium2.PdfiumError), pypdfium2.PdfDocument(path):
        return path
    try:
        with pypdfium2.PdfDocument(path, password=password) as file:
            file.save(copy, flags=pdfium.FPDF_REMOVE_SECURITY)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise detect.locked_file("The PDF", password) from error
        return path  # damaged: its reader says how
    return copy


def _open_office(path: Path, copy: Path, password: str) -> Path:
    from msoffcrypto import OfficeFile
    from msoffcrypto.exceptions import DecryptionError, FileFormatError, InvalidKeyError
    from msoffcrypto.format.ooxml import OOXMLFile

    try:
        with path.open("rb") as raw:
            file = OfficeFile(raw)
            if not file.is_encrypted():
                return path
            if isinstance(file, OOXMLFile):
                file.load_key(password=password, verify_password=True)
            else:
                file.load_key(password=password)
            with copy.open("wb") as opened:
                file.decrypt(opened)
    except InvalidKeyError as error:
        raise detect.locked_file("The file", password) from error
    except (FileFormatError, OSError):
        return path  # of another kind, or damaged: its reader says how
    except DecryptionError as error:
        raise Skippable(detect.NOT_OPENED) from error
    except Exception as error:
        raise document.damaged_file(detect.COMPOUND) from error
    return copy
