// Endpoint of the matrix (interop/README.md): the peer in JavaScript.
import crypto from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import readline from "node:readline";
import { Outbox } from "../js/outbox.js";
import { Peer } from "../js/peer.js";

const given = (name) => process.env[`INTEROP_${name}`];
const supported = given("WIRE") === "draft-2" && ["messages", "large", "kills"].includes(given("SCENARIO"));
if (!supported) process.exit(127);

const read = (file) => fs.readFileSync(path.join(given("CERTS"), file));
const secrets = { ca: read("ca.pem"), cert: read(`${given("NAME")}.pem`), key: read(`${given("NAME")}.key`) };
const say = (line) => fs.writeSync(1, `${line}\n`); // it is out before a message is acknowledged
const tell = (text) => process.stderr.write(`${text}\n`);
const outbox = await Outbox.open(path.join(given("STATE"), "outbox"));
const peer = new Peer(outbox, secrets, { dedupe: 0, retry: 10_000, tell });
const digest = (body) => crypto.createHash("sha256").update(body).digest("hex");
peer.subscribe([given("NAME"), ""], ({ key, body }) => void say(`handled ${key} ${digest(body)}`));

const [host, port] = given("ADDRESS").split(":");
if (given("ROLE") === "listen") await peer.listen({ host, port: Number(port) });
else peer.dial({ host, port: Number(port) });
say("ready");
readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const [, key, file] = /^send (\S+) (.+)$/.exec(line);
  say(`${peer.send(given("PEER"), key, fs.readFileSync(file)) ? "stored" : "nobody"} ${key}`);
}).on("close", () => peer.close().then(() => process.exit(0)));
