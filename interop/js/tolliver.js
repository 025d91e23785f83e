// The command: `node tolliver.js listen|send|conform`, with flags of `tolliver listen` and `tolliver send`.
import fs from "node:fs";
import readline from "node:readline";
import { setImmediate as turn, setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { Outbox } from "./outbox.js";
import { Peer } from "./peer.js";

const USAGE = `node tolliver.js listen [--channel C]... [--key K]... [--only] [--count N] [--json] WHERE WHO
node tolliver.js send CHANNEL KEY [BODY|-] [--file FILE] [--no-wait] [--timeout SECONDS] [--json] WHERE WHO
node tolliver.js conform WHERE WHO
  WHERE: --listen HOST:PORT, --connect HOST:PORT, each repeatable; --dedupe N, --retry-interval SECONDS
  WHO: --certs DIR --name NAME, or --plaintext; --database FILE (default: NAME.outbox in --certs)`;
const [text, flag, many] = [{ type: "string" }, { type: "boolean" }, { type: "string", multiple: true, default: [] }];
const options = {
  listen: many, connect: many, channel: { ...many, default: [""] }, key: { ...many, default: [""] }, certs: text,
  name: text, database: text, dedupe: text, "retry-interval": text, count: text, timeout: text, file: text,
  plaintext: flag, json: flag, only: flag, "no-wait": flag, help: flag,
};
const tell = (notice) => process.stderr.write(`tolliver.js: ${notice}\n`);
const print = (line) => new Promise((resolve) => process.stdout.write(`${line}\n`, resolve));
const wrong = (text) => { throw Object.assign(new Error(text), { usage: true }); };

function address(text) {
  const { host, port } = /^\[?(?<host>.+?)\]?:(?<port>\d+)$/.exec(text)?.groups ?? wrong(`${text} is no HOST:PORT`);
  return { host, port: Number(port) };
}

async function open({ certs, name, plaintext, database, dedupe = 0, "retry-interval": seconds = 10 }) {
  if (!plaintext && !(certs && name)) wrong("--certs DIR and --name NAME say who this is, or --plaintext");
  const read = (file) => fs.readFileSync(`${certs}/${file}`);
  const secrets = plaintext ? null : { ca: read("ca.pem"), cert: read(`${name}.pem`), key: read(`${name}.key`) };
  const outbox = await Outbox.open(database ?? (plaintext ? null : `${certs}/${name}.outbox`));
  return new Peer(outbox, secrets, { dedupe: Number(dedupe), retry: Number(seconds) * 1000, tell });
}

/** Listen and dial, for ever. Rejects where that cannot be. */
async function meet(peer, flags) {
  for (const at of flags.listen.map(address)) await peer.listen(at);
  await Promise.all([...flags.connect.map(address).map((at) => peer.dial(at)), new Promise(() => {})]);
}

/** Print what comes; what comes after `--count` messages stays with its sender. */
async function listen(peer, { channel, key, only, json, count: left = Infinity, ...where }) {
  const enough = new Promise((resolve) => {
    const show = async ({ type, body, id, ...rest }) => {
      if (left-- <= 0) throw new Error("--count messages were printed");
      const line = { time: new Date(), ...rest, message_id: id, body: body.toString("base64") };
      await print(json ? JSON.stringify(line) : `${rest.channel}\t${rest.key}\t${body}`);
      if (left === 0) setImmediate(resolve);
    };
    if (only) for (const names of peer.list()) peer.subscribe(names);
    for (const each of channel) for (const one of key) peer.subscribe([each, one], show);
  });
  await Promise.race([enough, meet(peer, where)]);
}

/** The contract of a peer under test: what is handled on conform.in goes back on conform.out. */
async function conform(peer, flags) {
  const tries = new Map();
  peer.subscribe(["conform.in", ""], async ({ peer: from, id, key, body }) => {
    const [, verb, number] = /^(fail|slow):(\d+(?:\.\d+)?):/.exec(body.toString("latin1")) ?? [];
    const [mark, failed] = [`${from} ${id}`, tries.get(`${from} ${id}`) ?? 0];
    tries.set(mark, failed + 1);
    if (verb === "slow") await sleep(number * 1000);
    if (verb === "fail" && failed < number) throw new Error(`told to fail ${number} times`);
    peer.send("conform.out", key, body);
  });
  await meet(peer, flags);
}

/** Send, and wait until all that is stored is acknowledged. */
async function send(peer, { file, json, timeout = 30, "no-wait": noWait, ...where }, channel, key, body) {
  if (key === undefined) wrong("send CHANNEL KEY [BODY]");
  let [messages, stored, last] = [0, 0, Date.now()];
  const late = () => Date.now() - last > timeout * 1000;
  const met = async () => { while (peer.live.size < (where.connect.length || 1) && !late()) await sleep(10); };
  await Promise.race([meet(peer, where), met()]);
  const input = file === undefined ? process.stdin : fs.createReadStream(file);
  const lines = file !== undefined || body === "-";
  for await (const each of lines ? readline.createInterface({ input }) : body === undefined ? [] : [body]) {
    stored += peer.send(channel, key, Buffer.from(each)) > 0;
    [messages, last] = [messages + 1, await turn(Date.now())]; // acks are read meanwhile
  }
  for (let owed = 0; !noWait && peer.outbox.rows.size > 0 && !late(); await sleep(10)) {
    if (peer.outbox.rows.size !== owed) [owed, last] = [peer.outbox.rows.size, Date.now()];
  }
  const sum = { messages, stored, unacknowledged: peer.outbox.rows.size };
  await print(json ? JSON.stringify(sum) : `stored ${stored} of ${messages}, ${sum.unacknowledged} not acknowledged`);
  return stored === messages && (noWait || sum.unacknowledged === 0) ? 0 : 1;
}

async function main() {
  const { values: flags, positionals } = parseArgs({ options, allowPositionals: true });
  const command = { listen, send, conform }[positionals.shift()];
  if (flags.help) return print(USAGE);
  if (command === undefined) wrong(USAGE);
  const peer = await open(flags);
  const signal = new Promise((resolve) => ["SIGINT", "SIGTERM"].map((name) => process.once(name, () => resolve(0))));
  process.exitCode = await Promise.race([signal, command(peer, flags, ...positionals)]);
  await peer.close();
}

main().then(() => process.exit(), (error) => {
  tell(error.message);
  process.exit(error.usage || error.code?.startsWith("ERR_PARSE_ARGS") ? 2 : 1);
});
