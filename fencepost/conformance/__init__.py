"""The conformance kit: what Fencepost promises, as cases that any queue can be put through.

It stands alone: copy this folder anywhere and run `python3 fault_injection_tests.py TARGET`.
Nothing in it imports the product but the product's own adapter, and that only when it is asked
for. A pass grants nobody authority: it says what one target answered to these cases, once.
"""
