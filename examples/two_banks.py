"""Two banks with a database each, killed again and again: no money is lost, and none is made.

`python two_banks.py` starts both, kills them ten times, and counts. To kill them yourself, run `python two_banks.py
north 7201 7202` and `python two_banks.py south 7202 7201` in two terminals, with the port of the bank and the port of
the other, and `python two_banks.py count` whenever you like.

It needs "tolliver-proto[blocking,cli]", and `tolliver certs certs alice bob` once.
"""

import random
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress

from tolliver import Delivery
from tolliver.blocking import TLS, InstanceOptions, create_instance
from tolliver.inbox import Inbox
from tolliver.outbox import Outbox

BANKS = {"north": ("alice", "south"), "south": ("bob", "north")}  # whose certificate, and the other bank
TRANSFERS = 200  # of each bank


class Bank:
    def __init__(self, name: str) -> None:
        self.name, (self.member, self.other) = name, BANKS[name]
        self.outbox, self.inbox = Outbox(self.connect), Inbox(self.connect)
        self.outbox.create()
        self.inbox.create()
        with closing(self.connect()) as database, database:
            database.execute("CREATE TABLE IF NOT EXISTS account (id INT PRIMARY KEY, money INT, sent INT, got INT)")
            database.execute("INSERT OR IGNORE INTO account VALUES (1, 1000000, 0, 0)")

    def connect(self) -> sqlite3.Connection:
        return sqlite3.connect(f"{self.name}.bank", timeout=30)

    def account(self) -> tuple[int, int, int]:
        with closing(self.connect()) as database:
            money, sent, got = database.execute("SELECT money, sent, got FROM account").fetchone()
        return money, sent, got

    def send(self, amount: int) -> None:
        with closing(self.connect()) as database, database:  # one transaction: the account, and the message
            database.execute("UPDATE account SET money = money - ?, sent = sent + 1", (amount,))
            self.outbox.put(database, f"transfers to {self.other}", "", str(amount).encode())

    def receive(self, delivery: Delivery) -> None:
        with closing(self.connect()) as database, database:  # one transaction: the account, and that it was done
            if self.inbox.once(database, delivery):
                database.execute("UPDATE account SET money = money + ?, got = got + 1", (int(delivery.body),))

    def run(self, port: str, other: str) -> None:
        tls = TLS(f"certs/{self.member}.pem", f"certs/{self.member}.key", "certs/ca.pem")
        options = InstanceOptions(
            database=f"{self.name}.db",
            tls=tls,
            listen=f"127.0.0.1:{port}",
            remotes=[f"127.0.0.1:{other}"],
            subscriptions=[f"transfers to {self.name}"],
            handlers=[(f"transfers to {self.name}", "", self.receive)],
        )
        with create_instance(options) as instance, instance.relay(self.outbox):
            while True:
                if self.account()[1] < TRANSFERS:
                    self.send(random.randint(1, 100))
                time.sleep(0.01)


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])


def start(name: str, ports: dict[str, str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, __file__, name, ports[name], ports[BANKS[name][1]]]
    with open(f"{name}.log", "ab") as log:
        return subprocess.Popen(command, stderr=log)


def main() -> None:
    banks, ports = [Bank(name) for name in BANKS], {name: free_port() for name in BANKS}
    running = {name: start(name, ports) for name in BANKS}
    try:
        for name in [*BANKS] * 5:
            time.sleep(random.random())
            running[name].kill()  # as `kill -9`: at any moment, and nothing is told
            running[name].wait()
            running[name] = start(name, ports)
        print("both banks were killed five times")
        while [bank.account()[1:] for bank in banks] != [(TRANSFERS, TRANSFERS)] * 2:
            if ended := [name for name in BANKS if running[name].poll() is not None]:
                sys.exit(f"{ended[0]} has ended: read {ended[0]}.log")
            time.sleep(0.1)
    finally:
        for process in running.values():
            process.kill()
            process.wait()
    print(f"{2 * TRANSFERS} transfers, each once: {sum(bank.account()[0] for bank in banks)} in both accounts")


if __name__ == "__main__":
    what, *rest = sys.argv[1:] or [""]
    with suppress(KeyboardInterrupt):
        if what == "count":
            print({name: Bank(name).account() for name in BANKS})
        elif what in BANKS:
            Bank(what).run(*rest)
        else:
            main()
