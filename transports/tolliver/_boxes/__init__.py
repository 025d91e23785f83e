"""Tables in the program's own database: messages that were handled, and messages that are to be sent."""
