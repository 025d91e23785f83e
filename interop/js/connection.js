// One connection: handshake, frames in their turn, messages in flight, messages that wait for their handler.
//
// A server awaits a `request` and, after status 3, a `final`; a client awaits a `response`. Then the connection is
// `live`, and at last `ended`: our half is closed, and acks that are on their way still count. Invariants: an ack
// goes out on the connection that brought its message, or never (T-49). A message that the peer is owed is `waiting`,
// in `flight`, or held, as the peer does not subscribe to it now. Only messages in their first try fill the window.
import { PROBES, RESERVED, UNRELIABLE, controlBody, decoder, encode, readControl } from "./codec.js";
import { tag } from "./outbox.js";

const VERSION = 1n;
const WINDOW = { bytes: 8 * 2 ** 20, each: 2 ** 15 }; // what is in flight: at most 256 messages of 8 MiB in all (T-52)
const CREDIT = { bytes: 16 * 2 ** 20, each: 2 ** 14 }; // what handlers have not settled: at most 1,024 of 16 MiB (D-9)
const cost = ({ each }, { channel, key, body }) => each + channel.length + key.length + body.length;

// Which method takes what may come in which state. A response or final out of turn is ignored (T-65), all else ends it.
const TURNS = {
  request: { request: "answer" },
  response: { response: "responded" },
  final: { request: "again", final: "finished" },
  live: { request: "again", final: "finished", message: "message", ack: "acknowledged" },
  ended: { ack: "acknowledged" },
};
// Whether TLS refused the other side, or was refused by it (T-73).
export const isRefusal = ({ code }) => /^(ERR_SSL|ERR_TLS|CERT_|UNABLE_TO|SELF_SIGNED|DEPTH_ZERO)/.test(code ?? "");

export class Connection {
  #waiting = new Set(); // rows
  #flight = new Map(); // id -> {row, tries, due, first}
  #inbox = []; // {frame, mark}
  #window = 0; #unsettled = 0; #working = false;

