"use strict";
(() => {
  const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const minus = (text) => text.replace("-", "\u2212");

  // The molecule ------------------------------------------------------------------------------------------

  const view = document.getElementById("view");
  const data = document.getElementById("structures");
  if (view && data) startViewer(view, JSON.parse(data.textContent));

  function startViewer(view, structures) {
    const canvas = document.createElement("div");
    canvas.className = "canvas";
    let viewer = null;
    if (hasWebGL()) {
      view.append(canvas);
      viewer = globalThis["3Dmol"].createViewer(canvas, { id: "canvas", antialias: true, disableFog: true });
    }
    const state = { structure: 0, style: "balls", hydrogens: true };
    if (viewer) {
      show3D(viewer, view, canvas, structures, state);
    } else {
      document.getElementById("no-webgl").hidden = false;
      all("[data-tool]").forEach((button) => (button.hidden = true));
      view.removeAttribute("tabindex");
      view.setAttribute("role", "img");
    }
    const still = view.querySelector(".still use");
    const buttons = all("[data-structure]");
    const name = view.getAttribute("aria-label").slice(0, -structures[0].label.length);
    buttons.forEach((button) =>
      button.addEventListener("click", () => {
        state.structure = Number(button.dataset.structure);
        const chosen = structures[state.structure];
        press(buttons, button);
        still.setAttribute("href", `#still-${state.structure}`);
        view.setAttribute("aria-label", name + chosen.label);
        document.getElementById("view-status").textContent = `Showing ${chosen.label}, ${chosen.note}`;
        if (viewer) draw(viewer, structures, state);
      })
    );
  }

  function hasWebGL() {
    const canvas = document.createElement("canvas");
    return Boolean(globalThis["3Dmol"] && (canvas.getContext("webgl2") || canvas.getContext("webgl")));
  }

  function press(buttons, chosen) {
    buttons.forEach((button) => button.setAttribute("aria-pressed", String(button === chosen)));
  }

  function draw(viewer, structures, state) {
    viewer.removeAllModels();
    viewer.removeAllLabels();
    viewer.addModel(structures[state.structure].pdb, "pdb", { keepH: true });
    nameAtoms(viewer);
    fit(viewer);
    restyle(viewer, state);
  }

  function nameAtoms(viewer) {
    const label = document.getElementById("atom-name");
    const tell = (atom) => {
      label.textContent = `${atom.resn} ${atom.resi} ${atom.atom}`;
      label.hidden = false;
    };
    label.hidden = true;
    viewer.setHoverDuration(50);
    viewer.setHoverable({}, true, tell, () => (label.hidden = true));
    viewer.setClickable({}, true, tell);
  }

  // The whole molecule in whatever direction it is turned: it fits the height, or the width where that is less.
  function fit(viewer) {
    const { clientWidth, clientHeight } = viewer.container;
    viewer.zoomTo();
    viewer.zoom(Math.min(1.3, clientWidth / clientHeight));
  }

  function restyle(viewer, state) {
    viewer.setBackgroundColor(colour("--stage"), 1);
    const map = {};
    for (const symbol of ["C", "H", "N", "O", "S", "P"]) map[symbol] = colour(`--${symbol}`);
    const colorscheme = { prop: "elem", map };
    const style =
      state.style === "balls"
        ? { stick: { radius: 0.13, colorscheme }, sphere: { scale: 0.25, colorscheme } }
        : { sphere: { colorscheme } };
    viewer.setStyle({}, style);
    if (!state.hydrogens) viewer.setStyle({ elem: "H" }, {});
    viewer.render();
  }

  function show3D(viewer, view, canvas, structures, state) {
    draw(viewer, structures, state);
    const start = viewer.getView();
    view.classList.add("live");
    view.querySelector(".still").style.display = "none";
    canvas.querySelector("canvas")?.setAttribute("aria-hidden", "true");

    // A page must scroll past the picture: it takes the wheel and the finger only once it was chosen.
    for (const kind of ["wheel", "DOMMouseScroll", "mousewheel", "touchstart", "touchmove", "touchend"]) {
      const passBy = (event) => {
        if (document.activeElement !== view) event.stopPropagation();
      };
      view.addEventListener(kind, passBy, { capture: true, passive: true });
    }
    view.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "mouse") view.focus({ preventScroll: true });
    });
    view.addEventListener("click", () => view.focus({ preventScroll: true }));

    const reset = () => {
      viewer.setView(start);
      fit(viewer);
    };
    const turns = { ArrowLeft: [-8, "y"], ArrowRight: [8, "y"], ArrowUp: [-8, "x"], ArrowDown: [8, "x"] };
    const zooms = { "+": 1.15, "=": 1.15, "-": 1 / 1.15, "\u2212": 1 / 1.15 };
    view.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (turns[event.key]) viewer.rotate(...turns[event.key]);
      else if (zooms[event.key]) viewer.zoom(zooms[event.key]);
      else if (event.key === "0") reset();
      else if (event.key === "Escape") view.blur();
      else return;
      viewer.render();
      event.preventDefault();
    });

    const styles = all('[data-tool="balls"], [data-tool="spheres"]');
    const act = (tool, button) => {
      if (tool === "reset") reset();
      else if (tool === "hydrogens") button.setAttribute("aria-pressed", String((state.hydrogens = !state.hydrogens)));
      else press(styles, button), (state.style = tool);
      restyle(viewer, state);
    };
    all("[data-tool]").forEach((button) => button.addEventListener("click", () => act(button.dataset.tool, button)));
    dark.addEventListener("change", () => restyle(viewer, state));
    new ResizeObserver(() => viewer.resize()).observe(canvas);
  }

  // Numbers below plots -----------------------------------------------------------------------------------

  const svgElement = (name, attributes) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };

  for (const figure of all("figure.panel")) {
    const plot = figure.querySelector(".plot");
    const cells = figure.querySelector(".cells");
    const tell = cells ? surfaceReader(cells) : plot.dataset.readout ? lineReader(plot.dataset.readout) : null;
    if (tell) readable(figure, plot, tell);
  }

  function readable(figure, plot, tell) {
    const caption = figure.querySelector(".caption");
    const said = caption.innerHTML;
    const [left, top, width, height] = ["left", "top", "width", "height"].map((key) => Number(plot.dataset[key]));
    let mark = null;
    const clear = () => {
      mark?.remove();
      mark = null;
      caption.innerHTML = said;
    };
    const point = (event) => {
      const box = plot.getBoundingClientRect();
      const scale = box.width / plot.viewBox.baseVal.width;
      const x = (event.clientX - box.left) / scale - left;
      const y = (event.clientY - box.top) / scale - top;
      if (x < 0 || y < 0 || x > width || y > height) return clear();
      const found = tell(x, y, width, height);
      mark?.remove();
      mark = found.mark;
      plot.querySelector(".inside").append(mark);
      caption.innerHTML = "";
      // Only "k_BT" is set specially; everything else stays text.
      found.text.split(/k_BT/).forEach((part, place) => {
        if (place) caption.append(kT());
        caption.append(part);
      });
    };
    plot.addEventListener("pointermove", point);
    plot.addEventListener("pointerdown", point);
    plot.addEventListener("pointerleave", clear);
  }

  function kT() {
    const made = document.createElement("span");
    made.className = "one";
    const below = document.createElement("sub");
    below.textContent = "B";
    made.append("k", below, "T");
    return made;
  }

  function lineReader(written) {
    const { x: places, text } = JSON.parse(written);
    return (x, y, width, height) => {
      let best = 0;
      places.forEach((place, index) => {
        if (Math.abs(place - x) < Math.abs(places[best] - x)) best = index;
      });
      const at = places[best];
      return { text: text[best], mark: svgElement("line", { class: "hair", x1: at, x2: at, y1: 0, y2: height }) };
    };
  }

  function surfaceReader(cells) {
    const levels = Uint8Array.from(atob(cells.dataset.levels), (sign) => sign.charCodeAt(0));
    const [columns, rows, low, high] = ["columns", "rows", "low", "high"].map((key) => Number(cells.dataset[key]));
    const ranges = ["x", "y"].map((key) => cells.dataset[key].split(" ").map(Number));
    return (x, y, width, height) => {
      const column = Math.min(Math.floor((x / width) * columns), columns - 1);
      const row = Math.min(Math.floor((y / height) * rows), rows - 1);
      const level = levels[row * columns + column];
      const shares = [(column + 0.5) / columns, 1 - (row + 0.5) / rows];
      const [a, b] = ranges.map(([start, end], axis) => {
        const digits = Math.max(0, Math.ceil(-Math.log10((end - start) / (axis ? rows : columns))));
        return minus((start + shares[axis] * (end - start)).toFixed(digits));
      });
      const value = level === 255 ? "empty" : `${minus((low + (level / 254) * (high - low)).toFixed(1))} k_BT`;
      const spot = { class: "spot", cx: ((column + 0.5) / columns) * width, cy: ((row + 0.5) / rows) * height, r: 4 };
      const text = `${cells.dataset.xLabel} ${a}, ${cells.dataset.yLabel} ${b}: ${value}`;
      return { text, mark: svgElement("circle", spot) };
    };
  }

  // Copying -----------------------------------------------------------------------------------------------

  if (navigator.clipboard) {
    for (const button of all("[data-copy]")) {
      button.hidden = false;
      button.addEventListener("click", async () => {
        const source = document.getElementById(button.dataset.copy);
        try {
          await navigator.clipboard.writeText(source.textContent);
          button.textContent = "Copied";
        } catch {
          getSelection().selectAllChildren(source);
          button.textContent = "Selected";
        }
        setTimeout(() => (button.textContent = "Copy"), 2000);
      });
    }
  }
})();
