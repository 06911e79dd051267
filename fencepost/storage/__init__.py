"""Rows and transactions; knows no rule.

`loading.py`, `saving.py` and `reading.py` say in which order named statements run, as
generators that yield (name, parameters) and are sent rows: the same steps drive every
database. The statements themselves are `.sql` files beside each driver, read by `sqltext.py`.
`port.py` is the contract that a back end keeps.
"""
