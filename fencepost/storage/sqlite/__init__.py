"""A queue in one SQLite file, shared by all processes of one machine."""
