// The script of the dashboard: shows views, keeps them up to date, and keeps focus and open parts where they are.

const PAGES = [
  { id: "overview", title: "Overview", parts: ["warnings", "waiting", "evictions"] },
  { id: "queues", title: "Queues", parts: ["queues"] },
  { id: "gangs", title: "Gangs", parts: ["gangs"] },
  { id: "nodes", title: "Nodes", parts: ["groups", "nodes"] },
  { id: "topology", title: "Topology", parts: ["topology"] },
  { id: "devices", title: "Devices", parts: ["devices"] },
  { id: "policies", title: "Policies", parts: ["policies"] },
  { id: "timeline", title: "Timeline", parts: ["timeline", "placements"] },
];
const ANNOUNCE_MS = 5000;
const $ = (id) => document.getElementById(id);
const main = $("main");

let status = null; // /api/v1/status
let version = -1; // of what is on the page
let at = null; // the cycle that is shown; null: the latest
let decision = null; // the other decision that is shown
let etags = new Map(); // part → its ETag on the page
let loading = null; // the AbortController of the current load
let announced = 0;

const text = (tag, content, attributes = {}) => {
  const made = document.createElement(tag);
  made.textContent = content;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
};

const page = () => PAGES.find((one) => `#${one.id}` === location.hash) ?? PAGES[0];

function query(extra = {}) {
  const given = new URLSearchParams(extra);
  if (decision !== null) given.set("decision", decision.id);
  else if (at !== null) given.set("at", at);
  const made = given.toString();
  return made ? `?${made}` : "";
}

async function get(path, options = {}) {
  const response = await fetch(path, { credentials: "same-origin", ...options });
  if (response.status === 401) location.assign("/login");
  if (!response.ok && response.status !== 304) {
    const fault = await response.json().catch(() => ({ error: response.statusText }));
    throw new Error(fault.error || response.statusText);
  }
  return response;
}

function announce(message, always = false) {
  if (!always && Date.now() - announced < ANNOUNCE_MS) return;
  announced = Date.now();
  $("announce").textContent = message;
}

// --- the frame

function showFrame() {
  const figures = [["pods", "pods"], ["bound", "on nodes"], ["pending", "waiting"], ["evicted", "evicted"], ["nodes", "nodes"]];
  $("source").textContent = `${status.title} · ${status.configuration}`;
  document.title = `${page().title} · ${status.title} · muster dashboard`;
  $("top-figures").replaceChildren(...figures.map(([key, name]) => {
    const item = document.createElement("li");
    item.append(text("b", status.figures[key].toLocaleString("en")), ` ${name}`);
    return item;
  }));
  $("views").replaceChildren(...PAGES.map((one) => {
    const item = document.createElement("li");
    const link = text("a", one.title, { href: `#${one.id}` });
    if (one === page()) link.setAttribute("aria-current", "page");
    item.append(link);
    return item;
  }));
}

function showMoment() {
  $("moment").hidden = at === null && decision === null;
  $("moment-text").textContent = decision !== null
    ? `These are the decisions of ${decision.name}${at === null ? "" : ` after cycle ${at}`}, not those of ${status.configuration}.`
    : `This is the state after cycle ${at}.`;
}

// --- views

/** A path from `main` to an element that survives a replacement of the content. */
function mark(element) {
  if (element === null || !main.contains(element) || element === main) return null;
  if (element.id) return `#${CSS.escape(element.id)}`;
  for (const name of ["data-pod", "data-node", "data-queue", "data-cycle"]) {
    const value = element.getAttribute(name);
    if (value !== null) return `${element.localName}[${name}="${CSS.escape(value)}"]`;
  }
  const part = element.closest("[data-part]");
  const index = part ? [...part.querySelectorAll(element.localName)].indexOf(element) : -1;
  return index < 0 ? null : { part: part.dataset.part, tag: element.localName, index };
}

function find(marked) {
  if (marked === null) return null;
  if (typeof marked === "string") return main.querySelector(marked);
  const part = main.querySelector(`[data-part="${marked.part}"]`);
  return part ? part.querySelectorAll(marked.tag)[marked.index] ?? null : null;
}

