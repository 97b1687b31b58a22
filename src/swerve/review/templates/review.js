document.documentElement.classList.add("js");
const at = (id) => document.getElementById(id);
const data = JSON.parse(at("data").textContent);
const items = data.items;
const rules = [...new Set(items.map((item) => item.key))];
const marks = new Map(Object.entries(data.marks));
const others = new Map(Object.entries(data.others));
const IDLE = 300000; // longer pauses are not counted as time spent on a finding
const KEYS = ["true positive", "false positive", "unnatural"];
const KEYS_HELD = ["natural", null, "unnatural"];
const SLOW = 300; // after this delay the page says that pictures are being made
let list = items;
let index = 0;
let pending = 0;
let saving = Promise.resolve();
let undone = [];
let lastMarked = performance.now();
let paces = [];
let fresh = false; // whether there are marks not yet downloaded, on a page without a server

const markOf = (id) => marks.get(id)?.mark ?? null;
const commentOf = (id) => marks.get(id)?.comment ?? "";
const current = () => list[index];
const keysOf = (item) => (item.held ? KEYS_HELD : KEYS);
const differs = (id) => markOf(id) !== null && (others.get(id) ?? []).some((one) => one.mark !== markOf(id));
const split = (id) => new Set((others.get(id) ?? []).map((one) => one.mark)).size > 1;
const fits = {
  all: () => true,
  todo: (item) => markOf(item.id) === null,
  marked: (item) => markOf(item.id) !== null,
  conflict: (item) => differs(item.id) || split(item.id),
};

/* Pictures */
const viewer = new Viewer(at("stage"));
const known = new Map(Object.entries(data.pictures));
const contents = known.get("") ?? {};
async function picturesOf(item) {
  if (data.offline) return known.get(item.id);
  if (!known.has(item.id)) {
    const asked = fetch(`pictures/${item.id}`).then((reply) => (reply.ok ? reply.json() : Promise.reject(reply.status)));
    known.set(item.id, asked);
    asked.catch(() => known.delete(item.id));
  }
  return known.get(item.id);
}
/* A drawing as the server made it, where every text is escaped. */
const drawing = (svg) => (svg ? new DOMParser().parseFromString(svg, "text/html").body.firstElementChild : null);
const side = (shot, name) => ({ src: contents[shot[name]] ?? shot[name], overlay: drawing(shot.drawn[name]) });
const enlarged = (shot) => {
  const strip = drawing(shot.drawn.closeups);
  for (const image of strip?.querySelectorAll("img") ?? []) image.src = contents[shot[image.dataset.side]] ?? shot[image.dataset.side];
  return strip;
};
const shotOf = (shot) => ({
  sensor: shot.sensor, source: side(shot, "source"), followup: side(shot, "followup"), closeups: enlarged(shot),
});
function awaitPictures(item) {
  if (current() !== item) return;
  viewer.explain("The pictures are being made…");
  viewer.clear(); // what is still shown belongs to the previous finding
}
async function showPictures(item) {
  let found;
  const slow = setTimeout(awaitPictures, SLOW, item);
  try {
    found = await picturesOf(item);
  } catch {
    found = { shots: [], why: "No pictures: the swerve review server does not answer." };
  }
  clearTimeout(slow);
  if (current() !== item) return;
  viewer.explain(found.why);
  if (await viewer.show(found.shots.map(shotOf))) at("stage").dataset.shown = item.id;
  const after = list[index + 1];
  if (after && !data.offline) picturesOf(after).then((more) => more.shots.slice(0, 1).forEach((one) => {
    new Image().src = one.source;
    new Image().src = one.followup;
  })).catch(() => {});
}

