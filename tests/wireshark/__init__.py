"""Wireshark's dissector, run by tshark; without it these tests are skipped by name."""
