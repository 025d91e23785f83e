"""What `tolliver_proto.testing` is made of. Chance comes in from outside here too: that module makes the generator."""
