"""Rows of a DataFrame as messages: Spark's job ends when all are acknowledged.

It needs "tolliver-proto[spark,cli]", Java, and once `tolliver certs certs bob` and `tolliver certs certs job --derive`.
"""

from contextlib import suppress
from pathlib import Path

from pyspark.sql import SparkSession
from tolliver import Delivery
from tolliver.blocking import TLS, InstanceOptions, create_instance

CERTS = Path("certs").absolute()


def show(delivery: Delivery) -> None:
    print("bob handled", delivery.key, delivery.body.decode())


def main() -> None:
    spark = SparkSession.builder.getOrCreate()
    rows = spark.range(3).selectExpr("'readings' channel", "concat('cpu', id) key", "encode(id || ' %', 'utf-8') body")
    tls = TLS(CERTS / "bob.pem", CERTS / "bob.key", CERTS / "ca.pem")
    with create_instance(InstanceOptions(database="bob.db", tls=tls, listen="127.0.0.1:0")) as bob:
        bob.subscribe("readings", handler=show)
        sink = rows.write.format("tolliver").option("connect", f"127.0.0.1:{bob.port}")
        for option, file in {"tls.cert": "job.pem", "tls.key": "job.key", "tls.ca": "ca.pem"}.items():
            sink = sink.option(option, str(CERTS / file))
        sink.mode("append").save()
        print("Spark has the acknowledgement of every row")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
