// The drawing of a network at a time: ports by their pauses, halves of cables by load, bars in switches by use, and the
// same in words. Reports and the live view both have it.

function colours() {
  const style = getComputedStyle(document.documentElement), value = (name) => style.getPropertyValue(`--${name}`).trim();
  const found = { series: [1, 2, 3, 4, 5, 6].map((number) => value(`series-${number}`)) };
  for (const name of ["text", "dim", "grid", "band", "mark", "threshold", "paused", "xoff", "storm", "tunnel"]) {
    found[name] = value(name);
  }
  return found;
}

const STATES = { paused: "paused", xoff: "sends XOFF", storm: "in a storm", tunnel: "sends XOFF into a tunnel" };
const LOAD = "series:load of links", USE = ", shared";

// What the script colours in an SVG of `testbed/report/topology.py`.
function drawingIn(element) {
  const all = (selector, key) => new Map([...element.querySelectorAll(selector)].map((one) => [one.dataset[key], one]));
  return {
    ports: all("g[data-port]", "port"), loads: all("line[data-load]", "load"), uses: all("rect[data-cells]", "node"),
  };
}

function showNetwork(drawing, tracks, t) {
  const words = [], used = new Map(), level = new Map();
  if (drawing) for (const mark of drawing.ports.values()) mark.setAttribute("class", "port");
  for (const track of tracks) {
    if (track.shape === LANES && STATES[track.panel]) {
      if (rowAt(track, t) < 0) continue;
      words.push(`${track.port} ${track.label} ${STATES[track.panel]}`);
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
  return words.slice(0, 8).join("; ") + (words.length > 8 ? `; and ${words.length - 8} more` : "") || "no port is paused";
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
