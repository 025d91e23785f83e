// Python in WebAssembly as a command: `node python.mjs FILE [ARGUMENT]...`. It sees the disk as this process does.
//
// `npm install` in this directory brings Pyodide. The project's packages are on the path.
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { loadPyodide } from "pyodide";

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const SNAPSHOT = fileURLToPath(new URL("node_modules/started.snapshot", import.meta.url));
const ITS_OWN = new Set(["dev", "home", "lib", "lib64", "proc", "sys"]); // places of Pyodide, or of the kernel

/** Keep how Pyodide is once it has started, so that the next start takes a tenth of the time. */
async function keepStart() {
  const python = await loadPyodide({ _makeSnapshot: true, env: { HOME: "/home/pyodide", PYTHONHASHSEED: "0" } });
  fs.writeFileSync(`${SNAPSHOT}.${process.pid}`, python.makeMemorySnapshot());
  fs.renameSync(`${SNAPSHOT}.${process.pid}`, SNAPSHOT);
}

/** Pyodide, with every other directory of `/` where it is here. Environment variables are not handed on. */
export async function load() {
  const python = await loadPyodide(fs.existsSync(SNAPSHOT) ? { _loadSnapshot: fs.readFileSync(SNAPSHOT) } : {});
  for (const name of fs.readdirSync("/").filter((each) => !ITS_OWN.has(each) && fs.statSync(`/${each}`).isDirectory())) {
    python.FS.mkdirTree(`/${name}`);
    python.FS.mount(python.FS.filesystems.NODEFS, { root: `/${name}` }, `/${name}`);
  }
  python.runPython(`import sys; sys.path.insert(0, ${JSON.stringify(ROOT)})`);
  process.on("uncaughtException", fail);
  return python;
}

/** Its words alone: beside them Node would show the line of Pyodide that threw, which is a megabyte. */
function fail({ message }) {
  process.stderr.write(message);
  process.exit(1);
}

/** Run the file as `__main__`. The exit status. */
async function main(file, ...rest) {
  if (file === "--keep-start") return void (await keepStart());
  const python = await load();
  python.globals.set("argv", python.toPy([file, ...rest]));
  python.globals.set("start", process.cwd());
  const run = `import os, runpy
os.chdir(start)
sys.argv = argv
sys.path.insert(0, os.path.dirname(argv[0]))
runpy.run_path(argv[0], run_name='__main__')`;
  try { python.runPython(run); } catch (error) {
    if (error.type !== "SystemExit") fail(error);
    return Number(/SystemExit: ?(\d*)/.exec(error.message)?.[1] ?? 1);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.exitCode = await main(...process.argv.slice(2));