/* The finding */
function show() {
  const item = current();
  at("work").hidden = !item;
  at("empty").hidden = Boolean(item);
  showProgress();
  if (!item) return;
  at("words").textContent = item.words;
  at("expects").textContent = item.expects || "not recorded";
  at("why").textContent = item.why;
  at("rule-name").textContent = item.rule;
  at("case").textContent = item.case;
  at("id").textContent = item.id;
  at("origin").textContent = item.origin;
  at("origin").className = `badge ${item.origin.replaceAll(" ", "-")}`;
  viewer.caption("source", item.said.before, item.said.label);
  viewer.caption("followup", item.said.after, item.said.truth);
  at("was").textContent = item.said.before ? `source ${item.said.before}` : "";
  at("place").textContent = `${index + 1} of ${list.length}`;
  at("previous").disabled = index === 0;
  at("next").disabled = index === list.length - 1;
  at("comment").value = commentOf(item.id);
  linked.id = item.id;
  showMarks();
  showPictures(item);
}
function showMarks() {
  const item = current();
  for (const [place, button] of document.querySelectorAll(".mark").entries()) {
    const kind = keysOf(item)[place] ?? KEYS[place];
    button.disabled = !keysOf(item).includes(kind);
    button.dataset.mark = kind;
    button.querySelector("span").textContent = kind;
    button.setAttribute("aria-pressed", String(kind === markOf(item.id)));
  }
  const said = others.get(item.id) ?? [];
  at("others").replaceChildren(...said.map((one) => {
    const line = document.createElement("span");
    line.textContent = `${one.reviewer}: ${one.mark}${one.comment ? ` (${one.comment})` : ""}`;
    return line;
  }));
}
function showProgress() {
  const rule = at("rule").value;
  const all = rule === "" ? items : items.filter((item) => item.key === rules[Number(rule)]);
  const done = all.filter(fits.marked).length;
  at("done").setAttribute("width", String(all.length ? (1000 * done) / all.length : 0));
  at("progress").textContent = `${done} of ${all.length} marked${timeLeft(all.length - done)}`;
  at("undo").disabled = undone.length === 0;
}
function timeLeft(left) {
  if (paces.length < 3 || left === 0) return "";
  const middle = [...paces].sort((a, b) => a - b)[paces.length >> 1];
  const minutes = (middle * left) / 60000;
  if (minutes < 1) return ", less than a minute left";
  return minutes < 90 ? `, about ${Math.round(minutes)} min left` : `, about ${Math.round(minutes / 60)} h left`;
}
function say(text) {
  at("status").textContent = text;
}
function warn(text) {
  at("notice").textContent = text;
  at("notice").hidden = text === "";
}

/* Marks */
function put(id, mark, comment) {
  if (mark === null && comment === "") marks.delete(id);
  else marks.set(id, { mark, comment });
}
function save(id, mark, comment, words) {
  const before = marks.get(id) ?? { mark: null, comment: "" };
  put(id, mark, comment);
  if (data.offline) {
    fresh = true;
    keep();
    say(words);
    return;
  }
  pending += 1;
  saving = saving.then(() => send(id, mark, comment)).then((reply) => {
    others.set(id, reply.others);
    warn("");
    if (current()?.id === id) showMarks();
    const apart = reply.others.filter((one) => one.mark !== mark).map((one) => `${one.reviewer} says ${one.mark}`);
    say(mark !== null && apart.length ? `${words} But ${apart.join(", ")}.` : words);
  }).catch((error) => {
    put(id, before.mark, before.comment);
    undone = undone.filter((one) => one.id !== id);
    warn(`Not saved: ${error.message}`);
    const where = list.findIndex((item) => item.id === id);
    if (where >= 0) index = where;
    show();
  }).finally(() => {
    pending -= 1;
    showProgress();
  });
}
async function send(finding, mark, comment) {
  let reply;
  try {
    reply = await fetch("mark", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ finding, mark, comment }) });
  } catch {
    throw new Error("the swerve review server does not answer. Start it again and reload this page.");
  }
  if (!reply.ok) throw new Error(await reply.text());
  return reply.json();
}
function mark(kind) {
  const item = current();
  if (!item || kind === null) return;
  undone.push({ id: item.id, mark: markOf(item.id), comment: commentOf(item.id) });
  const now = performance.now();
  if (now - lastMarked < IDLE) paces = [...paces, now - lastMarked].slice(-25);
  lastMarked = now;
  const comment = at("comment").value.trim();
  const left = list.some((one) => one !== item && markOf(one.id) === null);
  save(item.id, kind, comment, `Saved: ${kind}.${left ? "" : ` All ${list.length} findings here are marked.`}`);
  const ahead = list.findIndex((one, place) => place > index && markOf(one.id) === null);
  const anywhere = ahead >= 0 ? ahead : list.findIndex((one) => markOf(one.id) === null);
  if (anywhere >= 0) index = anywhere;
  at("stage").focus({ preventScroll: true });
  show();
}
function undo() {
  const last = undone.pop();
  if (!last) return;
  if (!list.some((item) => item.id === last.id)) {
    at("rule").value = "";
    at("state").value = "all";
    choose();
  }
  index = list.findIndex((item) => item.id === last.id);
  save(last.id, last.mark, last.comment, last.mark === null ? "Undone: not marked." : `Undone: ${last.mark} again.`);
  if (last.mark === null) others.delete(last.id);
  show();
}
function keepComment() {
  const item = current();
  const comment = at("comment").value.trim();
  if (item && comment !== commentOf(item.id)) {
    save(item.id, markOf(item.id), comment, "Comment saved.");
  }
}
function move(step) {
  keepComment();
  index = Math.min(Math.max(index + step, 0), list.length - 1);
  say("");
  show();
}
function choose() {
  keepComment();
  const rule = at("rule").value;
  const held = current();
  list = items.filter((item) => (rule === "" || item.key === rules[Number(rule)]) && fits[at("state").value](item));
  const again = list.indexOf(held);
  index = again >= 0 ? again : Math.max(list.findIndex(fits.todo), 0);
  show();
}

