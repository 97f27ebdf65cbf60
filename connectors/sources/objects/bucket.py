"""S3 and storages with S3's protocol: each request lists a thousand objects."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Final, cast

from connectors.sources.objects.location import Location
from connectors.sources.objects.storage import BATCH, Batch, StoredObject
from retrieval.errors import Fatal, Retryable, Skippable
from retrieval.network import fetch_guard
from retrieval.settings import Settings

# Google Cloud Storage takes requests of S3, signed with an HMAC key.
GOOGLE: Final = "https://storage.googleapis.com"
GONE = "The object is no longer in the bucket."
_FORBIDDEN = "The access key may not list and read this bucket."


class Bucket:
    """A `Storage` in a bucket."""

    def __init__(self, client: Any, location: Location) -> None:
        self._client = client
        self._bucket = location.host
        self._prefix = location.prefix

    def list_objects(self, after: str) -> Iterator[Batch]:
        last_key = after
        while True:
            answer = self._list(last_key, Prefix=self._prefix)
            objects = [_stored(entry) for entry in answer.get("Contents", ())]
            is_last = not answer.get("IsTruncated")
            keys = [stored.key for stored in objects]
            if keys != sorted(keys):
                raise Fatal("The storage does not list its keys in order, so that nothing of it can be read.")
            if not is_last and (not objects or objects[-1].key <= last_key):
                raise Retryable("The bucket's listing does not come to an end.")
            last_key = objects[-1].key if objects else last_key
            yield Batch([stored for stored in objects if not stored.key.endswith("/")], None if is_last else last_key)
            if is_last:
                return

    def list_folder(self, folder: str, after: str) -> Batch:
        answer = self._list(after, Prefix=folder or self._prefix, Delimiter="/")
        folders = [StoredObject(entry["Prefix"], 0, "") for entry in answer.get("CommonPrefixes", ())]
        objects = [_stored(entry) for entry in answer.get("Contents", ()) if not entry["Key"].endswith("/")]
        entries = sorted([*folders, *objects], key=lambda stored: stored.key)
        return Batch(entries, entries[-1].key if answer.get("IsTruncated") and entries else None)

    @contextmanager
    def open(self, key: str) -> Iterator[tuple[StoredObject, BinaryIO]]:
        with explained():
            answer = self._client.get_object(Bucket=self._bucket, Key=key)
        stored = StoredObject(key, int(answer["ContentLength"]), answer["ETag"].strip('"'), answer["LastModified"])
        with contextlib.closing(answer["Body"]) as body, explained():
            yield stored, cast("BinaryIO", body)

    def find(self, key: str) -> StoredObject | None:
        try:
            with explained():
                answer = self._client.head_object(Bucket=self._bucket, Key=key)
        except Skippable:
            return None
        return StoredObject(key, int(answer["ContentLength"]), answer["ETag"].strip('"'), answer["LastModified"])

    def _list(self, after: str, **request: str) -> dict[str, Any]:
        position = {"StartAfter": after} if after else {}
        with explained():
            answer = self._client.list_objects_v2(Bucket=self._bucket, MaxKeys=BATCH, **position, **request)
        if "IsTruncated" not in answer:
            raise Retryable("The storage's answer could not be read: it is no listing of a bucket.")
        return cast("dict[str, Any]", answer)


def make_bucket(location: Location, settings: Settings) -> Bucket:
    """Return the bucket of a location. Fatal for an unusable endpoint or region."""
    from connectors import s3_client

    is_google = location.scheme == "gs"
    region = location.region or ("auto" if is_google else "us-east-1")
    endpoint = location.endpoint or (GOOGLE if is_google else f"https://s3.{region}.amazonaws.com")
    endpoint = endpoint if "://" in endpoint else f"https://{endpoint}"
    configured = settings.endpoints.get("S3")
    # Only the operator's own endpoint may have an address that the guard forbids.
    trusted = configured is not None and (configured.base_url or "").rstrip("/") == endpoint
    try:
        fetch_guard.parse_host_port(endpoint)
        client = s3_client.make_client(
            {"region": region, "credentials": location.credentials},
            endpoint,
            addressing=settings.s3_addressing if location.endpoint or is_google else "virtual",
            guarded=fetch_guard.make_trusting_guard(settings) if trusted else fetch_guard.make_guard(settings),
            ca_bundle=str(configured.ca_bundle) if configured is not None and configured.ca_bundle else None,
        )
    except fetch_guard.BlockedAddress as error:
        raise Fatal(f"The endpoint of the storage cannot be used: {error}") from error
    except ValueError as error:
        raise Fatal("The endpoint or region of the storage cannot be read.") from error
    return Bucket(client, location)


@contextmanager
def explained() -> Iterator[None]:
    """Translate errors of the SDK to port errors."""
    from botocore.exceptions import BotoCoreError, ClientError
    from urllib3.exceptions import HTTPError

    from connectors import s3_errors

    try:
        yield
    except ClientError as error:
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        raised = s3_errors.of_answer(error, GONE)
        if (
            status == 403
            and isinstance(raised, Fatal)
            and error.response["Error"].get("Code") in {"AccessDenied", "403"}
        ):
            is_object = error.operation_name == "GetObject"
            raised = Skippable("The access key may not read this object.") if is_object else Fatal(_FORBIDDEN)
        raise raised from error
    except (BotoCoreError, HTTPError, OSError) as error:
        raise s3_errors.of_transport(error) from error
    except fetch_guard.BlockedAddress as error:
        raise Fatal(str(error)) from error


def _stored(entry: dict[str, Any]) -> StoredObject:
    return StoredObject(entry["Key"], int(entry["Size"]), str(entry["ETag"]).strip('"'), entry["LastModified"])
