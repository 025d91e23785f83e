// A file that holds what must outlive this process: unacknowledged messages, subscriptions of either side, pins.
//
// The file is a log of records, one JSON array in each line. `commit` appends records, makes them durable (fsync) and
// only then applies them to the tables in memory, by the same `#apply` that reads the file at opening: so memory never
// knows more than the disk. Acknowledgements are written without an fsync: one that a crash loses costs a duplicate.
// A last line without its end is a write that a crash cut: it was never promised to anybody and is dropped. Damage
// anywhere else is an error. The file is written anew (beside, fsync, rename) at opening and when it has doubled.
import crypto from "node:crypto";
import { once } from "node:events";
import fs from "node:fs";
import net from "node:net";
import path from "node:path";
import { UNRELIABLE } from "./codec.js";

export const tag = (names) => JSON.stringify(names);
const lines = (records) => Buffer.from([...records].map((record) => `${JSON.stringify(record)}\n`).join(""));
const added = ({ id, channel, key, body, owed }) => ["add", id, channel, key, body.toString("base64"), [...owed]];

export class Outbox {
  rows = new Map(); // id -> {id, channel, key, body, owed: Set of UUIDs}
  own = new Map(); // tag -> [channel, key]: what we subscribe to
  gone = new Map(); // the same for what we unsubscribed from
  lists = new Map(); // UUID -> [[channel, key]]: what that peer subscribes to
  pins = new Map(); // UUID -> the SHA-256 of the key that was first seen with it
  uuid = null; // ours, where no certificate says it
  #last = crypto.randomInt(1, UNRELIABLE); // a new file begins anywhere: ids of an older one may be remembered (T-40)
  #file;
  #fd = null;
  #size = 0; #least = 0; // now, and when it was written anew

  /** Open the file, made if missing, for this process alone; null keeps everything in memory. */
  static async open(file) {
    const outbox = new Outbox();
    if (file === null) return outbox;
    outbox.#file = path.join(fs.realpathSync(path.dirname(file)), path.basename(file));
    const name = `\0tolliver-js-${crypto.createHash("sha256").update(outbox.#file).digest("hex")}`;
    // The lock is a name of the kernel's, which goes with its process, however that ends; on Linux alone.
    if (process.platform === "linux") await once(net.createServer().unref().listen(name), "listening").catch(() => {
      throw new Error(`${file} is another process's: end that one, or give another --database`);
    });
    const whole = fs.existsSync(file) ? fs.readFileSync(file, "utf8").split("\n").slice(0, -1) : [];
    for (const [at, text] of whole.entries()) try { outbox.#apply(JSON.parse(text)); } catch ({ message }) {
      throw new Error(`${file} is damaged in line ${at + 1} (${message}): move it away`);
    }
    outbox.#writeAnew();
    return outbox;
  }

  /** An id that no message has which is still owed an ack. */
  nextId() {
    do this.#last = (this.#last % (UNRELIABLE - 1)) + 1; while (this.rows.has(this.#last));
    return this.#last;
  }

  /** Store a message for these peers; on disk when this returns. Its row. */
  add(channel, key, body, to) {
    const id = this.nextId();
    this.commit([added({ id, channel, key, body, owed: to })]);
    return this.rows.get(id);
  }

  /** Append records and apply them. Raises what the disk says; then nothing has changed. */
  commit(records, durable = true) {
    if (this.#fd !== null && records.length > 0) {
      if (this.#size > 2 * this.#least + 2 ** 20) this.#writeAnew();
      const bytes = lines(records);
      try {
        fs.writeFileSync(this.#fd, bytes);
        if (durable) fs.fsyncSync(this.#fd);
      } catch (error) {
        fs.ftruncateSync(this.#fd, this.#size);
        throw error;
      }
      this.#size += bytes.length;
    }
    for (const record of records) this.#apply(record);
  }

  #kinds = {
    add: (id, channel, key, body, to) => {
      this.#last = id;
      this.rows.set(id, { id, channel, key, body: Buffer.from(body, "base64"), owed: new Set(to) });
    },
    ack: (id, uuid) => {
      const { owed } = this.rows.get(id) ?? {};
      if (owed?.delete(uuid) && owed.size === 0) this.rows.delete(id);
    },
    id: (id) => (this.#last = id),
    uuid: (uuid) => (this.uuid = uuid),
    pin: (uuid, key) => this.pins.set(uuid, key),
    list: (uuid, list) => this.lists.set(uuid, list),
    subscribe: (names) => this.gone.delete(tag(names)) | this.own.set(tag(names), names),
    unsubscribe: (names) => this.own.delete(tag(names)) | this.gone.set(tag(names), names),
  };
  #apply = ([kind, ...rest]) => this.#kinds[kind](...rest);

  *#records() {
    if (this.uuid !== null) yield ["uuid", this.uuid];
    for (const pin of this.pins) yield ["pin", ...pin];
    for (const [uuid, list] of this.lists) yield ["list", uuid, list];
    for (const names of this.own.values()) yield ["subscribe", names];
    for (const names of this.gone.values()) yield ["unsubscribe", names];
    for (const row of this.rows.values()) yield added(row);
    yield ["id", this.#last];
  }

  #writeAnew() {
    const [old, beside, bytes] = [this.#fd, `${this.#file}.new`, lines(this.#records())];
    fs.rmSync(beside, { force: true });
    const [fd, directory] = [fs.openSync(beside, "a", 0o600), fs.openSync(path.dirname(this.#file))];
    fs.writeFileSync(fd, bytes);
    fs.fsyncSync(fd);
    fs.renameSync(beside, this.#file);
    fs.fsyncSync(directory);
    for (const each of [directory, old]) if (each !== null) fs.closeSync(each);
    [this.#fd, this.#size, this.#least] = [fd, bytes.length, bytes.length];
  }
}
