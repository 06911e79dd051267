"""The HTTP service: the same verbs and rules across a network that loses answers.

It decides nothing about tasks. A request becomes the same command that Python sends, joins the
engine's group commit and is answered with the receipt's bytes; who may send it is judged inside
the transaction. `routes.py` has every path, `service.py` what all of them share.
"""
