// Asks the search of a built site as its pages do: node search.js SITE QUERY... Prints, of each, the pages it finds.
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const [site, ...queries] = process.argv.slice(2);
const folder = path.join(site, "assets/javascripts/workers");
const worker = fs.readdirSync(folder).find((name) => name.startsWith("search"));
const index = JSON.parse(fs.readFileSync(path.join(site, "search.json"), "utf8"));

let answered = () => {};
const self = { postMessage: (message) => answered(message) };
vm.runInContext(fs.readFileSync(path.join(folder, worker), "utf8"), vm.createContext({ self, Intl, Date }));

const ask = (message) =>
  new Promise((resolve) => {
    answered = resolve;
    self.onmessage({ data: message });
  });
const query = (input) => ({
  input,
  filter: {
    input: { type: "operator", data: { operator: "and", operands: [] } },
    aggregation: { input: [{ type: "term", data: { field: "tags" } }] },
  },
});

(async () => {
  const items = [...index.items];
  await ask({ type: 0, data: index });
  const found = [];
  for (const input of queries) {
    const { data } = await ask({ type: 2, data: query(input) });
    found.push(data.items.slice(0, 6).map((hit) => items[hit.id].location));
  }
  process.stdout.write(JSON.stringify(found));
})();
