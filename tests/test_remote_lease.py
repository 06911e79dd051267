"""How long a lease still holds, as far as its worker can be sure; and a clock that is wrong."""

from __future__ import annotations

import logging

import pytest
from helpers import stub
from helpers.remote import pair
from helpers.stand import QUEUE, WORKER, Stand

from fencepost.clock import SECOND
from fencepost.commands import Claim
from fencepost.issues import ClockSkew, InvalidRequest, LeaseExpired
from fencepost.remote.skew import Skew

# -- what is left


def slow(seconds_there=0.0, seconds_back=0.0, **headers):
    """The way there and back takes time."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}

    def fault(exchange):
        exchange.stub.clock.advance(seconds_there)
        exchange.stub.extra, before = {**exchange.stub.extra, **names}, exchange.stub.extra
        raw = exchange.answer()
        exchange.stub.extra = before
        exchange.stub.clock.advance(seconds_back)
        exchange.send(raw)
        return True

    return fault


def claim(both, **options):
    both.here.enqueue(QUEUE, 1)
    (lease,) = both.fp.claim(QUEUE, worker_id=WORKER, lease_seconds=60, **options)
    return lease


def sure(both, lease):
    """What is left by the store's own reckoning, and that the worker believes in no more."""
    truly = (both.here.task(lease.task_id).lease_expires_at - both.here.now()) / SECOND
    assert lease.remaining() <= max(0.0, truly)
    return lease.remaining()


def test_a_lease_counts_from_the_sending_of_its_claim():
    with pair() as both:
        both.stub.script.append(slow(7, 9))
        lease = claim(both)
        assert sure(both, lease) == 60 - 7 - 9
        both.clock.advance(44)
        assert lease.remaining() == 0.0
        both.clock.advance(7)
        with pytest.raises(LeaseExpired):
            lease.complete(1)


def test_a_lease_of_a_claim_that_was_lost_counts_from_the_first_try():
    with pair() as both:
        both.stub.script.extend([lambda x: (x.answer(), both.clock.advance(20), False)[-1]])
        lease = claim(both)
        assert both.slept == [0.1] and sure(both, lease) == 60 - 20.1


def test_the_wall_clock_has_no_say_in_what_is_left():
    with pair() as both:
        lease = claim(both)
        before = lease.remaining()
        for jump in (-3_600, 7_200):
            both.clock.jump_wall(jump)
            assert lease.remaining() == before


def test_sleep_of_the_machine_counts():
    with pair() as both:
        lease = claim(both)
        both.clock.advance(59)  # both clocks: the steady one runs on in suspend
        assert lease.remaining() == 1.0


def test_a_long_poll_that_says_how_long_it_waited_gives_the_whole_lease():
    with pair() as both:
        both.stub.script.append(slow(40, 1, Fencepost_Waited="40.000000"))
        assert sure(both, claim(both, wait_seconds=60)) == 59
        assert both.stub.seen[-1].query == {"wait_seconds": "60"}


@pytest.mark.parametrize("said", [None, "41.1", "-3", "soon"])
def test_a_long_poll_that_does_not_or_lies_counts_from_its_sending(said):
    with pair() as both:
        headers = {} if said is None else {"Fencepost_Waited": said}
        both.stub.script.append(slow(40, 1, **headers))
        assert sure(both, claim(both, wait_seconds=60)) == 60 - 41


def test_waiting_is_believed_of_a_long_poll_only():
    with pair() as both:
        both.stub.script.append(slow(15, 1, Fencepost_Waited="15"))
        assert sure(both, claim(both)) == 60 - 16


def test_a_renewed_lease_counts_from_the_sending_of_the_renew():
    with pair() as both:
        lease = claim(both)
        both.clock.advance(30)
        both.stub.script.append(slow(3, 4))
        lease.renew(60)
        assert sure(both, lease) == 60 - 4 - 3
        both.stub.script.append(slow(1, 1))
        lease.renew(1)  # a lease is never shortened
        assert sure(both, lease) > 50


def test_a_claim_that_is_replayed_for_another_process_counts_by_the_stores_time():
    with pair() as both:
        both.here.enqueue(QUEUE, 1)
        claim_ = {"worker_id": WORKER, "lease_seconds": 60, "idempotency_key": "k"}
        both.fp.claim(QUEUE, **claim_)
        both.clock.advance(45)  # the first process is gone
        both.stub.script.append(slow(2, 3))
        (lease,) = both.open().claim(QUEUE, **claim_)
        assert sure(both, lease) == 60 - 45 - 2 - 3 - 2, "when it was answered is not known closer"


def test_a_lease_that_was_claimed_elsewhere_is_known_after_its_first_renew():
    with pair() as both:
        known = claim(both)
        lease = both.fp.lease(known.task_id, worker_id=WORKER, fence=known.fence)
        assert lease.remaining() == 0.0
        both.clock.advance(10)
        both.stub.script.append(slow(1, 1))
        lease.renew(30)
        assert 0 < sure(both, lease) <= 48