  constructor(peer, socket, dialled, identity) {
    const [read, state] = [decoder(), dialled ? "response" : "request"];
    Object.assign(this, { peer, socket, dialled, identity, state });
    socket.setKeepAlive(true, 30_000).setNoDelay(true);
    socket.on("data", (bytes) => {
      try { for (const frame of read(bytes)) this.#take(frame); } catch (error) { this.#refuse(error.message); }
    });
    socket.on("end", () => this.end("the peer ended it"));
    socket.on("error", (error) => this.end(error.message, isRefusal(error)));
    this.closed = new Promise((resolve) => socket.on("close", () => resolve(this.end("the connection broke"))));
    this.timer = setTimeout(() => this.end("no handshake within 10 s (T-68)"), 10_000);
    if (dialled) this.#write({ type: "request", version: VERSION, uuid: peer.uuid, list: (this.said = peer.list()) });
  }

  /** Our half ends once all that was written is out; then the peer's is read. `refused`: to dial again is no use. */
  end(why, refused = false) {
    if (this.state === "ended") return;
    Object.assign(this, { state: "ended", why, refused });
    clearInterval(this.timer);
    for (const { mark } of this.#inbox.splice(0)) this.peer.busy.delete(mark);
    if (this.peer.live.get(this.uuid) === this) this.peer.live.delete(this.uuid);
    if (!this.dialled) this.peer.options.tell(`${this.uuid ?? "a connection"}: ${why}`);
    this.socket.resume().end();
    setTimeout(() => this.socket.destroy(), 5_000).unref();
  }

  /** Send these rows, and those that wait, as the window has room. */
  offer(rows) {
    for (const row of rows) if (!this.#flight.has(row.id)) this.#waiting.add(row);
    for (const row of this.#waiting) {
      if (this.#window >= WINDOW.bytes) return;
      this.#waiting.delete(row);
      if (!row.owed.has(this.uuid)) continue;
      this.#window += cost(WINDOW, row);
      this.#transmit({ row, tries: 0, first: true });
    }
  }

  /** Say subscribe or unsubscribe; the newest word on a subscription is the only one in flight (T-29). */
  control(verb, names) {
    const [about, body] = [tag(names), controlBody(verb, names)];
    for (const [id, { row }] of this.#flight) if (row.about === about) this.#flight.delete(id);
    const row = { id: this.peer.outbox.nextId(), channel: RESERVED, key: "", body, about };
    this.#transmit({ row, tries: 0, first: false });
  }

  #write(frame, then) { if (this.socket.writable) this.socket.write(encode(frame), then); }
  #ack(id) { if (id !== UNRELIABLE && this.state === "live") this.#write({ type: "ack", id }); }
  #refuse(why) { this.end(why, this.state !== "live"); }

  #take(frame) {
    const turn = TURNS[this.state][frame.type];
    if (turn !== undefined) this[turn](frame);
    else if (!/response|final/.test(frame.type)) this.#refuse(`UnexpectedFrame: a ${frame.type}, as ${this.state}`);
  }

  /** Whether the peer may be who it says. */
  #identify({ uuid, version }) {
    Object.assign(this, { uuid, version, wrong: this.peer.objection(uuid, this.identity) });
    if (this.wrong !== null) this.#refuse(this.wrong);
    return this.wrong === null;
  }

  answer(request) {
    if (!this.#identify(request)) return;
    const status = request.version === VERSION ? 0 : request.version < VERSION ? 2 : 3;
    this.#respond(status, request.list);
    if (status === 0) this.#live();
    else if (status === 2) this.#refuse(`HandshakeRejected: version ${request.version}`);
    else this.state = "final";
  }

  again({ version, uuid, list }) {
    if (uuid !== this.uuid || version !== this.version) return this.end("another identity (T-66)");
    this.#respond(version > VERSION ? 3 : 0, list);
    if (this.state === "live") this.offer(this.peer.wanted(uuid));
  }

  /** A socket writes its first bytes at once, so that the response is a TLS record of its own (T-69). */
  #respond(status, theirs) {
    if (status !== 2) this.peer.outbox.commit([["list", this.uuid, theirs]]);
    const list = (this.said = status === 2 ? [] : this.peer.list());
    this.#write({ type: "response", version: VERSION, uuid: this.peer.uuid, status, list });
  }

  responded(response) {
    if (!this.#identify(response)) return;
    const { version, status, uuid, list } = response;
    if (status === 3) this.#write({ type: "final", compatible: false }); // we speak no version but ours
    const meant = version === VERSION ? [0] : version > VERSION ? [1, 2] : [3];
    if (!meant.includes(status)) return this.#refuse(`UnexpectedFrame: status ${status} for version ${version}`);
    if (status > 1) return this.#refuse(`HandshakeRejected: version ${version}, status ${status}`);
    this.peer.outbox.commit([["list", uuid, list]]);
    this.#live();
  }

  finished({ compatible }) {
    if (!compatible && this.version > VERSION) this.#refuse("HandshakeRejected: the peer's final is a failure");
    else if (this.state === "final") this.#live();
  }

  #live() {
    clearTimeout(this.timer);
    Object.assign(this, { state: "live", since: Date.now() });
    if (!this.peer.admit(this)) return;
    this.timer = setInterval(() => this.#resend(), Math.min(1000, this.peer.options.retry / 4));
    for (const names of this.peer.list()) if (!this.said.includes(names)) this.control("subscribe", names); // new since
    for (const names of this.peer.outbox.gone.values()) this.control("unsubscribe", names); // it holds them (T-61)
    this.offer(this.peer.wanted(this.uuid));
  }

  acknowledged({ id }) {
    const { row, first } = this.#flight.get(id) ?? {};
    if (!this.#flight.delete(id)) return;
    this.useful = true;
    if (first) this.#window -= cost(WINDOW, row);
    if (row.owed !== undefined) this.peer.outbox.commit([["ack", id, this.uuid]], false);
    if (this.state === "live") this.offer([]);
  }

  message(frame) {
    const { channel, key, id } = frame;
    if (channel === null || key === null || channel === PROBES) return this.#ack(id);
    if (channel === RESERVED) return this.#controlled(frame);
    const mark = id === UNRELIABLE ? null : this.peer.mark(this.uuid, frame);
    if (this.peer.handled.has(mark)) return this.#ack(id);
    const copies = this.peer.busy.get(mark);
    if (copies !== undefined) return void (copies.length < 64 && copies.push(this)); // it shares the answer (T-48)
    if (mark !== null) this.peer.busy.set(mark, [this]);
    this.#inbox.push({ frame, mark });
    this.#unsettled += cost(CREDIT, frame);
    if (this.#unsettled > CREDIT.bytes) this.socket.pause();
    if (!this.#working) this.#work();
  }

  async #work() {
    this.#working = true;
    for (let next; (next = this.#inbox.shift()) !== undefined; ) {
      const done = await this.peer.handle(this.uuid, next.frame, next.mark);
      for (const connection of this.peer.busy.get(next.mark) ?? []) if (done) connection.#ack(next.frame.id);
      this.peer.busy.delete(next.mark);
      this.#unsettled -= cost(CREDIT, next.frame);
      if (this.#unsettled <= CREDIT.bytes / 2) this.socket.resume();
    }
    this.#working = false;
  }

  #controlled({ key, body, id }) {
    const { verb, names } = (key === "" && readControl(body)) || {};
    if (verb !== undefined && names[0] !== RESERVED) this.peer.changeList(this.uuid, verb, names);
    this.#ack(id);
    this.offer(this.peer.wanted(this.uuid));
  }

  #transmit(sent) {
    const { id, channel, key, body } = sent.row;
    const pause = Math.min(this.peer.options.retry * 2 ** sent.tries, 300_000) * (0.8 + 0.4 * Math.random());
    Object.assign(sent, { tries: sent.tries + 1, due: Infinity }); // the time runs from when the bytes have left
    this.#flight.set(id, sent);
    this.#write({ type: "message", channel, key, body, id }, () => (sent.due = Date.now() + pause));
  }

  #resend() {
    for (const sent of [...this.#flight.values()].filter(({ due }) => due <= Date.now())) {
      if (sent.first) this.#window -= cost(WINDOW, sent.row);
      this.#transmit(Object.assign(sent, { first: false }));
    }
    this.offer([]);
  }
}
