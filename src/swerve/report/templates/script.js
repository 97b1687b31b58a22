"use strict";
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
if (grid) {
  const control = Object.fromEntries(["sort", "rule", "group", "origin", "text"].map((id) => [id, document.getElementById(id)]));
  const cards = [...grid.children].map((node) => ({
    node,
    margin: Number(node.dataset.m),
    rule: Number(node.dataset.r),
    group: node.dataset.g,
    origin: node.dataset.o,
    key: node.querySelector(".case").textContent,
    text: node.textContent.toLowerCase(),
  }));
  const orders = {
    "margin": (a, b) => b.margin - a.margin,
    "-margin": (a, b) => a.margin - b.margin,
    "rule": (a, b) => a.rule - b.rule || b.margin - a.margin,
    "case": (a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : b.margin - a.margin),
  };
  const filter = () => {
    const wanted = control.text.value.trim().toLowerCase();
    let shown = 0;
    for (const card of cards) {
      const fits = (control.rule.value === "" || card.rule === Number(control.rule.value))
        && (control.group.value === "" || card.group === control.group.value)
        && (control.origin.value === "" || card.origin === control.origin.value)
        && card.text.includes(wanted);
      card.node.hidden = !fits;
      shown += fits;
    }
    document.getElementById("shown").textContent = `${shown} of ${cards.length}`;
    document.getElementById("nothing").hidden = shown > 0;
  };
  const sort = () => grid.append(...cards.sort(orders[control.sort.value]).map((card) => card.node));
  control.sort.addEventListener("change", sort);
  for (const name of ["rule", "group", "origin", "text"]) control[name].addEventListener("input", filter);
  document.addEventListener("click", (event) => {
    const link = event.target.closest(".filter");
    if (!link) return;
    for (const name of ["rule", "origin", "text"]) control[name].value = "";
    control.group.value = link.dataset.g;
    filter();
  });
  // Apply form values that a browser restores on reload.
  sort();
  filter();
}