def test_a_local_lease_says_what_is_left_too():
    with Stand() as stand:
        lease = stand.leased()
        stand.clock.advance(20)
        assert lease.remaining() == 40.0
        lease.renew(100)
        assert lease.remaining() == 100.0
        stand.clock.advance(101)
        assert lease.remaining() == 0.0


# -- the clock


def test_the_difference_is_what_is_certain_and_no_more():
    with pair() as both:
        assert both.fp.skew_seconds is None
        both.fp.scope()
        assert both.fp.skew_seconds == 0.0
        both.stub.offset = 5.0
        both.fp.scope()
        assert both.fp.skew_seconds == -5.0, "this machine is behind"
        both.stub.script.append(slow(3, 4))
        both.fp.scope()
        assert both.fp.skew_seconds == -1.0, "4 s of it may be the way back"
        both.stub.offset = -9.0
        both.stub.script.append(slow(3, 4))
        both.fp.scope()
        assert both.fp.skew_seconds == 6.0, "3 s of it may be the way there"


@pytest.mark.parametrize("offset", [31.0, -31.0, 86_400.0])
def test_a_worker_whose_clock_is_wrong_claims_nothing_and_says_why(offset):
    with pair(max_skew_seconds=30.0) as both:
        both.here.enqueue(QUEUE, 1)
        both.stub.offset = offset
        with pytest.raises(ClockSkew, match=r"(ahead of|behind) the service's.*NTP") as caught:
            both.fp.claim(QUEUE, worker_id="w")
        assert caught.value.code == "clock_skew"
        assert [seen.path for seen in both.stub.seen] == [["livez"]], "nothing was claimed"
        both.fp.enqueue(QUEUE, 2)  # all else goes on
        with pytest.raises(ClockSkew):
            both.fp.execute([Claim("w", (QUEUE,))])
        both.stub.offset = 0.0
        assert both.fp.claim(QUEUE, worker_id="w"), "set right, it claims again"


def test_the_clock_is_looked_at_once_and_then_by_every_answer():
    with pair(max_skew_seconds=30.0) as both:
        for _ in range(3):
            both.fp.claim(QUEUE, worker_id="w")
        assert [seen.path[-1] for seen in both.stub.seen] == ["livez", "claims", "claims", "claims"]


def test_with_none_a_wrong_clock_is_nobodys_business():
    with pair(max_skew_seconds=None) as both:
        both.here.enqueue(QUEUE, 1)
        both.stub.offset = 1e6
        assert both.fp.claim(QUEUE, worker_id="w") and abs(both.fp.skew_seconds) == 1e6


def test_a_service_without_the_time_lets_claim():
    with pair(max_skew_seconds=30.0) as both:
        both.stub.extra = {"Fencepost-Time": "noon"}
        assert both.fp.claim(QUEUE, worker_id="w") == [] and both.fp.skew_seconds is None


def test_where_the_look_at_the_clock_is_lost_the_claim_itself_is_tried():
    with pair(max_skew_seconds=30.0) as both:
        both.here.enqueue(QUEUE, 1)
        both.stub.script.append(stub.lost)
        assert both.fp.claim(QUEUE, worker_id="w")


def test_each_crossing_is_logged_once(caplog):
    with pair(max_skew_seconds=30.0) as both, caplog.at_level(logging.WARNING):
        for offset in (0, 31, 99, 31, 1, 0, -31, -40, 2):
            both.stub.offset = float(offset)
            both.fp.scope()
        told = [record for record in caplog.records if record.name == "fencepost.remote"]
        assert [record.code for record in told] == ["clock_skew"] * 4
        assert ["beyond" in record.getMessage() for record in told] == [True, False, True, False]


def test_exactly_the_allowed_difference_is_allowed():
    with pair(max_skew_seconds=30.0) as both:
        both.stub.offset = 30.0
        assert both.fp.claim(QUEUE, worker_id="w") == []
        both.stub.offset = 30.000001
        both.fp.scope()
        with pytest.raises(ClockSkew):
            both.fp.claim(QUEUE, worker_id="w")


def test_a_wall_clock_that_jumps_while_it_is_asked_accuses_nobody():
    with pair() as both:

        def jump(exchange):
            raw = exchange.answer()
            both.clock.jump_wall(-500)
            exchange.send(raw)
            return True

        both.stub.script.append(jump)
        both.fp.scope()
        assert both.fp.skew_seconds == 0.0


@pytest.mark.parametrize("wait", [-1, 61, 1.5, True, "3"])
def test_how_long_a_claim_may_wait_is_bounded_here_and_there(wait):
    with pair() as both:
        for fp in (both.here, both.fp):
            with pytest.raises(InvalidRequest, match="wait_seconds"):
                fp.claim(QUEUE, worker_id="w", wait_seconds=wait)


def test_before_the_first_answer_nothing_is_too_far():
    assert Skew(30.0).too_far is False and Skew(None).too_far is False
