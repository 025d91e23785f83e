"""Tables of outboxes and inboxes in the program's own database."""
