"""Files in a bucket of S3-compatible storage."""

from __future__ import annotations

import contextlib
import io
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from retrieval.documents.file_keys import check_key
from retrieval.errors import Fatal, Skippable, StepError
from retrieval.network import fetch_guard
from retrieval.settings import Settings

# Prefix of all keys; other objects of the bucket are never touched.
PREFIX = "retrieval/"
# Bytes of an upload's part; some stores require equal sizes.
PART = 8 * 1024 * 1024
# Parallel deletions.
THREADS = 8
_GONE = "The stored file is gone from the file storage; ingest the document again."


class S3Files:
    """`FileStore` in a bucket, below PREFIX."""

    def __init__(self, client: Any, bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def put(self, key: str, chunks: Iterable[bytes]) -> int:
        """Upload in one request, or in parts with an abort after a failure."""
        object_key = self._place(key)
        parts = _parts(chunks)
        first = next(parts, b"")
        second = next(parts, None)
        if second is not None:
            return self._put_parts(object_key, _again((first, second), parts))
        with _explained():
            self._client.put_object(**object_key, Body=first)
        return len(first)

    @contextmanager
    def open(self, key: str) -> Iterator[BinaryIO]:
        object_key = self._place(key)
        with _explained():
            body = self._client.get_object(**object_key)["Body"]
        with contextlib.closing(body):
            yield cast("BinaryIO", io.BufferedReader(_Stream(body), 1 << 18))

    def delete(self, keys: Sequence[str]) -> None:
        """Delete files by single requests."""
        # The request for several keys needs a checksum that some stores reject.
        places = [self._place(key) for key in keys]
        with ThreadPoolExecutor(THREADS, thread_name_prefix="s3") as pool:
            for _ in pool.map(self._delete, places):
                pass

    def keys(self, prefix: str) -> Iterator[str]:
        """Yield the keys with `prefix`, a thousand per request."""
        return (key for key, _ in self.sizes(prefix))

    def sizes(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Yield keys and sizes in bytes."""
        request: dict[str, Any] = {"Bucket": self._bucket, "Prefix": PREFIX + prefix}
        while True:
            with _explained():
                page = self._client.list_objects_v2(**request)
            yield from ((entry["Key"].removeprefix(PREFIX), entry["Size"]) for entry in page.get("Contents", ()))
            token = page.get("NextContinuationToken")
            if not page.get("IsTruncated") or not token or token == request.get("ContinuationToken"):
                return
            request["ContinuationToken"] = token

    def check(self) -> None:
        """Write, read and delete a small file to check the access key. Fatal unless the bytes come back."""
        key = f"check/{secrets.token_hex(8)}"
        try:
            self.put(key, [b"check"])
            with self.open(key) as file:
                same = file.read() == b"check"
            self.delete([key])
        except Skippable as error:
            raise Fatal("The storage does not give back a file that was just written to it.") from error
        if not same:
            raise Fatal("The storage gave back other bytes than were just written to it.", field="endpoint")

    def _delete(self, place: Mapping[str, str]) -> None:
        with contextlib.suppress(Skippable), _explained():
            self._client.delete_object(**place)

    def _put_parts(self, place: Mapping[str, str], parts: Iterable[bytes]) -> int:
        size, uploaded = 0, []
        with _explained():
            upload = {**place, "UploadId": self._client.create_multipart_upload(**place)["UploadId"]}
        try:
            for number, part in enumerate(parts, 1):
                with _explained():
                    answer = self._client.upload_part(**upload, PartNumber=number, Body=part)
                uploaded.append({"PartNumber": number, "ETag": answer["ETag"]})
                size += len(part)
            with _explained():
                self._client.complete_multipart_upload(**upload, MultipartUpload={"Parts": uploaded})
        except BaseException:
            with contextlib.suppress(StepError), _explained():
                self._client.abort_multipart_upload(**upload)
            raise
        return size

    def _place(self, key: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": PREFIX + check_key(key)}


class _Stream(io.RawIOBase):
    """Body of an answer; a broken connection is an error, never a shorter file."""

    def __init__(self, body: Any) -> None:
        self._body = body

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _explained():
            data: bytes = self._body.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def make(storage: Mapping[str, Any], settings: Settings) -> S3Files:
    """Build the store of a namespace; only the operator's endpoint bypasses the guard."""
    from botocore.exceptions import InvalidRegionError

    # `_explained` needs s3_errors in each request: it is loaded before the first one.
    from connectors import (
        s3_client,
        s3_errors,  # noqa: F401
    )

    endpoint = _url(storage["endpoint"])
    configured = settings.endpoints.get("S3")
    trusted = configured is not None and configured.base_url is not None and _url(configured.base_url) == endpoint
    try:
        client = s3_client.make_client(
            storage,
            endpoint,
            addressing=settings.s3_addressing,
            guarded=fetch_guard.make_trusting_guard(settings) if trusted else fetch_guard.make_guard(settings),
            ca_bundle=str(configured.ca_bundle) if configured is not None and configured.ca_bundle else None,
        )
    except InvalidRegionError as error:
        raise Fatal("This is not a name that a region can have.", field="region") from error
    except ValueError as error:
        raise Fatal("The endpoint of the storage cannot be read.", field="endpoint") from error
    return S3Files(client, storage["bucket"])


def _url(endpoint: str) -> str:
    """Complete an endpoint to https. Fatal for an ambiguous host."""
    url = (endpoint if "://" in endpoint else f"https://{endpoint}").rstrip("/")
    try:
        fetch_guard.parse_host_port(url)
    except fetch_guard.BlockedAddress as error:
        raise Fatal(f"The endpoint of the storage cannot be used: {error}", field="endpoint") from error
    return url


def _parts(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield pieces of PART bytes; the last may be shorter."""
    buffer = bytearray()
    for chunk in chunks:
        view = memoryview(chunk)
        while view:
            head = view[: PART - len(buffer)]
            buffer += head
            view = view[len(head) :]
            if len(buffer) == PART:
                yield bytes(buffer)
                buffer.clear()
    if buffer:
        yield bytes(buffer)


def _again(begun: Iterable[bytes], rest: Iterator[bytes]) -> Iterator[bytes]:
    yield from begun
    yield from rest


@contextmanager
def _explained() -> Iterator[None]:
    """Translate errors of the SDK."""
    from botocore.exceptions import BotoCoreError, ClientError

    from connectors import s3_errors

    try:
        yield
    except ClientError as error:
        raise s3_errors.of_answer(error, _GONE) from error
    except (BotoCoreError, OSError) as error:
        raise s3_errors.of_transport(error) from error
    except fetch_guard.BlockedAddress as error:
        raise Fatal(str(error), field="endpoint") from error
