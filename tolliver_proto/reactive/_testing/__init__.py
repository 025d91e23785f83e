"""The simulator of the Reactive Streams protocol, in pieces; `tolliver_proto.reactive.testing` is its public face."""
