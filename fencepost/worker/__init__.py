"""Runs tasks: claims them, keeps their leases, settles them, and ends what they leave behind."""
