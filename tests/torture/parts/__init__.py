"""The parts, one a file. What a part has to be stands in `torture/__init__.py`."""
