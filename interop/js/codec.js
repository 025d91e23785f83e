// Frames of the Tolliver protocol, draft 2, as bytes: docs/protocol.md, "Frames".
//
// A frame has no outer length, so its reader is a coroutine: it yields how many bytes it needs next and gets them once
// they are there. Every length is held against its limit before a byte behind it is waited for.
import { isUtf8 } from "node:buffer";

export const UNRELIABLE = 2 ** 31 - 1;
export const RESERVED = "tolliver";
export const PROBES = "tolliver.probe";
const LIMITS = { name: 4096, body: 16 * 2 ** 20, entries: 10_000, list: 2 ** 20 };
const TYPES = ["request", "response", "final", "message", "ack"]; // the code of each is its place, here
const VERBS = ["subscribe", "unsubscribe"]; // and here
const FINAL = { compatible: 1, failure: 2 };
const text = (bytes) => (isUtf8(bytes) ? bytes.toString("utf8") : null);
const number = (width, value) => Buffer.from(value.toString(16).padStart(2 * width, "0"), "hex");
const uuidBytes = (uuid) => Buffer.from(uuid.replaceAll("-", ""), "hex");
export const uuidText = (bytes) => bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");

function limited(what, value, limit) {
  if (value > limit) throw new RangeError(`${what} of ${value}: at most ${limit}`);
  return value;
}

/** [u32 channel length, u32 key length, the body's length and the id where there are some, channel, key, body]. */
function named(texts, ...more) {
  const names = texts.map((name) => Buffer.from(name, "utf8"));
  if (names.some((name, at) => text(name) !== texts[at])) throw new RangeError("a name with a lone surrogate (T-11)");
  const sizes = names.map(({ length }) => number(4, limited("a name", length, LIMITS.name)));
  return Buffer.concat([...sizes, ...more, ...names]);
}
const sized = ({ length }) => limited("a body", length, LIMITS.body);
const headed = ({ version, uuid }) => [number(8, version), uuidBytes(uuid)];
const listed = (list) => [number(4, list.length), ...list.map((names) => named(names))];

const WRITERS = {
  request: ({ list, ...head }) => [...headed(head), ...listed(list)],
  response: ({ status, list, ...head }) => [...headed(head), number(1, status), ...listed(list)],
  final: ({ compatible }) => [number(1, compatible ? FINAL.compatible : FINAL.failure)],
  message: ({ channel, key, body, id }) => [named([channel, key], number(4, sized(body)), number(4, id)), body],
  ack: ({ id }) => [number(4, id)],
};

/** The bytes of a frame: `{type, ...}`, as `decoder` gives it. */
export const encode = ({ type, ...rest }) => Buffer.concat([number(1, TYPES.indexOf(type)), ...WRITERS[type](rest)]);
const lengths = (head) => [0, 4].map((at) => limited("a name", head.readUInt32BE(at), LIMITS.name));
function* readByte(what, limit) { return limited(what, (yield 1)[0], limit); }
const nobody = (uuid) => { throw new RangeError(`${uuid} is nobody (T-03)`); };
const somebody = (uuid) => (/^[0-]+$|^[f-]+$/.test(uuid) ? nobody(uuid) : uuid);
function* readHead() { return { version: (yield 8).readBigUInt64BE(), uuid: somebody(uuidText(yield 16)) }; }
function* readList() {
  const list = [];
  const count = limited("a list", (yield 4).readUInt32BE(), LIMITS.entries);
  for (let size = 0; list.length < count; ) {
    const [channel, key] = lengths(yield 8);
    size = limited("the entries of a list", size + 8 + channel + key, LIMITS.list);
    const names = [text(yield channel), text(yield key)];
    if (names.includes(null)) throw new RangeError("a name in a handshake that is not UTF-8 (T-10)");
    list.push(names);
  }
  return list;
}

const READERS = {
  *request() { return { ...(yield* readHead()), list: yield* readList() }; },
  *response() { return { ...(yield* readHead()), status: yield* readByte("a status", 3), list: yield* readList() }; },
  *final() { return { compatible: (yield 1)[0] === FINAL.compatible }; },
  *message() {
    const head = yield 16;
    const [[channel, key], body] = [lengths(head), limited("a body", head.readUInt32BE(8), LIMITS.body)];
    return { channel: text(yield channel), key: text(yield key), body: yield body, id: head.readUInt32BE(12) };
  },
  *ack() { return { id: (yield 4).readUInt32BE() }; },
  *frame() {
    const type = TYPES[yield* readByte("a code", 4)];
    return { type, ...(yield* READERS[type]()) };
  },
};

/** A function that takes bytes, in pieces of any size, and yields each frame that is whole. No UTF-8 is null. */
export function decoder() {
  let [pieces, size, reader, needed] = [[], 0, null, 0];
  const take = (count) => {
    const whole = pieces.length > 0 && pieces[0].length >= count ? pieces.shift() : Buffer.concat(pieces.splice(0));
    if (whole.length > count) pieces.unshift(whole.subarray(count));
    size -= count;
    return whole.subarray(0, count);
  };
  return function* feed(piece) {
    pieces.push(piece);
    size += piece.length;
    while (size >= needed) {
      reader ??= READERS.frame();
      const { done, value } = reader.next(take(needed));
      if (done) yield value;
      [reader, needed] = done ? [null, 0] : [reader, value];
      if (done && size === 0) return;
    }
  };
}

export const controlBody = (verb, names) => Buffer.concat([number(1, VERBS.indexOf(verb)), named(names)]);

/** `{verb, names}` of a control body, or null where it cannot be read (T-12, T-20). */
export function readControl(body) {
  const [verb, entry] = [VERBS[body[0]], body.subarray(1)];
  if (verb === undefined || entry.length < 8) return null;
  const [channel, key] = [entry.readUInt32BE(0), entry.readUInt32BE(4)];
  const names = [text(entry.subarray(8, 8 + channel)), text(entry.subarray(8 + channel))];
  const fits = entry.length === 8 + channel + key && Math.max(channel, key) <= LIMITS.name;
  return fits && !names.includes(null) ? { verb, names } : null;
}

/** Whether a subscription is for a message: an empty name in it is anything (T-24, P-11). */
export function matches([wantedChannel, wantedKey], { channel, key }) {
  if (wantedKey !== "" && wantedKey !== key) return false;
  if (wantedChannel !== "") return wantedChannel === channel;
  return channel !== RESERVED && !/^tolliver\.(request|reply)\//.test(channel);
}
