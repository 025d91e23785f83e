"""Demo: real readings over TLS, kills, and proof of no loss.

`make demo` plays it (`python -m examples.demo`). One process publishes, two subscribe, a Spark query writes a table;
some of them are killed, and in the end their logs, the table and the recordings are compared.
It needs pyspark and psutil and kills processes that it started, so it is no part of the wheel.
"""
