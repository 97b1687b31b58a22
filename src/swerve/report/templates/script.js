document.documentElement.classList.add("js");
document.addEventListener("click", async (event) => {
  const button = event.target.closest(".replay button");
  if (!button) return;
  const code = button.previousElementSibling;
  try {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "copied";
  } catch {
    getSelection().selectAllChildren(code);
    button.textContent = "selected";
  }
  setTimeout(() => { button.textContent = "copy"; }, 1500);
});
const grid = document.getElementById("cards");
const address = () => new URLSearchParams(location.hash.slice(1));
/* Tables whose columns sort: by what a cell holds in data-v, as numbers if it has some, the total staying last. */
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const held = (row, place) => {
    const cell = row.cells[place];
    const text = cell.dataset.v ?? cell.textContent.trim();
    const number = Number.parseFloat(text.replaceAll(",", ""));
    return Number.isNaN(number) ? text.toLowerCase() : number;
  };
  for (const head of table.tHead.rows[0].cells) {
    if (head.classList.contains("plain")) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === (head.cellIndex ? "descending" : "ascending");
      const way = (head.cellIndex === 0) === down ? -1 : 1; // numbers from the largest first, names from A
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", way < 0 ? "descending" : "ascending");
      const rows = [...body.rows].filter((row) => !row.classList.contains("total"));
      const total = [...body.rows].filter((row) => row.classList.contains("total"));
      const compare = (a, b) => (typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1);
      rows.sort((a, b) => way * compare(held(a, head.cellIndex), held(b, head.cellIndex)));
      body.append(...rows, ...total);
    });
  }
}
if (grid) {
  const at = (id) => document.getElementById(id);
  const names = JSON.parse(at("facets").textContent);
  const selects = [...document.querySelectorAll("[data-facet]")];
  const numbers = (text) => (text ? text.split(" ") : []);
  /* A card shows one follow-up, which may have failed several rules: one entry for each of these findings. */
  const cards = [...grid.children].map((node, place) => {
    const { r, g, o, x, d, s, m } = node.dataset;
    const values = (x ?? "").split(" ");
    const groups = numbers(g);
    const origins = numbers(o);
    const slices = numbers(s);
    return {
      node,
      place,
      margin: Number(m),
      findings: numbers(r).map((rule, at) => ({
        order: Number(rule),
        rule: names.rules[rule],
        group: groups[at],
        origin: origins[at],
        value: values[at] ? Number(values[at]) : NaN,
      })),
      domain: numbers(d),
      where: Object.fromEntries(names.columns.map(([name, known], at) => [`where.${name}`, known[slices[at]]])),
      words: node.querySelector(".words").textContent,
      key: node.querySelector(".case").textContent,
      text: node.textContent.toLowerCase(),
    };
  });
  const orders = {
    "believable": (a, b) => a.place - b.place,
    "margin": (a, b) => b.margin - a.margin || a.place - b.place,
    "-margin": (a, b) => a.margin - b.margin || a.place - b.place,
    "rule": (a, b) => a.findings[0].order - b.findings[0].order || b.margin - a.margin,
    "case": (a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : b.margin - a.margin),
  };
  const OF_FINDINGS = ["rule", "group", "origin"];
  let wanted = {}; // filters by name; the address has the same
  const inside = (finding, span) => {
    const [low, high] = span.split("..").map(Number);
    return finding.value >= low - 1e-9 && finding.value <= high + 1e-9;
  };
  /* What a card offers to one facet, if it passes all other filters. */
  const offers = (card, facet) => {
    const passes = (name) => !wanted[name] || name === facet;
    if (wanted.text && !card.text.includes(wanted.text.toLowerCase())) return [];
    if (wanted.change && card.words !== wanted.change) return [];
    if (wanted.domain && facet !== "domain" && !card.domain.includes(wanted.domain)) return [];
    for (const [name, value] of Object.entries(card.where)) if (!passes(name) && value !== wanted[name]) return [];
    const found = card.findings.filter((one) => OF_FINDINGS.every((name) => passes(name) || one[name] === wanted[name])
      && (!wanted.value || inside(one, wanted.value)));
    if (!found.length) return [];
    if (facet === "domain") return card.domain;
    if (OF_FINDINGS.includes(facet)) return [...new Set(found.map((one) => one[facet]))];
    return facet in card.where ? [card.where[facet]] : [""];
  };
  const count = () => {
    for (const select of selects) {
      const counts = new Map();
      for (const card of cards) for (const value of offers(card, select.dataset.facet)) counts.set(value, (counts.get(value) ?? 0) + 1);
      for (const option of select.options) {
        if (!option.value) continue;
        option.label = `${option.textContent} (${counts.get(option.value) ?? 0})`;
        option.disabled = !counts.get(option.value) && !option.selected;
      }
    }
  };
  const show = () => {
    let shown = 0;
    for (const card of cards) {
      const fits = offers(card, "").length > 0;
      card.node.hidden = !fits;
      shown += fits;
    }
    at("shown").textContent = `${shown} of ${cards.length}`;
    at("nothing").hidden = shown > 0;
    for (const select of selects) select.value = wanted[select.dataset.facet] ?? "";
    at("text").value = wanted.text ?? "";
    for (const name of ["change", "value"]) {
      at(name).hidden = !wanted[name];
      at(name).textContent = `${wanted[name]?.replace("..", " to ")} ✕`;
    }
    at("reset").hidden = Object.keys(wanted).length === 0;
    count();
  };
  const sort = () => grid.append(...cards.sort(orders[at("sort").value]).map((card) => card.node));
  /* Filters and order in the address, beside the finding that the lightbox shows. */
  const save = () => {
    const { id } = linked;
    const params = new URLSearchParams(wanted);
    if (at("sort").value !== "believable") params.set("sort", at("sort").value);
    if (id) params.set("finding", id);
    const text = params.toString();
    history.replaceState(null, "", text ? `#${text}` : location.href.split("#")[0]);
  };
  const known = new Set([...selects.map((select) => select.dataset.facet), "text", "change", "value"]);
  const read = () => {
    const params = address();
    wanted = Object.fromEntries([...params].filter(([name, value]) => known.has(name) && value));
    at("sort").value = Object.hasOwn(orders, params.get("sort") ?? "") ? params.get("sort") : "believable";
    sort();
    show();
  };
  const set = (name, value) => {
    delete wanted[name];
    if (value) wanted[name] = value;
    save();
    show();
  };
  at("sort").addEventListener("change", () => { save(); sort(); });
  for (const select of selects) select.addEventListener("input", () => set(select.dataset.facet, select.value));
  at("text").addEventListener("input", () => set("text", at("text").value.trim()));
  for (const name of ["change", "value"]) at(name).addEventListener("click", () => set(name, ""));
  at("reset").addEventListener("click", () => { wanted = {}; save(); show(); });
  addEventListener("hashchange", () => {
    const params = address();
    const names = [...params.keys()];
    if (!names.some((name) => known.has(name))) return; // a section, or a finding
    read();
    if (!params.has("finding")) at("gallery").scrollIntoView();
  });
  read();
  if (Object.keys(wanted).length && !linked.id) at("gallery").scrollIntoView();
}
const lightbox = document.getElementById("lightbox");
if (lightbox) {
  const at = (id) => document.getElementById(id);
  const viewer = new Viewer(at("stage"));
  let shown = null;
  const side = (link) => link && { src: link.href, overlay: link.querySelector("svg")?.cloneNode(true) };
  const shot = (pair) => {
    const [source, followup] = [...pair.querySelectorAll(".pic")].map(side);
    const after = pair.nextElementSibling;
    const closeups = after?.matches(".closeups") ? after.cloneNode(true) : null;
    return { sensor: pair.dataset.sensor, source, followup, closeups };
  };
  // Previous and next follow the gallery as it is sorted and filtered; a card that is filtered out is among all of them.
  const cards = () => {
    const seen = [...grid.children].filter((card) => !card.hidden);
    return seen.includes(shown) ? seen : [...grid.children];
  };
  const idsOf = (card) => [card.id, ...(card.dataset.ids?.split(" ") ?? [])];
  const cardOf = (id) => [...grid.children].find((card) => idsOf(card).includes(id));
  /* A finding in the gallery, or the smallest failing change of a group. */
  const nodeOf = (id) => (id && (cardOf(id) ?? [...document.querySelectorAll("[data-shown]")].find((one) => one.dataset.shown === id))) || null;
  const said = (line, name) => line.querySelector(name)?.textContent ?? "";
  const show = (node) => {
    const card = node.dataset.shown ? cardOf(node.dataset.id) : node;
    shown = card;
    const all = cards();
    const place = all.indexOf(card);
    at("place").textContent = node === card ? `${place + 1} of ${all.length}` : "smallest failing change";
    at("previous").disabled = place === 0;
    at("next").disabled = place === all.length - 1;
    const [source, followup] = node.querySelectorAll(".said > span");
    viewer.caption("source", said(source, "b"), said(source, "span > bdi"));
    viewer.caption("followup", said(followup, "b"), said(followup, "span > bdi"));
    viewer.explain(said(node, ".missing"));
    at("about").replaceChildren(...["h3:has(.words)", ".why", ".also", ".smallest", ".facts", ".meta:has(.case)", ".replay"].flatMap((name) => {
      return [...node.querySelectorAll(name)].map((part) => part.cloneNode(true));
    }));
    const id = node.dataset.shown ?? node.id;
    linked.id = id;
    if (!lightbox.open) lightbox.showModal();
    at("stage").focus({ preventScroll: true });
    viewer.show([...node.querySelectorAll(".pair, .alone")].map(shot)).then((wanted) => {
      if (wanted) at("stage").dataset.shown = id;
    });
  };
  const move = (step) => {
    const next = cards()[cards().indexOf(shown) + step];
    if (next) show(next);
  };
  const follow = () => {
    const { id } = linked;
    const node = nodeOf(id);
    at("unknown").hidden = !id || Boolean(node);
    at("unknown").textContent = `Finding ${id} is not on this page.`;
    if (node) show(node);
    else lightbox.close();
  };
  const open = (picture) => {
    const card = picture.closest(".card, .group, .told");
    show(card.dataset.shown ? card : cardOf(card.dataset.id ?? card.id));
  };
  const pictures = ":is(.card, .group, .told) :is(.pic, .closeups)";
  wire({ lightbox, viewer, pictures, shown: () => shown, open, move, follow });
}
