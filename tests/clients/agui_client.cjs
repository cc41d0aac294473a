// Drives the published AG-UI client: node agui_client.cjs URL TEXT [stop | abort]; prints what it was told, as JSON.
// "stop" posts the cancel and lets the stream end, as a Stop button should; "abort" closes the connection.
const { HttpAgent } = require("@ag-ui/client");

const [url, text, how] = process.argv.slice(2);
const agent = new HttpAgent({ url: `${url}/runs`, threadId: "js" });
agent.messages = [{ id: "m", role: "user", content: text }];
const told = { events: [], outcome: null, error: null, receipt: null };

const subscriber = {
  onEvent: ({ event }) => {
    if (event.type !== "TEXT_MESSAGE_CONTENT") told.events.push(event.name ?? event.type);
  },
  onTextMessageContentEvent: async ({ event, input }) => {
    if (event.delta !== "two " || told.receipt) return;
    told.receipt = "asked";
    if (how === "abort") agent.abortRun();
    if (how !== "stop") return;
    fetch(`${url}/runs/${input.runId}/cancel`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ reason: "the button" }),
    }).then(async (answer) => (told.receipt = [answer.status, (await answer.json()).state]));
  },
  onRunFinishedEvent: ({ outcome }) => (told.outcome = outcome),
  onRunErrorEvent: ({ event }) => (told.error = event.code ?? event.message),
};

agent
  .runAgent({}, subscriber)
  .catch((error) => (told.error = told.error ?? String(error)))
  .then(() => new Promise((resolve) => setTimeout(resolve, 50)))
  .then(() => {
    told.messages = agent.messages.map(({ role, content }) => [role, content]);
    console.log(JSON.stringify(told));
  });
