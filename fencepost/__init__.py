"""Fencepost: a work queue for workers that cannot be trusted to be alive, alone or online."""
