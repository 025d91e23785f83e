"""The parts of `make demo`: what is read, who publishes, who subscribes, and how it is judged."""
