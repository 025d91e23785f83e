"""Commits: the batch that gathers, the running one, and searches.

While one commit runs, everything that changes gathers in one batch: group commit for free. A change that must be on
disk before it is true waits in the batch with what follows it (`then`) and with the way to take it back (`undo`). At
any time at most one commit runs, and a search is asked for when nothing waits to be stored: a result is then as the
node counts it. Rejected: a commit for each send, as a disk gives some thousand a second; and answers from memory alone.
"""