/* A page without a server */
function keep() {
  try {
    localStorage.setItem(`swerve review ${data.key}`, JSON.stringify([...marks]));
  } catch {
    warn("This browser stores nothing for local files: download the marks before you close the page.");
  }
}
function remembered() {
  try {
    for (const [id, one] of JSON.parse(localStorage.getItem(`swerve review ${data.key}`) ?? "[]")) {
      const item = items.find((other) => other.id === id);
      if (item) put(id, keysOf(item).includes(one.mark) ? one.mark : null, String(one.comment));
    }
  } catch {
    /* nothing stored */
  }
}
function cell(text) {
  // A spreadsheet would take such a cell for a formula; `swerve review --import` removes the quote.
  const safe = /^'*[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r;]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
function download() {
  const name = at("reviewer").value.trim();
  if (name === "") {
    warn("Enter your name first: the file of marks needs it.");
    at("reviewer").focus();
    return;
  }
  keepComment();
  const rows = [["reviewer", "finding", "mark", "comment"]];
  for (const [id, one] of marks) rows.push([name, id, one.mark ?? "", one.comment]);
  const text = rows.map((row) => row.map(cell).join(",")).join("\n") + "\n";
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.download = `marks-${name.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") || "reviewer"}.csv`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  fresh = false;
  warn("");
  say(`${marks.size} marks downloaded as ${link.download}.`);
}

/* Keys and buttons */
const actions = {
  ...Object.fromEntries(KEYS.map((_, place) => [place + 1, () => mark(keysOf(current())[place])])),
  ArrowLeft: () => move(-1), ArrowRight: () => move(1), u: undo,
  c: () => at("comment").focus(),
  Escape: () => viewer.view("both"),
  ...viewer.keys,
};
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (event.target.matches("textarea, input, select")) {
    if (key === "Escape" || (key === "Enter" && event.target.matches("textarea") && !event.shiftKey)) {
      event.preventDefault();
      event.target.blur();
    }
    return;
  }
  if (event.target.matches("button") && (key === " " || key === "Enter")) return;
  if (!(key in actions)) return;
  event.preventDefault();
  // A key held down may move through findings but must not mark them.
  if (event.repeat && !key.startsWith("Arrow")) return;
  if (current()) actions[key]();
});
for (const button of document.querySelectorAll(".mark")) button.addEventListener("click", () => mark(button.dataset.mark));
at("previous").addEventListener("click", () => move(-1));
at("next").addEventListener("click", () => move(1));
at("undo").addEventListener("click", undo);
at("comment").addEventListener("blur", keepComment);
at("rule").addEventListener("change", choose);
at("state").addEventListener("change", choose);
if (data.offline) {
  remembered();
  at("download").addEventListener("click", download);
}
addEventListener("beforeunload", (event) => {
  if (pending || fresh) event.preventDefault();
});
// Reset form values that a browser restores on reload.
at("rule").value = "";
at("state").value = "all";
function follow() {
  const place = items.findIndex((item) => item.id === linked.id);
  if (place < 0 || items[place] === current()) return;
  keepComment();
  at("rule").value = "";
  at("state").value = "all";
  list = items;
  index = place;
  show();
}
addEventListener("hashchange", follow);
index = Math.max(items.findIndex(linked.id ? (item) => item.id === linked.id : fits.todo), 0);
show();
