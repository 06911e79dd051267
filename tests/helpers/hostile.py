"""A command that does not want to die: `python -I -S hostile.py MODE SECONDS`.

MODE is made of words: `daemons` (three double-forked processes in sessions of their own), `hydra`
(a process that forks and ends every millisecond), `deaf` (nobody listens to SIGTERM), `leave`
(the command itself ends with 0), `stopped` (it stops itself), `polite` (it says `bye` at SIGTERM).
Each process says a word when it is there. All end by themselves after SECONDS, whatever happens.
"""

import os
import signal
import sys
import time

MODE = sys.argv[1].split("+")
END = time.monotonic() + float(sys.argv[2])


def say(word):
    os.write(1, word.encode() + b"\n")


def stay():
    while time.monotonic() < END:
        time.sleep(0.05)
    os._exit(0)


def daemon(run):
    there, is_there = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        say("daemon")
        os.write(is_there, b".")
        run()
    os.wait()
    os.read(there, 1)  # it has spoken: who leaves would have it killed before


def hydra():
    while time.monotonic() < END:
        if os.fork():
            os._exit(0)
        time.sleep(0.001)
    os._exit(0)


def bye(*_):
    say("bye")
    os._exit(0)


if "deaf" in MODE:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "polite" in MODE:
    signal.signal(signal.SIGTERM, bye)
if "daemons" in MODE:
    for _ in range(3):
        daemon(stay)
if "hydra" in MODE:
    daemon(hydra)
say("ready")
if "leave" in MODE:
    sys.exit(0)
if "stopped" in MODE:
    os.kill(os.getpid(), signal.SIGSTOP)
stay()
