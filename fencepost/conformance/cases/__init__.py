"""The cases, a file a group. Each is a function of one `Store`, named and worded as its law."""
