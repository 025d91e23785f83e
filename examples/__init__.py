"""Programs to read and to run: each shows what a user of tolliver writes, with public names alone."""
