"""What may be said of a destination: its address, its options, its secrets; and what is never said
again."""

from __future__ import annotations

import pickle

import pytest
from helpers.contract import ADDRESSES
from helpers.wires import SECRET

from fencepost import commands as c
from fencepost import destinations
from fencepost.destinations import MAY_BE, OPTIONS, columns, of_columns
from fencepost.handle.masking import for_others, without_secrets
from fencepost.issues import InvalidRequest
from fencepost.outward import CLASSES, Destination, Secret

HIDDEN = "hidden"


def made(address="https://h.example/in", class_="fenced", **given):
    options = destinations.complete(given.pop("options", {}))
    return Destination("out", address, class_, options, **given)


def refused(check, value):
    with pytest.raises(InvalidRequest) as caught:
        check(value, "it")
    return str(caught.value)


@pytest.mark.parametrize("address", ADDRESSES)
def test_each_form_of_address_is_taken_as_it_is_and_has_classes(address):
    assert destinations.address(address, "it") == address
    assert MAY_BE[destinations.kind_of(address)] <= set(CLASSES)


@pytest.mark.parametrize("address", [
    f"https://u:{HIDDEN}@h/", f"https://{HIDDEN}.example:99999/", f"postgresql://u:{HIDDEN}@h/d",
    f'command:["{HIDDEN}", 1]', f"command:[{HIDDEN}]", f"sqlite:/{HIDDEN}", f"s3://{HIDDEN}_/",
    f"https://h/{HIDDEN}\n", f"https://h/{HIDDEN}#a", "https://h/" + HIDDEN * 400, f"{HIDDEN}://h",
    f'command:["", "{HIDDEN}"]', f'command:["a\\u0000{HIDDEN}"]', f"https://{HIDDEN}:0/", None, 5,
])  # fmt: skip
def test_what_is_no_address_is_refused_without_a_word_of_it(address):
    assert HIDDEN not in refused(destinations.address, address)


@pytest.mark.parametrize("secret", [
    "", HIDDEN, f"whsec_{HIDDEN}", SECRET + "=", SECRET[:-1], SECRET.lower() + "!", f" {SECRET}",
    SECRET + "\n", "whsec_" + "A" * 92, None, SECRET.encode(),
])  # fmt: skip
def test_what_is_no_secret_is_refused_without_a_word_of_it(secret):
    said = refused(destinations.secret, secret)
    assert said == "it: a secret is whsec_ and base64 of 24 to 64 bytes"


@pytest.mark.parametrize("size", [23, 24, 25, 26, 63, 64, 65])
def test_a_secret_has_24_to_64_bytes(size):
    import base64

    text = "whsec_" + base64.b64encode(bytes(range(size))).decode()
    assert (destinations.SECRET.fullmatch(text) is not None) == (24 <= size <= 64)


def test_a_new_secret_is_32_bytes_of_chance():
    assert destinations.new_secret(lambda size: b"\xff" * size) == "whsec_" + "/" * 42 + "8="
    one, other = destinations.new_secret(), destinations.new_secret()
    assert one != other and destinations.secret(one, "it") == one


@pytest.mark.parametrize(("name", "value"), [
    ("headers", {"authorization": f"{HIDDEN}\n"}), ("headers", {f"{HIDDEN} ": "x"}),
    ("headers", [HIDDEN]), ("headers", {"Webhook-Signature": HIDDEN}),
    ("headers", {"content-type": HIDDEN}), ("headers", {"host": HIDDEN}),
    ("reconcile", f"ftp://{HIDDEN}"), ("reconcile", [HIDDEN, 1]), ("endpoint", f"https://h/{HIDDEN}"),
    ("region", f"{HIDDEN}!"),
])  # fmt: skip
def test_an_option_that_is_wrong_is_named_and_its_value_is_not_told(name, value):
    said = refused(destinations.options, {name: value})
    assert said.startswith(f"it.{name}: ") and HIDDEN not in said


def test_an_unknown_option_is_refused_and_the_known_are_named():
    said = refused(destinations.options, {"retries": 3})
    assert '"retries"' in said and ", ".join(OPTIONS) in said


