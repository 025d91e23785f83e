// A peer: who we are, whom we know, what is for whom, and the connections, one live one for each other peer.
import crypto from "node:crypto";
import { once } from "node:events";
import net from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import tls from "node:tls";
import { encode, matches } from "./codec.js";
import { Connection, isRefusal } from "./connection.js";
import { tag } from "./outbox.js";

const PATIENCE = 10_000; // milliseconds for a dial, and within which two dials cross
export const TLS = { minVersion: "TLSv1.3", ALPNProtocols: ["tolliver/1"], requestCert: true, handshakeTimeout: PATIENCE };
TLS.secureOptions = crypto.constants.SSL_OP_NO_TICKET; // no resumption: each connection shows its certificate (D-1)
const some = (list, message) => list.some((names) => matches(names, message));
const sha256 = (...parts) => parts.reduce((hash, part) => hash.update(part), crypto.createHash("sha256")).digest("hex");

const digits = () => Date.now().toString(16).padStart(12, "0") + crypto.randomBytes(10).toString("hex");
const uuid7 = () => digits().replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12})$/, "$1-$2-7$3-8$4-$5");

/** What a certificate proves: its UUIDs, and its key. */
export function identityOf(certificate) {
  const names = (certificate.subjectAltName ?? "").replace(/"(?:[^"\\]|\\.)*"/g, "").split(", ");
  const uuids = names.map((text) => /^URI:urn:uuid:([0-9a-f-]{36})$/i.exec(text)?.[1].toLowerCase()).filter(Boolean);
  return { uuids, key: sha256(certificate.publicKey.export({ type: "spki", format: "der" })) };
}

export class Peer {
  live = new Map(); // UUID -> connection
  busy = new Map(); // mark of a message that awaits its handler's end -> the connections that await the answer
  handled = new Set(); // marks of the last `dedupe` messages
  #handlers = new Map(); // tag -> [names, handler]
  #connections = new Set();
  #closing = false;
  list = () => [...this.outbox.own.values()]; // what we subscribe to
  mark = (uuid, { id, channel, key, body }) => sha256(JSON.stringify([uuid, id, channel, key]), body); // T-48

  /** `secrets`: {ca, cert, key} in PEM, or null for plaintext; `options`: {dedupe, retry (ms), tell}. */
  constructor(outbox, secrets, options) {
    Object.assign(this, { outbox, secrets, options });
    this.uuid = (secrets && identityOf(new crypto.X509Certificate(secrets.cert)).uuids[0]) ?? outbox.uuid ?? uuid7();
    outbox.commit([["uuid", this.uuid]]);
  }

  async listen({ host, port }) {
    const taken = (socket) => void this.#join(socket, false);
    const server = (this.secrets ? tls : net).createServer({ ...TLS, ...this.secrets }, taken);
    server.on("tlsClientError", (error) => this.options.tell(`refused a connection: ${error.message}`));
    await once(server.listen(port, host), "listening");
    this.options.tell(`this is ${this.uuid}, listening on ${host}:${server.address().port}`);
  }

