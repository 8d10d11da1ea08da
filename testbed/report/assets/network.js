// The drawing of a network at a time: ports by their pauses, halves of cables by load, bars in switches by use, and the
// same in words. Reports and the live view both have it.

function colours() {
  const style = getComputedStyle(document.documentElement), value = (name) => style.getPropertyValue(`--${name}`).trim();
  const found = { series: [1, 2, 3, 4, 5, 6].map((number) => value(`series-${number}`)) };
  for (const name of ["text", "dim", "grid", "band", "mark", "threshold", "paused", "xoff", "storm", "tunnel", "idle", "action"]) {
    found[name] = value(name);
  }
  found.heat = ramp(value("heat"), SHADES);
  return found;
}

// Colours from the first to the last of some, as #rrggbb, with commas between them; at 0 is that of nothing.
const ramps = new Map();
function ramp(text, count) {
  if (!ramps.has(text)) {
    const stops = text.split(",").map((one) => [1, 3, 5].map((at) => parseInt(one.trim().slice(at, at + 2), 16)));
    const found = ["transparent"];
    for (let number = 1; number <= count; number++) {
      const place = ((number - 1) / (count - 1)) * (stops.length - 1), low = Math.min(Math.floor(place), stops.length - 2);
      const mixed = stops[low].map((one, at) => Math.round(one + (stops[low + 1][at] - one) * (place - low)));
      found.push(`rgb(${mixed.join(", ")})`);
    }
    ramps.set(text, found);
  }
  return ramps.get(text);
}

const STATES = { paused: "paused", xoff: "sends XOFF", storm: "in a storm", tunnel: "sends XOFF into a tunnel" };
const COUNTED = { paused: "paused", xoff: "sending XOFF", storm: "in a storm", tunnel: "sending XOFF into a tunnel" };
const LOAD = "series:load of links", USE = ", shared";

// Zoom and pan of a drawing: the part of it that is shown. The wheel zooms with Ctrl, as in panels.
function zoomable(frame) {
  const svg = frame.querySelector("svg");
  if (!svg) return;
  const whole = svg.getAttribute("viewBox").split(" ").map(Number);
  let [x, y, width, height] = whole, from = null;
  const show = () => {
    width = Math.min(Math.max(width, whole[2] / 40), whole[2]);
    height = (width * whole[3]) / whole[2];
    x = Math.min(Math.max(x, whole[0]), whole[0] + whole[2] - width);
    y = Math.min(Math.max(y, whole[1]), whole[1] + whole[3] - height);
    svg.setAttribute("viewBox", [x, y, width, height].map((one) => Math.round(one * 10) / 10).join(" "));
    frame.classList.toggle("zoomed", width < whole[2]);
  };
  const zoom = (factor, px = 0.5, py = 0.5) => {
    const wide = Math.min(Math.max(width * factor, whole[2] / 40), whole[2]);
    x += (width - wide) * px;
    y += (height - (wide * whole[3]) / whole[2]) * py;
    width = wide;
    show();
  };
  const actions = {
    in: () => zoom(0.6), out: () => zoom(1 / 0.6), fit: () => zoom(1000),
    left: () => { x -= width / 4; show(); }, right: () => { x += width / 4; show(); },
    up: () => { y -= height / 4; show(); }, down: () => { y += height / 4; show(); },
  };
  for (const button of frame.querySelectorAll("button[data-map]")) button.addEventListener("click", actions[button.dataset.map]);
  const tools = frame.querySelector(".tools");
  if (tools) tools.hidden = false;
  svg.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    const box = svg.getBoundingClientRect();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, (event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height);
    event.preventDefault();
  }, { passive: false });
  svg.addEventListener("pointerdown", (event) => { from = { id: event.pointerId, px: event.clientX, py: event.clientY, x, y }; });
  svg.addEventListener("pointermove", (event) => {
    if (!from || from.id !== event.pointerId || width >= whole[2]) return;
    const scale = width / svg.getBoundingClientRect().width;
    if (Math.abs(event.clientX - from.px) + Math.abs(event.clientY - from.py) > 4 && !svg.hasPointerCapture(event.pointerId)) {
      svg.setPointerCapture(event.pointerId);
    }
    x = from.x - (event.clientX - from.px) * scale;
    y = from.y - (event.clientY - from.py) * scale;
    show();
  });
  for (const name of ["pointerup", "pointercancel"]) svg.addEventListener(name, () => { from = null; });
}

// What the script colours in an SVG of `testbed/report/topology.py`.
function drawingIn(element) {
  const all = (selector, key) => new Map([...element.querySelectorAll(selector)].map((one) => [one.dataset[key], one]));
  return {
    ports: all("g[data-port]", "port"), loads: all("[data-load]", "load"), uses: all("rect[data-cells]", "node"),
  };
}

function showNetwork(drawing, tracks, t) {
  const words = [], counts = new Map(), used = new Map(), level = new Map();
  if (drawing) for (const mark of drawing.ports.values()) mark.setAttribute("class", "port");
  for (const track of tracks) {
    if (track.shape === LANES && STATES[track.panel]) {
      if (rowAt(track, t) < 0) continue;
      words.push(`${track.port} ${track.label} ${STATES[track.panel]}`);
      counts.set(COUNTED[track.panel], (counts.get(COUNTED[track.panel]) || 0) + 1);
      const mark = drawing && drawing.ports.get(track.port);
      if (mark) mark.classList.add(track.panel);
    } else if (drawing && track.panel === LOAD) {
      const row = rowAt(track, t), half = drawing.loads.get(track.port);
      if (row < 0 || !half || !half.dataset.rate) continue;
      const load = (track.high || track.v)[row] / Number(half.dataset.rate);
      level.set(track.port, load <= 0.001 ? 0 : Math.min(5, Math.ceil(load * 5)));
    } else if (drawing && track.panel === "occupancy" && track.shape === STEPS && track.label.endsWith(USE)) {
      const row = rowAt(track, t), port = drawing.ports.get(track.port);
      if (row >= 0 && port) used.set(port.dataset.node, (used.get(port.dataset.node) || 0) + (track.high || track.v)[row]);
    }
  }
  if (drawing) {
    for (const [port, half] of drawing.loads) {
      const name = `load${level.get(port) ? ` load-${level.get(port)}` : ""}`;
      if (half.getAttribute("class") !== name) half.setAttribute("class", name);
    }
    for (const [node, bar] of drawing.uses) {
      const part = Math.min(1, (used.get(node) || 0) / Number(bar.dataset.cells));
      bar.setAttribute("width", String(Math.round(part * Number(bar.dataset.width) * 10) / 10));
    }
  }
  if (!words.length) return "no port is paused";
  return words.length > 8 ? [...counts].map(([state, many]) => `${many} ${many > 1 ? "are" : "is"} ${state}`).join(", ") : words.join("; ");
}

// The last words of each subject, up to t; empty words mean that it is gone.
function rowsAt(states, t, since) {
  const found = new Map();
  for (const [at, subject, words] of states) {
    if (at > t) break;
    if (at < since) continue;
    if (words) found.set(subject, words);
    else found.delete(subject);
  }
  return found;
}

function showRows(body, rows) {
  const text = JSON.stringify([...rows]);
  if (body.dataset.shown === text) return;
  body.dataset.shown = text;
  body.replaceChildren(...[...rows].map(([subject, words]) => {
    const row = document.createElement("tr"), head = document.createElement("th"), cell = document.createElement("td");
    head.scope = "row";
    head.textContent = subject;
    cell.textContent = words;
    row.append(head, cell);
    return row;
  }));
}