/** Makes pods and cycles into buttons, for the mouse and the keyboard. A list item or a cell stays what it is. */
function enhance(part) {
  for (const given of part.querySelectorAll("[data-pod],[data-cycle]")) {
    if (!(given instanceof HTMLElement) || given.closest("summary")) continue;
    let button = given;
    if (given.localName !== "span") {
      button = document.createElement("span");
      button.append(...given.childNodes);
      for (const name of ["data-pod", "data-cycle"]) {
        if (given.hasAttribute(name)) button.setAttribute(name, given.getAttribute(name));
        given.removeAttribute(name);
      }
      given.append(button);
    }
    button.setAttribute("role", "button");
    button.setAttribute("tabindex", "0");
  }
}

function replace(part, html) {
  const focused = mark(part.contains(document.activeElement) ? document.activeElement : null);
  const open = [...part.querySelectorAll("details")].map((one) => one.open);
  const scrolled = [...part.querySelectorAll("[tabindex='0']")].map((one) => one.scrollLeft);
  const parsed = new DOMParser().parseFromString(html, "text/html");
  part.replaceChildren(...parsed.body.childNodes);
  if (open.length) [...part.querySelectorAll("details")].forEach((one, i) => { if (i < open.length) one.open = open[i]; });
  [...part.querySelectorAll("[tabindex='0']")].forEach((one, i) => { if (scrolled[i]) one.scrollLeft = scrolled[i]; });
  enhance(part);
  find(focused)?.focus({ preventScroll: true });
}

async function load(changedPage) {
  loading?.abort();
  loading = new AbortController();
  const { signal } = loading;
  const shown = page();
  if (changedPage) {
    etags = new Map();
    const parts = shown.parts.map((name) => text("div", "", { "data-part": name }));
    main.setAttribute("aria-label", shown.title);
    // The controls stay where they are, so that they keep the focus.
    const kept = shown.id === "timeline" ? main.querySelector("form.controls") ?? controls() : null;
    if (kept && decision !== null) parts.unshift(text("div", "", { "data-part": "comparison" }));
    for (const child of [...main.childNodes]) if (child !== kept) child.remove();
    if (kept && !main.contains(kept)) main.append(kept);
    main.append(...parts);
    moveSlider();
  }
  main.setAttribute("aria-busy", "true");
  try {
    await Promise.all([...main.querySelectorAll("[data-part]")].map(async (part) => {
      const name = part.dataset.part;
      const where = name === "timeline" ? "" : query();
      const known = etags.get(name);
      const response = await get(`/views/${name}${where}`, { signal, cache: "no-store", headers: known ? { "If-None-Match": known } : {} });
      if (response.status === 304) return;
      const html = await response.text();
      etags.set(name, response.headers.get("ETag"));
      replace(part, html);
    }));
    main.querySelector(".problem")?.remove();
  } catch (fault) {
    if (fault.name === "AbortError") return;
    main.querySelector(".problem")?.remove();
    main.prepend(text("p", fault.message, { class: "problem", role: "alert" }));
  }
  main.setAttribute("aria-busy", "false");
}

// --- the timeline: earlier cycles, other configurations

function controls() {
  const box = text("form", "", { class: "controls", "aria-label": "Cycle and configuration" });
  const label = text("label", "", { for: "cycle" });
  const range = text("input", "", { type: "range", id: "cycle", min: "0", max: String(status.cycles), value: String(at ?? status.cycles) });
  const name = () => { label.textContent = `State after cycle ${range.value} of ${range.max}`; };
  name();
  range.addEventListener("input", name);
  range.addEventListener("change", () => show({ cycle: Number(range.value) }));
  const row = text("div", "", { class: "fields" });
  const select = text("select", "", { id: "configuration" });
  for (const one of status.configurations) select.append(text("option", one, { value: one }));
  const file = text("input", "", { type: "file", id: "file", accept: ".yaml,.yml,.conf,.json" });
  const button = text("button", "Decide again from this cycle", { type: "submit" });
  const field = (given, words) => {
    const made = document.createElement("div");
    made.append(text("label", words, { for: given.id }), given);
    return made;
  };
  row.append(field(select, "Configuration"), field(file, "or a file"), button);
  box.append(label, range, row);
  box.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    announce("Deciding again …", true);
    try {
      const chosen = file.files[0];
      const body = { configuration: chosen ? chosen.name : select.value, cycle: at };
      if (chosen) body.text = await chosen.text();
      const response = await get("/api/v1/redecide", {
        method: "POST", body: JSON.stringify(body),
        headers: { "Content-Type": "application/json", "X-Requested-By": "dashboard" },
      });
      const found = await response.json();
      show({ cycle: at, decision: { id: found.id, name: body.configuration } });
    } catch (fault) {
      main.querySelector(".problem")?.remove();
      box.after(text("p", fault.message, { class: "problem", role: "alert" }));
    }
    button.disabled = false;
  });
  return box;
}

