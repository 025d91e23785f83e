"""The commands of `tolliver`, one module each, and what they share."""
