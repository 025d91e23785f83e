"""Parts of pages, files and pictures that are drawn from the code."""
