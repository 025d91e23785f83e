"""Programs to read and to run, written with public names alone."""
