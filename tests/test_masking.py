"""Our own secrets in what another side sends back."""

import json
import time

import pytest

from appliance.core.masking import MaskedStream, held_back
from appliance.core.redact import forms, masked

SECRET = "sk-a/b+c\\d-0123456789"
IN_JSON = json.dumps(SECRET)[1:-1]
SPELLED = [SECRET, IN_JSON, IN_JSON.replace("/", "\\/"), SECRET.encode().hex()]


def through(data: bytes, size: int, *secrets: str) -> bytes:
    spelled = [form for secret in secrets for form in forms(secret)]
    stream = MaskedStream(lambda: spelled)
    return b"".join(stream.feed(data[at : at + size]) for at in range(0, len(data), size)) + stream.end()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 22, 1000])
def test_it_is_found_however_the_stream_is_cut(size: int) -> None:
    data = "; ".join(["sk-a", *SPELLED, "sk-a/b", *SPELLED, "."]).encode()
    gone = ["[redacted]"] * len(SPELLED)
    assert through(data, size, SECRET) == "; ".join(["sk-a", *gone, "sk-a/b", *gone, "."]).encode()


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_what_only_begins_like_one_goes_on_for_codex_acts_on_it(size: int) -> None:
    begun = f"echo {SECRET[:-1]} >x"
    assert through(begun.encode(), size, SECRET) == begun.encode()


def test_a_stream_that_ends_in_the_middle_of_one_does_not_tell_it() -> None:
    assert through(f"it is {SECRET[:-1]}".encode(), 4, SECRET) == b"it is [redacted]"
    assert through(b"it is sk-a/", 4, SECRET) == b"it is sk-a/"


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_any_bytes_go_through_as_they_are(size: int) -> None:
    data = bytes(range(256)) + "naïve \N{SNOWMAN}".encode() + b"\xff\xed\xa0\x80"
    assert through(data, size, SECRET) == data


def test_nothing_is_held_back_but_the_beginning_of_a_secret() -> None:
    stream = MaskedStream(lambda: [SECRET])
    assert stream.feed(b"data: hello\n\n") == b"data: hello\n\n"
    assert stream.feed(b"data: sk") == b"data: "
    assert stream.feed(b"ip") == b"skip"
    assert stream.end() == b""


def test_the_longest_beginning_is_held_back() -> None:
    assert held_back("x abcab", ["abcabcde", "abXXXXXX"]) == 5
    assert held_back("abcabcde", ["abcabcde"]) == 0, "a whole one is no beginning"
    assert held_back("", ["abcabcde"]) == held_back("xyz", []) == 0


def test_one_that_is_learnt_later_is_found_too() -> None:
    known = [SECRET]
    stream = MaskedStream(lambda: known)
    assert stream.feed(b"another-secret, ") == b"another-secret, "
    known.append("another-secret")
    assert stream.feed(f"{SECRET} and another-secret.".encode()) == b"[redacted] and [redacted]."


def test_a_word_that_is_no_secret_is_left_alone() -> None:
    assert masked("a key, Bearer", [form for word in ("", "key", "Bearer") for form in forms(word)]) == "a key, Bearer"


def test_many_long_secrets_do_not_slow_a_stream_down() -> None:
    """A ChatGPT login has four tokens of two thousand characters, and some older ones are known too."""
    tokens = [f"{number}eyJhbGciOiJSUzI1NiIs{'aZ09-_' * 330}" for number in range(12)]
    known = tuple(form for token in tokens for form in forms(token))
    stream = MaskedStream(lambda: known)
    begun = time.process_time()
    for _ in range(100):
        stream.feed(b'data: {"type": "response.output_text.delta", "delta": "a word, and more of it"}\n\n')
    assert time.process_time() - begun < 1.0, "ten milliseconds for each chunk"
