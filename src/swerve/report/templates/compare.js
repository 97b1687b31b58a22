document.documentElement.classList.add("js");
const at = (id) => document.getElementById(id);
const cards = [...document.querySelectorAll(".card")].map((node) => ({ node, rule: node.dataset.r, text: node.textContent.toLowerCase() }));
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
if (cards.length) {
  const rule = at("rule");
  const text = at("text");
  const filter = () => {
    const wanted = text.value.trim().toLowerCase();
    for (const card of cards) card.node.hidden = !((rule.value === "" || card.rule === rule.value) && card.text.includes(wanted));
    at("shown").textContent = `${cards.filter((card) => !card.node.hidden).length} of ${cards.length}`;
  };
  rule.addEventListener("input", filter);
  text.addEventListener("input", filter);
  filter(); // form values that a browser restores on reload

  const lightbox = at("lightbox");
  const viewer = new Viewer(at("stage"));
  let shown = null;
  const side = (link) => link && { src: link.href, overlay: link.querySelector("svg")?.cloneNode(true) };
  const shot = (pair) => {
    const [source, followup] = [...pair.querySelectorAll(".pic")].map(side);
    const said = (place) => [pair.dataset.names.split("|")[place], pair.dataset.said.split("|")[place]];
    return { sensor: pair.dataset.sensor, source, followup, said: { source: said(0), followup: said(1) } };
  };
  // Previous and next follow the sections in order, as they are filtered; a card that is filtered out is among all of them.
  const all = () => {
    const seen = cards.map((card) => card.node).filter((node) => !node.hidden);
    return seen.includes(shown) ? seen : cards.map((card) => card.node);
  };
  const show = (card) => {
    shown = card;
    const order = all();
    const place = order.indexOf(card);
    at("place").textContent = `${place + 1} of ${order.length}`;
    at("previous").disabled = place === 0;
    at("next").disabled = place === order.length - 1;
    viewer.explain(card.querySelector(".missing")?.textContent ?? "");
    at("about").replaceChildren(...["h3", ".why", ".meta", ".replay"].flatMap((name) => {
      return [...card.querySelectorAll(name)].map((part) => part.cloneNode(true));
    }));
    linked.id = card.id;
    if (!lightbox.open) lightbox.showModal();
    at("stage").focus({ preventScroll: true });
    viewer.show([...card.querySelectorAll(".pair")].map(shot)).then((wanted) => {
      if (wanted) at("stage").dataset.shown = card.id;
    });
  };
  const move = (step) => {
    const order = all();
    const next = order[order.indexOf(shown) + step];
    if (next) show(next);
  };
  const follow = () => {
    const card = cards.find((one) => one.node.id === linked.id)?.node;
    at("unknown").hidden = !linked.id || Boolean(card);
    at("unknown").textContent = `Finding ${linked.id} is not on this page.`;
    if (card) show(card);
    else lightbox.close();
  };
  wire({ lightbox, viewer, pictures: ".card .pic", shown: () => shown, open: (picture) => show(picture.closest(".card")), move, follow });
}
