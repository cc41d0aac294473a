// An MCP client made with a TypeScript SDK, told what to do line by line: it is driven by sdk.py.
//
//   node mcp_client.cjs FOLDER old|new URL
//   node mcp_client.cjs FOLDER old|new COMMAND ARGUMENT...
//
// FOLDER is where the SDKs are installed: "old" is @modelcontextprotocol/sdk, with the protocol of 2025; "new" is
// @modelcontextprotocol/client, with that of 2026 and no way back to the old one. In: {do: "call", id, tool, arguments,
// options}, {do: "abort", ids}, {do: "close"}. Out, each with the id of its call: {progress}, {result} or {error}.
"use strict";
const { createRequire } = require("node:module");
const { createInterface } = require("node:readline");

const [folder, era, ...server] = process.argv.slice(2);
const from = createRequire(`${folder}/package.json`);
const sdk = {
  old: () => ({
    ...from("@modelcontextprotocol/sdk/client/index.js"),
    ...from("@modelcontextprotocol/sdk/client/stdio.js"),
    ...from("@modelcontextprotocol/sdk/client/streamableHttp.js"),
  }),
  new: () => ({ ...from("@modelcontextprotocol/client"), ...from("@modelcontextprotocol/client/stdio") }),
}[era]();

const aborts = new Map();
const say = (message) => process.stdout.write(JSON.stringify(message) + "\n");
const about = ({ name, code, message }) => ({ name, code, message });

async function call(client, { id, tool, arguments: given, options }) {
  const abort = new AbortController();
  aborts.set(id, abort);
  const settings = { ...options, signal: abort.signal, onprogress: (progress) => say({ id, progress }) };
  const request = { name: tool, arguments: given };
  try {
    // The old one takes the schema of the result in between.
    say({ id, result: await client.callTool(request, ...(era === "old" ? [undefined] : []), settings) });
  } catch (error) {
    say({ id, error: about(error) });
  }
}

async function main() {
  const transport = /^http/.test(server[0])
    ? new sdk.StreamableHTTPClientTransport(new URL(server[0]))
    : new sdk.StdioClientTransport({ command: server[0], args: server.slice(1), env: process.env });
  const mode = { pin: "2026-07-28" };
  const client = new sdk.Client({ name: "test", version: "1" }, era === "new" ? { versionNegotiation: { mode } } : {});
  await client.connect(transport);
  say({ tools: (await client.listTools()).tools.map(({ name }) => name) });
  for await (const line of createInterface({ input: process.stdin })) {
    const order = JSON.parse(line);
    if (order.do === "call") call(client, order);
    if (order.do === "abort") for (const id of order.ids) aborts.get(id).abort("the user pressed Stop");
    if (order.do === "close") break;
  }
  await client.close();
  process.exit(0);
}

main().catch((error) => {
  say({ failed: about(error) });
  process.exit(1);
});
