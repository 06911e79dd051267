"""The kit for whoever receives deliveries. It imports nothing of Fencepost's: copy the folder."""
