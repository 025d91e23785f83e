"""A work queue on threads: two workers share the jobs of a producer.

It needs "tolliver-proto[blocking,cli]", and `tolliver certs certs alice bob` once.
"""

from collections import Counter
from contextlib import suppress
from threading import Thread, current_thread

from tolliver.blocking import TLS, InstanceOptions, create_instance
from tolliver.codecs import Json

JOBS = 10


def options(name: str, listen: str | None = None) -> InstanceOptions:
    tls = TLS(f"certs/{name}.pem", f"certs/{name}.key", "certs/ca.pem")
    return InstanceOptions(database=f"{name}.db", tls=tls, listen=listen)


def main() -> None:
    done: Counter[str] = Counter()
    with create_instance(options("alice", "127.0.0.1:0")) as alice, create_instance(options("bob")) as bob:
        queue = alice.channel("squares", codec=Json()).queue()
        receipt = queue.put_many([("", number) for number in range(JOBS)])  # on disk, until somebody has done them
        bob.new_connection(f"127.0.0.1:{alice.port}")
        with bob.channel("squares", codec=Json()).work(concurrency=2) as jobs:

            def work() -> None:
                for job in jobs:  # each job goes to one of the threads
                    done[current_thread().name] += 1
                    print(f"{current_thread().name} squares {job.value} to {job.value**2}\n", end="")
                    job.ack()

            workers = [Thread(target=work, name=name) for name in ("one", "two")]
            for worker in workers:
                worker.start()
            alice.wait_acked(receipt)
        for worker in workers:  # leaving the block has ended their loops
            worker.join()
    print("done:", done.total(), "jobs")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