def test_null_is_the_default_of_every_option():
    nulls = dict.fromkeys(OPTIONS)
    assert destinations.options(nulls, "it") == nulls
    assert destinations.complete(nulls) == {name: o.default for name, o in OPTIONS.items()}
    for name, option in OPTIONS.items():
        if option.default is not None:
            assert destinations.options({name: option.default}, "it") == {name: option.default}


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_is_refused_where_it_means_nothing(name):
    other = {"ordered": True, "reconcile": ["a"], "allow_private": True, "headers": {"a": "b"},
             "endpoint": "https://h", "region": "eu-1"}.get(name, 7)  # fmt: skip
    addresses = {destinations.kind_of(a): a for a in [*ADDRESSES, "https://h", "http://h"]}
    for kind, classes in MAY_BE.items():
        for class_ in classes:
            told = destinations.contradiction(
                addresses[kind], class_, destinations.complete({name: other})
            )
            fits = kind in OPTIONS[name].kinds and class_ in OPTIONS[name].classes
            assert (told is None) == fits, (kind, class_, told)


@pytest.mark.parametrize("class_", CLASSES)
def test_a_place_has_a_class_that_it_can_keep(class_):
    for kind, classes in MAY_BE.items():
        told = destinations.contradiction(f"{kind}:x", class_, destinations.complete({}))
        assert (told is None) == (class_ in classes), (kind, told)


def test_a_row_is_read_back_as_what_was_written():
    whole = made(
        options={"ordered": True, "headers": {"x": "y"}, "reconcile": ["a", "b"]},
        secrets=(Secret(SECRET), Secret("whsec_" + "A" * 32, 5)), stopped="why", sequence=7,
        head="0a" * 32, heard=9, announced="01900000-0000-7000-8000-000000000000",
    )  # fmt: skip
    for one in (whole, made()):
        assert of_columns("out", columns(one)) == one
        assert columns(of_columns("out", columns(one))) == columns(one)
    assert columns(made())[2:4] == ("{}", "[]")


def test_what_is_printed_of_a_destination_or_a_command_holds_no_secret():
    one = made(
        f"https://h.example/{HIDDEN}?k={HIDDEN}", options={"headers": {"a": HIDDEN}},
        secrets=(Secret(SECRET),),
    )  # fmt: skip
    assert repr(one) == "Destination('out', fenced https)"
    assert repr(made(stopped=HIDDEN)) == "Destination('out', fenced https, stopped)"
    given = c.DestinationSet("out", one.address, "fenced", {"headers": {"a": HIDDEN}})
    for command in (given, c.DestinationSecret("out", SECRET)):
        for said in (repr(command), str(command), repr([command])):
            assert HIDDEN not in said and SECRET not in said and "out" in said


def test_a_screen_shows_the_path_and_others_the_place_alone():
    web = made(
        f"https://h.example:1/in?k={HIDDEN}", secrets=(Secret(SECRET, 5),),
        options={"headers": {"a": HIDDEN}, "reconcile": f"https://r.example/q?k={HIDDEN}"},
    )  # fmt: skip
    shown, told = without_secrets(web), for_others(web)
    assert (shown.address, told.address) == (
        "https://h.example:1/in?***",
        "https://h.example:1/***",
    )
    assert shown.options["reconcile"] == "https://r.example/q?***"
    assert told.options["reconcile"] == "https://r.example/***"
    for one in (shown, told):
        assert one.options["headers"] == {"a": "***"} and one.secrets == (Secret("***", 5),)
    command = made(f'command:["post","{HIDDEN}"]', options={"reconcile": ["ask", HIDDEN]})
    assert without_secrets(command) == command
    assert for_others(command).address == "command:***"
    assert for_others(command).options["reconcile"] == ["***"]
    table = made(f"postgresql://u:{HIDDEN}@h/d?sslpassword={HIDDEN}#t")
    for show in (without_secrets, for_others):
        assert show(table).address == "postgresql://u@h/d#t"
        assert show(made("https://h.example")).address == "https://h.example"
        assert show(made("https://h.example/")).address == "https://h.example" + (
            "/" if show is without_secrets else ""
        )


def test_a_destination_is_carried_to_another_process_whole():
    one = made(secrets=(Secret(SECRET),), sequence=3)
    assert pickle.loads(pickle.dumps(one)) == one  # noqa: S301  our own bytes


def test_a_change_of_nothing_is_refused():
    with pytest.raises(InvalidRequest, match="give address, class, options or stopped"):
        c.DestinationSet("out")
    assert c.DestinationSet("out", stopped=None).members["stopped"] == b"null"
