"""The rules of the house: `plan` says them, `reading` parses, `rules` complains."""
