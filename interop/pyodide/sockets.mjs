// Sockets of Node.js, under TLS or plain, for a machine without I/O: it hears what happens, and says what is to be done.
import { once } from "node:events";
import net from "node:net";
import tls from "node:tls";
import { identityOf, TLS } from "../js/peer.js";

const HALF_OPEN = { allowHalfOpen: true }; // after the peer's end ours is still to be written

export class Sockets {
  #sockets = new Map(); // cid -> socket
  #timer = null;

  /** `secrets`: {ca, cert, key} in PEM, or null for plaintext. `machine` is given before anything else is called. */
  constructor(secrets) { Object.assign(this, { secrets, module: secrets ? tls : net, machine: null }); }
  get #options() { return { ...HALF_OPEN, ...(this.secrets && { ...TLS, ...this.secrets }) }; }

  async listen(host, port) {
    const server = this.module.createServer(this.#options, (socket) => this.#accept(socket));
    await once(server.listen(port, host), "listening");
  }

  #accept(socket) {
    const cid = this.machine.accepted(socket.remoteAddress);
    if (cid === undefined) return void socket.destroy(); // too many are opening
    this.#sockets.set(cid, socket);
    this.#watch(cid, socket);
    this.#opened(cid, socket, false);
  }

  dial(cid, host, port) {
    const socket = this.module.connect({ ...this.#options, host, port });
    this.#sockets.set(cid, socket);
    this.#watch(cid, socket);
    socket.once(this.secrets ? "secureConnect" : "connect", () => this.#opened(cid, socket, true));
  }

  #opened(cid, socket, dialled) {
    const { uuids = [], key } = this.secrets ? identityOf(socket.getPeerX509Certificate()) : {};
    socket.isOpen = true;
    socket.setNoDelay(true);
    this.machine.opened(cid, dialled, uuids.join(" "), key);
  }

  #watch(cid, socket) {
    let why;
    socket.on("data", (data) => {
      const bytes = new Uint8Array(data.buffer, data.byteOffset, data.length); // Pyodide does not know a Buffer
      if (this.#sockets.has(cid)) this.machine.received(cid, bytes);
    });
    socket.on("end", () => this.#sockets.has(cid) && this.machine.ended(cid));
    socket.on("error", (error) => (why = error.message));
    socket.on("close", () => {
      if (!this.#sockets.delete(cid)) return; // it was aborted
      if (socket.isOpen) this.machine.lost(cid, why);
      else this.machine.dial_failed(cid, why ?? "it was closed");
    });
  }

  /** Each unit is one write, of which TLS makes records of its own (T-69); `sent` when the last has left. */
  write(cid, units) {
    const [socket, [unit, ...rest]] = [this.#sockets.get(cid), units];
    if (unit === undefined) return void (socket && this.machine.sent(cid));
    socket?.write(unit, (error) => error ?? this.write(cid, rest));
  }

  shutdown(cid) { this.#sockets.get(cid)?.end(); }
  pause(cid) { this.#sockets.get(cid)?.pause(); }
  resume(cid) { this.#sockets.get(cid)?.resume(); }

  abort(cid) {
    const socket = this.#sockets.get(cid);
    this.#sockets.delete(cid);
    socket?.destroy();
  }

  /** Have the machine woken after so many seconds, instead of the time that was said before; never, without one. */
  wake(seconds) {
    clearTimeout(this.#timer);
    if (seconds !== undefined) this.#timer = setTimeout(() => this.machine.time_passed(), Math.ceil(seconds * 1000));
  }
}
