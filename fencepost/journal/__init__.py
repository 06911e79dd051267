"""The journal: what happened, in an order and a form that a stranger can check.

Every accepted command leaves one entry, and sealed entries are the leaves of an RFC 6962 tree. A
checkpoint states the root of that tree at one size. Everything here is pure: it reads from what it
is handed and writes nothing.
"""
