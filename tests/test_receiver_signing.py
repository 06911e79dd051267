"""Standard Webhooks, ours against the vectors, the library and whoever would deceive us."""

from __future__ import annotations

import base64
import hmac
from datetime import UTC, datetime

import pytest
from helpers.receiving import KEY, OTHER_SECRET, SECRET
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from fencepost.receiver import signing
from fencepost.receiver.signing import BadSignature, secret_bytes

ID, STAMP, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
VECTOR = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
ED25519 = (
    "v1a,Ykcu7AtGZGmZxFEH1Gaa2Nd7feY/CTuruoL4fqgnKwfbHU4DhemoVHZdvGfIvKvn4BIgwktLGGPGIr/i9nK7AA=="
)
OTHER = secret_bytes(OTHER_SECRET)


def headers(**changes):
    made = {signing.ID: ID, signing.TIMESTAMP: str(STAMP), signing.SIGNATURE: VECTOR}
    return {**made, **{f"webhook-{name}": value for name, value in changes.items()}}


def good(given, body=BODY, now=STAMP, keys=(KEY,)):
    try:
        return signing.verify(keys, given, body, now)
    except BadSignature:
        return None


def test_the_vector_of_the_specification_is_made_and_taken():
    assert signing.sign([KEY], ID, STAMP, BODY) == headers()
    assert good(headers()) == signing.Signed(ID, STAMP)


def test_one_good_signature_among_others_is_enough():
    for listed in (
        f"v1,{'A' * 43}= {VECTOR}", f"{VECTOR} v1,bad", f"{ED25519} {VECTOR}", f"v2,x {VECTOR}",
        f"{VECTOR} {VECTOR}", f"nonsense {VECTOR}", f" {VECTOR}",
    ):  # fmt: skip
        assert good(headers(signature=listed)), listed


@pytest.mark.parametrize(
    "listed",
    [
        "", "v1", "v1,", "v1,*", VECTOR[3:], "v2" + VECTOR[2:], VECTOR.upper(), VECTOR + ",",
        VECTOR.replace("+", "-"), VECTOR[:-1], VECTOR + "=", f"{VECTOR},{VECTOR}", "v1,\u00e9",
        VECTOR.replace(" ", "\t") + "\t", ED25519,
    ],
)  # fmt: skip
def test_what_is_not_the_signature_to_the_letter_is_none(listed):
    assert good(headers(signature=listed)) is None


def test_a_secret_is_rotated_by_signing_with_both_for_a_while():
    both = signing.sign([OTHER, KEY], ID, STAMP, BODY)
    assert both[signing.SIGNATURE].split(" ")[1] == VECTOR
    assert good(both, keys=[KEY]) and good(both, keys=[OTHER])
    assert good(signing.sign([KEY], ID, STAMP, BODY), keys=[OTHER, KEY])
    assert good(signing.sign([KEY], ID, STAMP, BODY), keys=[OTHER]) is None


@pytest.mark.parametrize(("away", "taken"), [(0, 1), (300, 1), (-300, 1), (301, 0), (-301, 0)])
def test_a_signature_holds_for_five_minutes_before_and_after(away, taken):
    assert bool(good(headers(), now=STAMP + away)) == bool(taken)


@pytest.mark.parametrize(
    "changes",
    [
        {"id": ""}, {"id": "a.b"}, {"id": "a b"}, {"id": "x" * 256}, {"id": "\u00e9"},
        {"timestamp": ""}, {"timestamp": "0" + str(STAMP)}, {"timestamp": f"{STAMP}.0"},
        {"timestamp": "-1"}, {"timestamp": "\u0661"}, {"timestamp": "1" * 13},
        {"timestamp": f" {STAMP}"},
    ],
)  # fmt: skip
def test_headers_that_are_not_of_their_form_are_refused(changes):
    assert good(headers(**changes)) is None


@pytest.mark.parametrize("missing", [signing.ID, signing.TIMESTAMP, signing.SIGNATURE])
def test_no_header_may_be_missing(missing):
    given = headers()
    del given[missing]
    assert good(given) is None


def test_an_id_with_a_full_stop_cannot_be_signed():
    """`a.1` at 5 and `a` at 1 with the body `5.…` would have one signature."""
    for bad in ("a.1", "", "x" * 256, "a b", "\u00e9"):
        with pytest.raises(ValueError, match="id"):
            signing.sign([KEY], bad, STAMP, BODY)
    with pytest.raises(ValueError, match="secret"):
        signing.sign([], ID, STAMP, BODY)


