"""Sealed values open only with their key, in their row and unchanged; keys are parsed, hashed and masked safely."""

import base64
import stat
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.security.secrets import KeyRing, SecretError, hash_api_key, is_mask, load_or_create_key_file, mask_secret
from retrieval.settings import PROJECT_ROOT

ROWS = st.text(min_size=1, max_size=60)
KEY_A, KEY_B = bytes(range(32)), bytes(range(32, 64))
RING = KeyRing({"a": KEY_A, "b": KEY_B})


def encoded(key: bytes) -> str:
    return base64.b64encode(key).decode()


@given(st.binary(max_size=2000), ROWS)
def test_what_is_sealed_opens_in_its_row(plain, row):
    assert RING.open(RING.seal(plain, row=row), row=row) == plain


@given(st.binary(min_size=8, max_size=200), ROWS, ROWS)
def test_it_opens_in_no_other_row(plain, row, other_row):
    sealed = RING.seal(plain, row=row)
    assert plain not in sealed
    if row != other_row:
        with pytest.raises(SecretError):
            RING.open(sealed, row=other_row)


@given(st.binary(max_size=100), st.data())
def test_a_changed_byte_is_noticed(plain, data):
    sealed = bytearray(RING.seal(plain, row="r"))
    sealed[data.draw(st.integers(0, len(sealed) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises((SecretError, UnicodeDecodeError)):
        RING.open(bytes(sealed), row="r")


def test_the_first_key_seals_and_older_ones_still_open():
    old = KeyRing({"a": KEY_A}).seal(b"value", row="r")
    rotated = KeyRing({"b": KEY_B, "a": KEY_A})
    assert rotated.active == "b"
    assert rotated.open(old, row="r") == b"value"
    with pytest.raises(SecretError, match="key id 'b'"):
        KeyRing({"a": KEY_A}).open(rotated.seal(b"value", row="r"), row="r")


def test_a_key_of_another_installation_with_the_same_id_does_not_open():
    with pytest.raises(SecretError, match="does not open"):
        KeyRing({"a": KEY_B}).open(KeyRing({"a": KEY_A}).seal(b"value", row="r"), row="r")


@pytest.mark.parametrize("text", ["", "1:", "1:not base64!", "1:" + encoded(b"short"), "a b:" + encoded(KEY_A)])
def test_what_is_no_key_is_refused_without_being_repeated(text):
    with pytest.raises(SecretError) as refused:
        KeyRing.parse(text)
    assert encoded(KEY_A) not in str(refused.value)
    assert "not base64!" not in str(refused.value)


def test_a_ring_does_not_show_its_keys():
    assert repr(KEY_A) not in repr(RING)
    assert encoded(KEY_A) not in repr(RING)


def test_the_key_file_is_made_once_and_private(tmp_path):
    file = tmp_path / "secret.key"
    code = "import sys, pathlib, retrieval.security.secrets as s; s.load_or_create_key_file(pathlib.Path(sys.argv[1]))"
    starting = [subprocess.Popen([sys.executable, "-c", code, str(file)], cwd=PROJECT_ROOT) for _ in range(4)]
    assert [process.wait(60) for process in starting] == [0, 0, 0, 0]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["secret.key"]
    sealed = load_or_create_key_file(file).seal(b"value", row="r")
    assert load_or_create_key_file(file).open(sealed, row="r") == b"value"


@given(st.text(max_size=200))
def test_a_key_is_hashed_whatever_its_characters(api_key):
    assert hash_api_key(api_key, pepper=KEY_A) == hash_api_key(api_key, pepper=KEY_A)
    assert hash_api_key(api_key, pepper=KEY_A) != hash_api_key(api_key, pepper=KEY_B)


@given(st.text(max_size=200))
def test_a_mask_shows_at_most_four_characters(secret):
    assert is_mask(mask_secret(secret))
    assert len(mask_secret(secret)) <= 8
    assert mask_secret(secret)[4:] in {"", secret[-4:]}
