// Endpoint of the matrix (interop/README.md): a whole `Node` in WebAssembly, over a TLS socket of Node.js.
import fs from "node:fs";
import path from "node:path";
import readline from "node:readline";
import { load } from "./python.mjs";
import { Sockets } from "./sockets.mjs";

const given = Object.fromEntries(Object.entries(process.env).filter(([name]) => name.startsWith("INTEROP_")));
const { INTEROP_CERTS: certs, INTEROP_NAME: name, INTEROP_ADDRESS: address, INTEROP_ROLE: role } = given;
if (!["messages", "unreliable", "large", "kills"].includes(given.INTEROP_SCENARIO)) process.exit(127);

const read = (file) => fs.readFileSync(path.join(certs, file));
const secrets = given.INTEROP_WIRE === "rust-2026" ? null
  : { ca: read("ca.pem"), cert: read(`${name}.pem`), key: read(`${name}.key`) };
const say = (line) => fs.writeSync(1, `${line}\n`); // it is out before a message is acknowledged
const sockets = new Sockets(secrets);
const python = await load();
const endpoint = python.pyimport("interop.pyodide.endpoint").Endpoint(sockets, say, python.toPy(given));
sockets.machine = endpoint.peer;
const [host, port] = address.split(":");
if (role === "listen") await sockets.listen(host, Number(port));
else endpoint.peer.connect(host, Number(port));
say("ready");
readline.createInterface({ input: process.stdin }).on("line", (line) => endpoint.take(line))
  .on("close", () => {
    endpoint.end();
    setInterval(() => endpoint.peer.node.idle && process.exit(0), 10);
  });
