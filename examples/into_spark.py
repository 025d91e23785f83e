"""Messages as rows of a table: an instance records what it receives, Spark reads that.

It needs "tolliver-proto[spark,blocking,cli]", Java, and `tolliver certs certs alice bob` once. `spark.readStream` has
messages as they come, without an instance of yours: docs/spark-streams.md.
"""

from contextlib import suppress
from pathlib import Path

from pyspark.sql import SparkSession
from tolliver.blocking import TLS, InstanceOptions, create_instance

RECORDINGS = Path("recordings").absolute()


def options(name: str, listen: str | None = None, record: Path | None = None) -> InstanceOptions:
    tls = TLS(f"certs/{name}.pem", f"certs/{name}.key", "certs/ca.pem")
    return InstanceOptions(database=f"{name}.db", tls=tls, listen=listen, record=record)


def main() -> None:
    with create_instance(options("bob", "127.0.0.1:0", RECORDINGS)) as bob, create_instance(options("alice")) as alice:
        bob.subscribe("readings", handler=lambda delivery: print("bob handled", delivery.key))
        alice.new_connection(f"127.0.0.1:{bob.port}")
        receipt = alice.send_many([("readings", f"cpu{number}", f"{number} %".encode()) for number in range(3)])
        alice.wait_acked(receipt)
    spark = SparkSession.builder.getOrCreate()
    messages = spark.read.format("tolliver").load(str(RECORDINGS))
    for row in sorted(messages.select("key", "body").collect()):
        print("a row:", row["key"], bytes(row["body"]).decode())


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
