/**
 * Owns the page as a whole: which view is shown, and the keys that work everywhere.
 *
 * Rules: a conversation that answers is kept alive while another view is shown; Esc stops the one on the page.
 */

import { Announcer } from "./announce.js";
import { Api } from "./api.js";
import { Conversation, newId } from "./conversation.js";
import { put } from "./dom.js";
import { RunPage } from "./run_page.js";
import { RunsView } from "./runs_view.js";
import { Sidebar } from "./sidebar.js";

const byId = (id) => document.getElementById(id);

const main = byId("main");
const api = new Api(askForToken, sessionStorage);
const announcer = new Announcer(byId("polite"), byId("urgent"));
const sidebar = new Sidebar(api, { list: byId("sessions"), drawer: byId("sidebar"), toggle: byId("menu") });
const runsView = new RunsView(api);
const runPage = new RunPage(api);
const conversations = new Map();
let shown = null;

function conversation(id) {
  let found = conversations.get(id);
  if (!found) {
    found = new Conversation(id, { api, announcer, changed });
    conversations.set(id, found);
  }
  return found;
}

/** A run of a conversation has begun or ended. */
function changed(which) {
  if (which === shown && location.hash !== address(which.id)) history.replaceState(null, "", address(which.id));
  title();
  mark();
  sidebar.refresh();
  sidebar.draw(shown?.id ?? null, running());
}

const address = (id) => `#/chat/${encodeURIComponent(id)}`;
const running = () => new Set([...conversations.values()].filter((each) => each.isRunning).map((each) => each.id));

function title() {
  const name = shown?.title || { runs: "Runs" }[section()] || "Chat";
  document.title = `${shown?.isRunning ? "● " : ""}${name} · loopctl`;
}

/** Mark the section of the page that is shown. */
function mark() {
  for (const link of document.querySelectorAll("[data-section]")) {
    if (link.dataset.section === section()) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

const section = () => location.hash.replace(/^#\/?/, "").split(/[/?]/)[0];

function route() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [where, id] = path.split("/").map((part) => decode(part));
  runPage.leave();
  letGo(where === "chat" ? id : null);
  sidebar.open(false);
  mark();
  if (where === "runs") {
    shown = null;
    put(main, id ? runPage.element : runsView.element);
    (id ? runPage.show(id) : runsView.show(new URLSearchParams(query).get("outcome") ?? "")).then(toHeading);
  } else showChat(where === "chat" && id ? id : null);
  title();
  sidebar.draw(shown?.id ?? null, running());
}

function showChat(id) {
  shown = conversation(id ?? newId());
  put(main, shown.element);
  const chat = shown;
  chat.toEnd();
  if (id) chat.load().then(() => shown === chat && title());
  chat.focus();
}

/** Forget the conversations that are idle, apart from `id`. */
function letGo(id) {
  for (const [key, each] of conversations) {
    if (each.isRunning || key === id) continue;
    each.close();
    conversations.delete(key);
  }
}

/** Whoever came here by key or by voice begins at the heading. */
function toHeading() {
  if (document.activeElement === document.body) main.querySelector("h2")?.focus({ preventScroll: true });
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

async function askForToken(wasRefused) {
  const dialog = byId("token-dialog");
  const field = byId("token");
  byId("token-refused").hidden = !wasRefused;
  field.value = "";
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  return dialog.returnValue === "ok" ? field.value.trim() : null;
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address says which view is shown
  main.focus();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.isComposing || byId("token-dialog").open) return;
  if (sidebar.isOpen) sidebar.open(false);
  else shown?.stop();
});
document.addEventListener("visibilitychange", () => {
  if (document.hidden || !shown) return;
  if (!shown.isRunning && section() === "chat") shown.load();
  sidebar.refresh();
});
addEventListener("offline", () => conversations.forEach((each) => each.network(false)));
addEventListener("online", () => conversations.forEach((each) => each.network(true)));
addEventListener("hashchange", route);

route();
sidebar.refresh();