  /** In order: what is written goes out, and each connection is closed from both sides. */
  async close() {
    this.#closing = true;
    for (const connection of this.#connections) connection.end("we close");
    await Promise.all([...this.#connections].map(({ closed }) => closed));
  }

  /** Store it for each peer that subscribes, and send it. How many those are; it is on disk when this returns. */
  send(channel, key, body) {
    encode({ type: "message", channel, key, body, id: 0 }); // raises what no frame can carry
    const to = [...this.outbox.lists.keys()].filter((uuid) => some(this.outbox.lists.get(uuid), { channel, key }));
    const rows = to.length > 0 ? [this.outbox.add(channel, key, body, to)] : [];
    for (const uuid of to) this.live.get(uuid)?.offer(rows);
    return to.length;
  }

  /** Subscribe; or unsubscribe, where there is no handler. */
  subscribe(names, handler = null) {
    const [about, verb] = [tag(names), handler === null ? "unsubscribe" : "subscribe"];
    this.#handlers.set(about, [names, handler]);
    if (handler === null) this.#handlers.delete(about);
    if (this.outbox.own.has(about) === (handler !== null)) return;
    this.outbox.commit([[verb, names]]);
    for (const connection of this.live.values()) connection.control(verb, names);
  }

  /** To unsubscribe from what is on the list leaves what is queued; from anything else gives up what is held (T-61). */
  changeList(uuid, verb, names) {
    const [list, rows] = [this.outbox.lists.get(uuid), [...this.outbox.rows.values()]];
    const next = list.filter((each) => tag(each) !== tag(names)).concat(verb === "subscribe" ? [names] : []);
    const held = rows.filter((row) => verb === "unsubscribe" && matches(names, row) && !some(list, row));
    this.outbox.commit([["list", uuid, next], ...held.map(({ id }) => ["ack", id, uuid])]);
  }

  /** What this peer is owed and subscribes to, in the order of sending. */
  wanted(uuid) {
    return [...this.outbox.rows.values()].filter((row) => row.owed.has(uuid) && some(this.outbox.lists.get(uuid), row));
  }

  /** Why this peer may not be who it says, or null (T-03, T-71, T-72). */
  objection(uuid, { uuids, key }) {
    if (uuid === this.uuid) return "SelfConnection: that is this peer";
    if (uuids === undefined || uuids.includes(uuid)) return null;
    if (uuids.length > 0 || (this.outbox.pins.get(uuid) ?? key) !== key) return `it has no certificate of ${uuid}`;
    this.outbox.commit([["pin", uuid, key]]);
    return null;
  }

  /** Newest wins; of crossing dials the one dialled by the lower UUID (T-70). Whether this connection stays. */
  admit(connection) {
    const other = this.live.get(connection.uuid);
    const crossing = other && other.dialled !== connection.dialled && Date.now() - other.since < PATIENCE;
    const stays = !crossing || connection.dialled === this.uuid < connection.uuid;
    if (stays) this.live.set(connection.uuid, connection);
    if (other !== undefined) (stays ? other : connection).end("another connection to that peer (T-70)");
    return stays;
  }

  /** Whether to acknowledge: all handlers that match have handled it, or we never asked for it (T-45, T-46). */
  async handle(peer, frame, mark) {
    const found = [...this.#handlers.values()].filter(([names]) => matches(names, frame));
    if (found.length === 0) return !some(this.list(), frame);
    const ends = await Promise.allSettled(found.map(async ([, handler]) => handler({ peer, ...frame })));
    const failed = ends.find(({ status }) => status === "rejected");
    if (failed !== undefined) this.options.tell(`a handler failed: ${failed.reason}`);
    else if (mark !== null) this.handled.add(mark);
    if (this.handled.size > this.options.dedupe) this.handled.delete(this.handled.values().next().value);
    return failed === undefined;
  }

  #join(socket, dialled) {
    const identity = this.secrets ? identityOf(socket.getPeerX509Certificate()) : {};
    const connection = new Connection(this, socket, dialled, identity);
    this.#connections.add(connection);
    connection.closed.then(() => this.#connections.delete(connection));
    return connection;
  }

  async #connect(remote) {
    const socket = (this.secrets ? tls : net).connect({ ...TLS, ...this.secrets, ...remote });
    try {
      await once(socket, this.secrets ? "secureConnect" : "connect", { signal: AbortSignal.timeout(PATIENCE) });
      return this.#join(socket, true);
    } catch (error) {
      socket.on("error", () => {}).destroy();
      return { why: error.message, refused: isRefusal(error) };
    }
  }

  /** Keep a connection to {host, port}. Rejects where one side refuses the other before it was ever up. */
  async dial(remote) {
    for (let [pause, wasUp] = [100, false]; !this.#closing; pause = Math.min(2 * pause, 30_000)) {
      const connection = await this.#connect(remote);
      await connection.closed;
      wasUp ||= connection.since !== undefined;
      const told = `${remote.host}:${remote.port}: ${connection.why}`;
      if (connection.refused && !wasUp) throw new Error(told);
      if (connection.useful) pause = 100;
      if (!this.#closing) this.options.tell(`${told}; it is dialled again`);
      await this.live.get(connection.uuid)?.closed; // the dialler of a connection that was replaced waits (T-70)
      await sleep(connection.refused ? 60_000 * (1 + 4 * Math.random()) : pause * Math.random());
    }
  }
}
