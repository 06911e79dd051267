"""What several test modules need; each module here has one clear subject."""
