"""A seeded simulation: the real store, people and faults around it, in virtual time.

`world.py` is time, chance and what is told of a run. `messages.py` loses, doubles and delays.
`server.py` is the process with the store: it crashes, sleeps, meets errors from COMMIT;
`copies.py` copies its file, `chaos.py` picks what goes wrong next. `workers.py`, `office.py` and
`mischief.py` are those who send commands. `ghost.py` is what is true, kept from the answers alone;
`laws.py` judges every decision by it, `verbs.py` and `outside.py` say what each verb may do,
`audit.py` looks at the rows and the journal. `run.py` puts it together; `bugs.py` plants faults
that it must find.

One seed makes one run: `python3 -m helpers.sim SEED --minutes M` (from `tests/`) replays it.
"""
