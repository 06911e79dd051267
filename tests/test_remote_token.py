"""The token is shown to one service, in one header, and to nobody else."""

from __future__ import annotations

import logging
import pickle
import traceback

import pytest
from helpers import stub
from helpers.remote import TOKEN, pair
from helpers.stand import QUEUE

import fencepost
from fencepost.issues import FencepostError, InvalidRequest
from fencepost.remote.origin import Secret, is_loopback, origin_of

SECRET = TOKEN.removeprefix("fp_")


@pytest.mark.parametrize("url", [
    f"https://{TOKEN}@host", f"https://user:{TOKEN}@host", f"https://host?token={TOKEN}",
    f"https://host/#{TOKEN}", f"https://host/?{TOKEN}", f"http://x:{TOKEN}@127.0.0.1",
    f"https://host/{TOKEN}?", f"https://ho st/{TOKEN}", f"https://host\t/{TOKEN}",
    f"https://host:{TOKEN}/", f"https://[{TOKEN}/", f"https:///{TOKEN}",
])  # fmt: skip
def test_a_url_that_could_carry_a_token_is_refused_and_never_shown(url):
    with pytest.raises(InvalidRequest) as caught:
        fencepost.open(url)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(("url", "told"), [
    ("https://queue.example", "https://queue.example:443"),
    ("HTTPS://Queue.Example:8443/", "https://queue.example:8443"),
    ("http://127.0.0.1:8470/some/path/", "http://127.0.0.1:8470/some/path"),
    ("http://[::1]:9", "http://[::1]:9"),
])  # fmt: skip
def test_a_url_is_read_as_it_is_meant(url, told):
    assert str(origin_of(url)) == told


@pytest.mark.parametrize("url", [
    "https://host:0", "https://host:99999", "https://host/a/../b", "https://host/./x",
    "https://höst", "https://host/a b", "https://", "https://host/%2e%2e", "https://-@host",
])  # fmt: skip
def test_a_url_that_could_mean_two_things_is_refused(url):
    with pytest.raises(InvalidRequest):
        origin_of(url)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "localhost", "LOCALHOST", "::1"])
def test_to_this_machine_a_token_may_go_in_the_clear(host):
    assert is_loopback(host)


@pytest.mark.parametrize("url", [
    "http://queue.example", "http://10.0.0.1", "http://127.0.0.1.example", "http://0.0.0.0",
    "http://[fe80::1]", "http://localhost.example", "http://192.168.1.5:8470",
])  # fmt: skip
def test_to_another_machine_a_token_goes_by_https_only(url):
    with pytest.raises(InvalidRequest, match="https only"):
        fencepost.open(url, token=TOKEN)
    fencepost.open(url, token=TOKEN, allow_plaintext=True).close()
    fencepost.open(url).close()  # without a token there is nothing to hide
    fencepost.open(url.replace("http:", "https:"), token=TOKEN).close()


def test_a_name_that_says_localhost_and_leads_elsewhere_gets_no_token(monkeypatch):
    from fencepost.remote import transport

    with pair() as both:
        monkeypatch.setattr(transport, "is_loopback", lambda where: where != "127.0.0.1")
        with pytest.raises(InvalidRequest, match="leads to another machine"):
            both.fp.scope()
        assert both.stub.seen == []


@pytest.mark.parametrize("text", ["", "secret", "fp_", TOKEN[:-1], TOKEN + "x", TOKEN[:-1] + "!",
                                  f"{TOKEN}\r\nX: y", f" {TOKEN}", 7])  # fmt: skip
def test_what_is_no_token_is_refused_before_it_is_sent_and_not_shown(text):
    with pytest.raises(InvalidRequest) as caught:
        fencepost.open("https://host", token=text)
    assert SECRET[:20] not in str(caught.value)


def test_the_token_comes_from_the_argument_or_else_from_the_environment(monkeypatch):
    with pair() as both:
        monkeypatch.setenv("FENCEPOST_TOKEN", TOKEN)
        both.open(token=None).scope()
        monkeypatch.delenv("FENCEPOST_TOKEN")
        both.open(token=None).scope()
        sent = [seen.headers.get("authorization") for seen in both.stub.seen]
        assert sent == [f"Bearer {TOKEN}", None]


def test_proxies_of_the_environment_are_not_used(monkeypatch):
    with pair() as both, stub.serving() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        both.open().scope()
        assert proxy.seen == []


def test_nothing_that_can_be_printed_holds_the_token(caplog):
    caplog.set_level(logging.DEBUG)
    texts = []
    with pair(max_skew_seconds=1.0) as both:
        both.stub.offset = 99.0
        echo = f"the header was Bearer {TOKEN}".encode()
        faults = [stub.lost, stub.saying(302, Location=f"http://x/{TOKEN}"), stub.saying(500, echo),
                  stub.saying(403, echo), stub.cut(40), stub.spoilt]  # fmt: skip
        for fault in faults:
            both.stub.default = fault
            for call in (both.fp.scope, lambda: both.fp.enqueue(QUEUE, 1),
                         lambda: both.fp.claim(QUEUE, worker_id="w")):  # fmt: skip
                try:
                    call()
                except FencepostError as error:
                    texts += [repr(error), *traceback.format_exception(error), repr(vars(error))]
        for thing in (both.fp, both.fp._transport, both.fp._asking):
            texts += [repr(thing), str(thing), repr(vars(thing))]
        with pytest.raises(TypeError):
            pickle.dumps(Secret(TOKEN))
    texts += [repr(record.__dict__) for record in caplog.records]
    assert len(texts) > 50 and not [text for text in texts if SECRET in text]


@pytest.mark.parametrize("option", ["actor", "kind", "create", "allow_filesystem", "wait_seconds"])
def test_what_belongs_to_a_file_is_refused_with_a_url(option):
    with pytest.raises(InvalidRequest, match=option):
        fencepost.open("https://host", **{option: "x"})
