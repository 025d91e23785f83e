// Lines of hex in; what the codec reads of each as `vectors/` says frames, whole and byte by byte, and writes of it.
import { UNRELIABLE, decoder, encode, readControl } from "../../interop/js/codec.js";
import fs from "node:fs";
const STATUSES = ["same_version", "newer_compatible", "newer_incompatible", "older"];
const id = (id) => ({ message_id: id === UNRELIABLE ? null : id });
const hello = ({ version, uuid, list }) => ({ version: String(version), instance_id: uuid, subscriptions: list });
const CASES = {
  request: (frame) => ({ frame: "handshake_request", ...hello(frame) }),
  response: (frame) => ({ frame: "handshake_response", ...hello(frame), status: STATUSES[frame.status] }),
  final: ({ compatible }) => ({ frame: "handshake_final", compatible }),
  ack: ({ id }) => ({ frame: "ack", message_id: id }),
  message: (frame) => {
    const read = frame.channel === "tolliver" && frame.key === "" ? readControl(frame.body) : null;
    if (read) return { frame: read.verb, channel: read.names[0], key: read.names[1], ...id(frame.id) };
    const bad = frame.channel === null || frame.key === null || frame.channel === "tolliver";
    if (bad) return { frame: "ignored", ...id(frame.id) };
    const body = frame.body.toString("hex");
    return { frame: "message", channel: frame.channel, key: frame.key, body, ...id(frame.id) };
  },
};
function run(pieces) {
  const [read, frames, written] = [decoder(), [], []];
  try {
    for (const piece of pieces) {
      for (const frame of read(piece)) {
        frames.push(CASES[frame.type](frame));
        if (frames.at(-1).frame !== "ignored") written.push(encode(frame).toString("hex"));
      }
    }
  } catch (error) {
    return { frames, written, failed: error instanceof RangeError || String(error) };
  }
  return { frames, written, failed: false };
}
for (const line of fs.readFileSync(0, "utf8").split("\n")) {
  const bytes = Buffer.from(line, "hex");
  console.log(JSON.stringify([run([bytes]), run([...bytes].map((byte) => Buffer.of(byte)))]));
}
