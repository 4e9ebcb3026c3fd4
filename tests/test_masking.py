"""Our own secrets in what another side sends back."""

import json

import pytest

from appliance.core.masking import Mask, MaskedStream

SECRET = "sk-a/b+c\\d-0123456789"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 22, 1000])
def test_it_is_found_however_the_stream_is_cut(size: int) -> None:
    forms = [SECRET, json.dumps(SECRET)[1:-1], json.dumps(SECRET)[1:-1].replace("/", "\\/")]
    data = "; ".join(["sk-a", *forms, "sk-a/b", *forms, SECRET[:-1]]).encode()
    stream = MaskedStream(Mask([SECRET]))
    got = b"".join(stream.feed(data[at : at + size]) for at in range(0, len(data), size)) + stream.end()
    assert got == b"; ".join([b"sk-a", *[b"***"] * 3, b"sk-a/b", *[b"***"] * 3, SECRET[:-1].encode()])


def test_nothing_is_held_back_but_the_beginning_of_a_secret() -> None:
    stream = MaskedStream(Mask([SECRET]))
    assert stream.feed(b"data: hello\n\n") == b"data: hello\n\n"
    assert stream.feed(b"data: sk") == b"data: "
    assert stream.feed(b"ip") == b"skip"
    assert stream.end() == b""


def test_one_that_is_learnt_later_is_found_too() -> None:
    mask = Mask([SECRET])
    mask.learn(["another-secret"])
    assert mask.text(f"{SECRET} and another-secret, and \udcff") == "*** and ***, and \udcff"


def test_a_word_that_is_no_secret_is_left_alone() -> None:
    assert Mask(["", "key", "Bearer"]).text("a key, Bearer") == "a key, Bearer"
