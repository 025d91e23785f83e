"""Commits: the batch that collects changes, the running one, and searches.

State: the batch that gathers (`Commits.batch`), the one that the store has (`Commits.running`), and two queues of
searches. While one commit runs, all changes gather in the next batch: group commit for free. The batch has, for each
change, the operation, the calls that follow the commit (`then`), and the way to take a failed change back (`undo`).

Invariants: at most one commit runs. A search begins when nothing waits to be stored, so its result agrees with the
node's counts. Rejected: a commit for each send, as a disk gives some thousand a second; and answers from memory alone.
"""
