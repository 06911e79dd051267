"""Several deliveries in one thread: none waits for another's answer, each has its own end."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from types import SimpleNamespace

from helpers.delivering import depot
from helpers.receivers import Kit, Reply, Web, http
from helpers.sinks import event

from fencepost.deliveries.delivering import Sending
from fencepost.deliveries.http import HttpSender
from fencepost.deliveries.places import Place, Try
from fencepost.deliveries.together import MOST, Together
from fencepost.destinations import complete
from fencepost.worker.verdicts import Verdict

SECONDS = 30.0


class Bench:
    """A sender with open connections, and what becomes of what is launched on them."""

    def __init__(self, web, number, seconds):
        options = complete({"allow_private": True, "concurrency": 32})
        self.sender = HttpSender(Place(web.url, "idempotent", options, ()), lambda: 0.0)
        self.seconds = seconds
        self.waits = set()
        self.ended, self.order = {}, []
        self.together = Together(lambda held: None, self, self.sender, self._performed)
        self._more = threading.Condition()
        self._warm(web, number)

    def _warm(self, web, number):
        met, answer = threading.Barrier(number), web.answer
        web.answer = lambda asked: met.wait(SECONDS) is None or http(200)
        threads = [
            threading.Thread(target=self.sender.send, args=(event(), SECONDS))
            for _ in range(number)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        web.answer = answer
        web.asked.clear()
        assert self.sender.ready == number

    # -- as `Delivering` has it

    def at_once(self, held):
        return held.name not in self.waits

    def steps(self, held):
        made = event(result=held.name)
        tried = yield Sending(made, self.seconds.get(held.name, SECONDS))
        if tried.word == "hello_needed":
            tried = yield Sending(made, SECONDS)
        held.thread = threading.current_thread()
        return Verdict("complete", (tried.word, tried.told))

    def _performed(self, held, verdict):
        with self._more:
            self.order.append(held.name)
            self.ended[held.name] = verdict.result
            self._more.notify_all()

    def until(self, *names):
        """Wait until these have ended."""
        with self._more:
            assert self._more.wait_for(lambda: self.ended.keys() >= {*names}, SECONDS)

    def launch(self, *names):
        """All of these, in this thread and at once. They have ended, or are done apart."""
        helds = [SimpleNamespace(name=name) for name in names]
        self.together._launch(helds)
        self.until(*names)
        return helds


@contextmanager
def bench(answer, number=4, seconds=None):
    with Web(answer) as web:
        made = Bench(web, number, seconds or {})
        web.made = made
        try:
            yield made, web
        finally:
            made.sender.close()


def of(asked):
    """The name of what was asked."""
    return next(name for name in ("slow", "a", "b", "c") if f'"{name}"'.encode() in asked.body)


def test_none_waits_for_the_answer_to_another():
    def answer(asked):
        if of(asked) == "slow":
            made.until("a", "b", "c")
        return http(200)

    with bench(answer) as (made, _):
        made.launch("slow", "a", "b", "c")
        assert made.order[-1] == "slow"
        assert {word for word, _ in made.ended.values()} == {"delivered"}
        assert made.sender.ready == 4  # and each connection is kept for the next


def test_one_whose_time_is_over_is_given_up_and_the_others_are_not():
    def answer(asked):
        if of(asked) == "slow":
            over.wait(SECONDS)
            return None
        if of(asked) == "a":
            made.until("slow")
        return http(200)

    over = threading.Event()
    with bench(answer, seconds={"slow": 0.2}) as (made, _):
        made.launch("slow", "a", "b")
        over.set()
        assert made.ended["slow"] == ("unanswered", "the answer did not come: timed out")
        assert made.ended["a"][0] == made.ended["b"][0] == "delivered"


def test_an_answer_that_comes_in_parts_is_put_together():
    pieces = {"a": 40, "b": 3, "c": 1_000}

    def answer(asked):
        return Reply(http(200, b"x" * 40), piece=pieces[of(asked)], pause=0.05)

    with bench(answer) as (made, _):
        made.launch("a", "b", "c")
        assert {word for word, _ in made.ended.values()} == {"delivered"}


def test_an_answer_that_is_cut_is_uncertain_and_is_that_of_no_other():
    def answer(asked):
        whole = http(200, b"x" * 40)
        return Reply(whole[:-1], close=True) if of(asked) == "a" else whole

    with bench(answer) as (made, _):
        made.launch("a", "b")
        assert made.ended == {
            "a": ("unanswered", "the answer did not come: it was cut off"),
            "b": ("delivered", ""),
        }


def test_what_found_its_connection_dead_is_sent_again_with_the_same_bytes():
    asked_of = []

    def answer(asked):
        asked_of.append(of(asked))
        return None if asked_of.count(of(asked)) == 1 else http(200)

    with bench(answer, number=2) as (made, web):
        made.launch("a", "b")
        assert {word for word, _ in made.ended.values()} == {"delivered"}
        assert sorted(asked_of) == ["a", "a", "b", "b"] and len({e.body for e in web.asked}) == 2


def test_where_no_connection_is_open_each_gets_one_of_its_own():
    with bench(lambda asked: http(200), number=1) as (made, web):
        made.launch("a", "b", "c")
        assert {word for word, _ in made.ended.values()} == {"delivered"} and len(web.asked) == 3


def test_what_the_receiver_asks_for_is_done_in_a_thread_of_its_own(monkeypatch):
    with bench(lambda asked: http(200)) as (made, web):
        heard = made.sender.heard

        def asking(sent, flight, *, wait):
            said = Try("hello_needed" if b'"a"' in sent.body else "failed")
            return heard(sent, flight, wait=wait) and said

        monkeypatch.setattr(made.sender, "heard", asking)
        first, second = made.launch("a", "b")
        assert made.ended == {"a": ("delivered", ""), "b": ("failed", "")}
        assert second.thread is threading.current_thread() and first.thread is not second.thread
        assert len(web.asked) == 3


def test_a_sender_that_fails_ends_its_own_delivery_alone(monkeypatch):
    with bench(lambda asked: http(200)) as (made, _):
        heard = made.sender.heard

        def failing(sent, flight, *, wait):
            if b'"a"' in sent.body:
                raise ZeroDivisionError("of a")
            return heard(sent, flight, wait=wait)

        monkeypatch.setattr(made.sender, "heard", failing)
        verdicts = []
        made.together._performed = lambda held, verdict: verdicts.append((held.name, verdict.what))
        made.together._launch([SimpleNamespace(name=name) for name in ("a", "b")])
        assert sorted(verdicts) == [("a", "retry"), ("b", "complete")]


def test_no_more_are_taken_than_can_be_launched_and_none_that_has_to_wait():
    with bench(lambda asked: http(200), number=3) as (made, _):
        names = [f"n{n}" for n in range(MOST)]
        first, *rest = [SimpleNamespace(name=name) for name in names]
        made.together.give = lambda held: given.append(held.name)
        for given, waits, taken, back in (
            ([], (), ["n0", "n1", "n2"], []),
            ([], ("n0",), ["n0"], []),
            ([], ("n2",), ["n0", "n1"], ["n2"]),
        ):  # fmt: skip
            made.waits = {*waits}
            made.together._jobs = type(made.together._jobs)()
            for each in rest:
                made.together._jobs.put(each)
            assert [held.name for held in made.together._group(first)] == taken
            assert given == back


def test_of_many_at_once_each_has_its_effect_once(tmp_path, monkeypatch):
    launched = []
    launch = HttpSender.launch
    monkeypatch.setattr(
        HttpSender, "launch", lambda self, *given: launched.append(1) or launch(self, *given)
    )
    kit = Kit(tmp_path / "receiver.db")
    with depot(tmp_path) as place, Web(kit.answer) as web:
        place.destination(web.url, concurrency=24)
        place.many(400)
        made = place.deliver()
        assert made.counts == {"complete": 400}
        assert len({name for name, _ in kit.effects()}) == len(kit.effects()) == 400
        assert len(launched) > 40 and web.connections <= 24 + len(launched)
    kit.close()