function moveSlider() {
  const cycle = $("cycle");
  if (!cycle || cycle === document.activeElement) return;
  cycle.max = String(status.cycles);
  cycle.value = String(at ?? status.cycles);
  cycle.dispatchEvent(new Event("input"));
}

async function show({ cycle = null, decision: other = null }) {
  at = cycle === status.cycles && other === null ? null : cycle;
  decision = other;
  showMoment();
  await load(true);
  announce(at === null && decision === null ? "The latest state is shown." : $("moment-text").textContent, true);
}

// --- explanations

async function explain(pod) {
  const dialog = $("explain");
  $("explain-title").textContent = `Explanation of ${pod}`;
  $("explain-body").replaceChildren(text("p", "Computing …"));
  if (!dialog.open) dialog.showModal();
  $("explain-title").focus();
  try {
    const response = await get(`/views/explain${query({ pod })}`);
    const parsed = new DOMParser().parseFromString(await response.text(), "text/html");
    $("explain-body").replaceChildren(...parsed.body.childNodes);
    enhance($("explain-body"));
    announce(`The explanation of ${pod} is shown.`, true);
  } catch (fault) {
    $("explain-body").replaceChildren(text("p", fault.message, { class: "problem", role: "alert" }));
  }
}

function activated(event) {
  const found = event.target.closest("[data-pod],[data-cycle]");
  if (!found || event.target.closest("summary")) return;
  if (event.type === "keydown" && (!["Enter", " "].includes(event.key) || found.matches("a,button"))) return;
  event.preventDefault();
  if (found.dataset.pod !== undefined) explain(found.dataset.pod);
  else show({ cycle: Number(found.dataset.cycle) });
}

for (const place of [main, $("explain-body")]) {
  place.addEventListener("click", activated);
  place.addEventListener("keydown", activated);
}
$("explain-close").addEventListener("click", () => $("explain").close());
$("moment-back").addEventListener("click", async () => {
  await show({});
  main.focus();
});
window.addEventListener("hashchange", async () => {
  showFrame();
  await load(true);
  main.focus({ preventScroll: true });
  window.scrollTo(0, 0);
});

// --- updates

async function refresh() {
  const first = status === null;
  status = await (await get("/api/v1/status", { cache: "no-store" })).json();
  version = status.version;
  showFrame();
  moveSlider();
  if (first || (at === null && decision === null)) await load(first);
  if (first) performance.mark("loaded");
  if (!first) announce(`Updated: ${status.figures.pending} pods wait, ${status.figures.bound} are on nodes.`);
}

let busy = false;
let again = false;
async function update(event) {
  const found = JSON.parse(event.data);
  const when = found.time > 0 ? `${new Date(found.time * 1000).toISOString().slice(0, 19).replace("T", " ")} UTC` : "";
  const changes = found.changes > 0 ? `${found.changes.toLocaleString("en")} changes seen` : "";
  $("state").textContent = [when, changes].filter(Boolean).join(" · ");
  if (found.version === version) return;
  if (busy) { again = true; return; }
  busy = true;
  try {
    do {
      again = false;
      await refresh();
    } while (again);
  } catch (fault) {
    $("state").textContent = fault.message;
  }
  busy = false;
}

const events = new EventSource("/api/v1/events");
events.addEventListener("update", update);
events.addEventListener("error", () => { $("state").textContent = "The connection is lost; trying again …"; });