def test_every_changed_byte_of_what_is_signed_is_seen():
    for place in range(len(BODY)):
        body = BODY[:place] + bytes([BODY[place] ^ 1]) + BODY[place + 1 :]
        assert good(headers(), body) is None
    for place in range(len(ID)):
        other = ID[:place] + chr(ord(ID[place]) ^ 1) + ID[place + 1 :]
        assert good(headers(id=other)) is None
    assert good(headers(timestamp=str(STAMP + 1))) is None
    assert good(headers(), BODY + b" ") is None and good(headers(), b"") is None


def test_each_key_is_compared_with_each_signature_and_in_constant_time(monkeypatch):
    """The first that is right does not end it: how long it takes tells nothing."""
    compared = []
    plain = hmac.compare_digest

    def compare(one, other):
        compared.append((one, other))
        return plain(one, other)

    monkeypatch.setattr(signing.hmac, "compare_digest", compare)
    signing.verify([KEY, OTHER], headers(signature=f"{VECTOR} v1,bad {ED25519}"), BODY, STAMP)
    assert len(compared) == 6


@pytest.mark.parametrize(
    "text",
    [
        "", "whsec_", "secret", SECRET[6:], "whsec_%%%", "whsec_" + "A" * 28, "whsec_" + "A" * 88,
        SECRET + "!", "whpk_" + SECRET[6:],
    ],
)  # fmt: skip
def test_what_is_no_secret_is_refused_without_a_word_of_it(text):
    with pytest.raises(ValueError, match="secret") as caught:
        secret_bytes(text)
    assert len(text) < 8 or text[6:] not in str(caught.value)


def test_new_secrets_are_secrets_and_never_the_same():
    made = {signing.new_secret() for _ in range(50)}
    assert len(made) == 50 and all(len(secret_bytes(secret)) == 32 for secret in made)


def test_an_exception_of_a_bad_signature_names_no_secret():
    with pytest.raises(BadSignature) as caught:
        signing.verify([KEY], headers(signature="v1,x"), BODY, STAMP)
    assert SECRET[6:16] not in str(caught.value) and VECTOR[3:] not in str(caught.value)


@given(
    st.binary(min_size=24, max_size=64),
    st.text(st.characters(codec="ascii", exclude_characters=".", min_codepoint=33), min_size=1,
            max_size=255).filter(lambda text: text.isprintable()),
    st.text(max_size=200),
)  # fmt: skip
def test_the_library_takes_what_we_sign_and_we_take_what_it_signs(key, message_id, text):
    now = int(datetime.now(tz=UTC).timestamp())
    body = text.encode("utf-8", "replace")
    library = Webhook("whsec_" + base64.b64encode(key).decode())
    library.verify(body, signing.sign([key], message_id, now, body), json_parse=False)
    theirs = library.sign(message_id, datetime.fromtimestamp(now, tz=UTC), body.decode())
    assert signing.sign([key], message_id, now, body)[signing.SIGNATURE] == theirs


def test_where_the_library_is_odd_we_are_not():
    """Noted so that a change of the library is seen: each of these is why the kit has its own."""
    now = int(datetime.now(tz=UTC).timestamp())
    library = Webhook(SECRET)
    signed = signing.sign([KEY], ID, now, BODY)
    torn = {**signed, signing.SIGNATURE: "nonsense " + signed[signing.SIGNATURE]}
    with pytest.raises(ValueError, match="unpack"):  # an item without a comma ends it
        library.verify(BODY, torn)
    assert good(torn, now=now)
    fraction = {**signed, signing.TIMESTAMP: f"{now}.9"}
    library.verify(BODY, fraction)  # it signs its own reading of the time, not the header's text
    assert good(fraction, now=now) is None
    with pytest.raises(UnicodeDecodeError):  # bytes that are no text
        library.verify(b"\xff", signing.sign([KEY], ID, now, b"\xff"))
    assert good(signing.sign([KEY], ID, now, b"\xff"), b"\xff", now)
    with pytest.raises(WebhookVerificationError):  # it knows one secret, and no rotation
        library.verify(BODY, signing.sign([OTHER], ID, now, BODY))
    Webhook("whsec_QQ==")  # and takes a secret of one byte


@given(
    st.dictionaries(
        st.sampled_from([signing.ID, signing.TIMESTAMP, signing.SIGNATURE]), st.text(max_size=80)
    ),
    st.binary(max_size=80),
)
def test_whatever_comes_is_refused_and_never_an_error(given, body):
    assert good(given, body) is None
