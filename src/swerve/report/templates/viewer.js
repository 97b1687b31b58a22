"use strict";
/* The viewer of the report's lightbox and of the review page: source and follow-up, with what is drawn over them. */
class Viewer {
  constructor(stage) {
    this.stage = stage;
    this.bar = stage.nextElementSibling;
    this.enlarged = this.bar.nextElementSibling; // single objects
    this.wipe = stage.querySelector(".wipe");
    this.frames = { source: stage.querySelector("#source .frame"), followup: stage.querySelector("#followup .frame") };
    this.shots = [];
    this.place = 0; // of the shot that is shown
    this.asked = 0; // how many times pictures were asked for; only the last are shown
    this.keys = {
      " ": () => this.view(this.kind === "followup" ? "source" : "followup"),
      z: () => this.view(this.kind === "both" ? "followup" : "both"),
      s: () => this.view(this.kind === "slider" ? "both" : "slider"),
      x: () => this.view(this.kind === "difference" ? "both" : "difference"),
      d: () => this.bare(),
      p: () => this.turn(),
    };
    for (const frame of Object.values(this.frames)) {
      frame.addEventListener("click", (event) => this.zoom(event));
      frame.addEventListener("pointermove", (event) => this.aim(event));
    }
    this.bar.addEventListener("click", (event) => {
      const key = event.target.closest("button")?.dataset.key;
      if (key) this.key(key);
      stage.focus({ preventScroll: true }); // so that Space flips, and does not press the button again
    });
    this.wipe.addEventListener("input", () => stage.style.setProperty("--at", `${this.wipe.value}%`));
    this.wipe.addEventListener("pointerup", () => stage.focus({ preventScroll: true }));
  }

  get kind() {
    return this.stage.dataset.view;
  }

  /* Whether a key is the viewer's; it then acts. */
  key(name) {
    if (!Object.hasOwn(this.keys, name)) return false;
    this.keys[name]();
    return true;
  }

  view(kind) {
    this.stage.dataset.view = kind;
    for (const button of this.bar.querySelectorAll("[data-view]")) {
      button.setAttribute("aria-pressed", String(button.dataset.view === kind));
    }
  }

  bare() {
    const on = document.body.classList.toggle("bare");
    this.bar.querySelector("[data-key=d]").setAttribute("aria-pressed", String(on));
  }

  /* Show the first of some shots, each { sensor, source, followup } of { src, overlay }; whether it is still wanted then. */
  async show(shots, place = 0) {
    this.shots = shots;
    this.place = place;
    this.asked += 1;
    const asked = this.asked;
    const shot = shots[place];
    await Promise.all(Object.entries(this.frames).map(async ([side, frame]) => {
      const image = new Image();
      const picture = shot?.[side];
      image.alt = side === "source" ? "source" : "follow-up";
      image.hidden = !picture;
      if (picture) {
        image.src = picture.src;
        await image.decode().catch(() => {});
      }
      if (asked !== this.asked) return;
      frame.classList.remove("close");
      frame.replaceChildren(image, ...(picture?.overlay ? [picture.overlay] : []));
      const states = picture?.overlay?.getAttribute("aria-label"); // how many boxes are kept, lost and so on
      if (states) frame.nextElementSibling.querySelector("bdi").textContent = states;
      if (states && side === "followup") this.stage.querySelector("#was").textContent = "";
    }));
    if (asked !== this.asked) return false;
    if (shot?.said) for (const side of Object.keys(this.frames)) this.name(side, ...shot.said[side]);
    this.stage.classList.toggle("alone", Boolean(shot && !shot.followup));
    for (const key of this.bar.querySelectorAll("[data-kind]")) {
      key.hidden = !this.stage.querySelector(`.overlay path.${key.dataset.kind}`);
    }
    this.enlarged.replaceChildren(...(shot?.closeups ? [shot.closeups] : []));
    const more = this.bar.querySelector("#sensor");
    more.hidden = shots.length < 2;
    more.querySelector("span").textContent = shots.length < 2 ? "" : `${shot.sensor}, ${place + 1} of ${shots.length}`;
    return true;
  }

  /* Remove what is shown, which belongs to another finding. */
  clear() {
    this.enlarged.replaceChildren();
    for (const frame of Object.values(this.frames)) {
      for (const part of frame.children) part.hidden = true;
      frame.querySelector("svg")?.remove();
    }
  }

  turn() {
    if (this.shots.length > 1) this.show(this.shots, (this.place + 1) % this.shots.length);
  }

  caption(side, said, label) {
    const line = this.stage.querySelector(`#${side} .caption`);
    line.querySelector("bdi").textContent = said;
    line.querySelector("i").textContent = label ? `label ${label}` : "";
  }

  /* What a pane shows, for shots of other than source and follow-up: { said: { source: [name, text], … } }. */
  name(side, name, said) {
    const line = this.stage.querySelector(`#${side} .caption`);
    const states = this.frames[side].querySelector("svg")?.getAttribute("aria-label");
    line.querySelector("span").textContent = name;
    line.querySelector("bdi").textContent = [said, states].filter(Boolean).join(": ");
  }

  explain(why) {
    const line = this.stage.querySelector(".missing");
    line.textContent = why;
    line.hidden = why === "";
  }

  zoom(event) {
    const on = !event.currentTarget.classList.contains("close");
    this.aim(event, true);
    for (const frame of Object.values(this.frames)) frame.classList.toggle("close", on);
  }

  aim(event, always = false) {
    const frame = event.currentTarget;
    if (!always && !frame.classList.contains("close")) return;
    const edge = frame.getBoundingClientRect();
    this.stage.style.setProperty("--x", `${(100 * (event.clientX - edge.left)) / edge.width}%`);
    this.stage.style.setProperty("--y", `${(100 * (event.clientY - edge.top)) / edge.height}%`);
  }
}
/* A finding in the address, #finding=ID beside anything else there, and the same when it changes. */
const linked = {
  get id() {
    const id = new URLSearchParams(location.hash.slice(1)).get("finding") ?? "";
    return /^[\w-]+$/.test(id) ? id : "";
  },
  set id(id) {
    if (id === this.id) return;
    const params = new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
    params.delete("finding");
    if (id) params.set("finding", id);
    const text = params.toString();
    history.replaceState(null, "", text ? `#${text}` : location.href.split("#")[0]);
  },
};
/* The lightbox of cards: a picture opens it, keys and buttons lead through it, and the address has its finding.
   `pictures` selects those that open it; `shown`, `open`, `move` and `follow` are the page's own. */
const wire = ({ lightbox, viewer, pictures, shown, open, move, follow }) => {
  const at = (id) => document.getElementById(id);
  lightbox.addEventListener("close", () => {
    linked.id = "";
    shown()?.scrollIntoView({ block: "nearest" });
  });
  document.addEventListener("click", (event) => {
    const picture = event.target.closest(pictures);
    if (!picture || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    open(picture);
  });
  lightbox.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.matches("input")) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (event.target.matches("button") && (key === " " || key === "Enter")) return;
    const step = { ArrowLeft: -1, ArrowRight: 1 }[key];
    if (step) move(step);
    if (step || (!event.repeat && viewer.key(key))) event.preventDefault();
  });
  at("previous").addEventListener("click", () => move(-1));
  at("next").addEventListener("click", () => move(1));
  at("close").addEventListener("click", () => lightbox.close());
  addEventListener("hashchange", follow);
  follow();
};
