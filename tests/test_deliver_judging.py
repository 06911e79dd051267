"""The verdict table of docs/deliveries.md: class and what a try came to, to what becomes of it."""

from __future__ import annotations

from typing import get_args

import pytest

from fencepost.deliveries.judging import judge
from fencepost.deliveries.places import Try, Word
from fencepost.outward import CLASSES

SAFE = ("fenced", "cas", "idempotent")
# word: (verdict, flow, what else), for every class
SAME = {
    "delivered": ("complete", "on", {}),
    "unsent": ("release", "hold", {}),
    "later": ("release", "hold", {"wait_seconds": 9.0}),
    "failed": ("retry", "on", {}),
    "gone": ("release", "hold", {"stop": "gone: told"}),
    "old_epoch": ("release", "hold", {"stop": "old_epoch: told"}),
    "fork": ("release", "hold", {"stop": "fork: told"}),
    "stale_result": ("give_up", "on", {}),
    "rejected": ("give_up", "on", {}),
    "effect_conflict": ("block", "on", {}),
    "forgotten": ("block", "on", {}),
    "hello_needed": ("release", "on", {"greet": True}),
    "gap": ("release", "on", {"greet": True}),
}
UNCERTAIN = ("unanswered", "taken")


def test_the_table_has_a_line_for_each_word():
    assert {*SAME, *UNCERTAIN} == set(get_args(Word))


@pytest.mark.parametrize("class_", CLASSES)
@pytest.mark.parametrize("word", SAME)
def test_a_word_is_judged_the_same_for_each_class(word, class_):
    what, flow, more = SAME[word]
    wait = 9.0 if word == "later" else None
    judged = judge(class_, Try(word, "told", {"e": 1}, wait))
    assert (judged.verdict.what, judged.flow) == (what, flow)
    rest = {"stop": None, "greet": False, "wait_seconds": None, **more}
    assert {name: getattr(judged, name) for name in rest} == rest
    if word == "delivered":
        assert judged.verdict.result == {"e": 1}


@pytest.mark.parametrize("class_", CLASSES)
@pytest.mark.parametrize("word", UNCERTAIN)
def test_what_is_uncertain_is_sent_again_only_where_a_second_sending_is_none(word, class_):
    judged = judge(class_, Try(word, "told"))
    assert judged.verdict.what == ("retry" if class_ in SAFE else "block")
    assert judged.verdict.reason == "effect_uncertain: told"
    assert judged.flow == "keep" and judged.stop is None


def test_what_is_forgotten_is_uncertain_and_not_sent_again():
    assert judge("fenced", Try("forgotten", "told")).verdict.reason == "effect_uncertain: told"
