// Frames on the cables of a drawing at a time, what waits in the queues of ports, and what a pause stops. The rows are
// those of `testbed/report/replay/window.py`; a row is a frame on one cable.

const FRAME_COLUMNS = ["leaves", "way", "octets", "kind", "priority", "flow", "took", "waited", "fate", "word"];
const DATA = 0, ANSWER = 1, CONTROL = 2, XOFF = 3, XON = 4, TUNNEL_XOFF = 5, TUNNEL_XON = 6;
const ARRIVED = 1, DROPPED = 2, WAITS = 3, LOST = 4;
const LANE_OF_FRAMES = 9, LONGEST_FRAME = 24, PORT = 9;
// A queue is drawn in rows of so many frames beside each other, up to so many rows; a port far from its node has room behind it.
const ABREAST = 4, ROWS = 20, ROW = 2.6, ABREAST_PX = 4.6, ROOM = 80;
const SVG = "http://www.w3.org/2000/svg";
const OCTAGON = "M-4,-9.5H4L9.5,-4V4L4,9.5H-4L-9.5,4V-4Z";
const SHAPES = {
  [ANSWER]: "M-5,-3H2L6,0L2,3H-5Z", [CONTROL]: "M-4,0L0,-4L4,0L0,4Z",
  [XOFF]: `${OCTAGON}M9.5,-6L17,0L9.5,6Z`, [XON]: "M-7,-10L12,0L-7,10Z",
  [TUNNEL_XOFF]: "M-15,-13H14L23,0L14,13H-15Z", [TUNNEL_XON]: "M-15,-13H14L23,0L14,13H-15Z",
};
const INSIDE = { [TUNNEL_XOFF]: OCTAGON, [TUNNEL_XON]: SHAPES[XON] }; // what a tunnel carries
const NAMES = ["data", "answer", "control", "xoff", "xon", "tunnel-xoff", "tunnel-xon"];

function decodeFrames(descriptions, octets) {
  let at = 0;
  return descriptions.map((one) => {
    const replay = { ...one };
    FRAME_COLUMNS.forEach((name, number) => { [replay[name], at] = column(octets, at, one.rows, number === 0); });
    replay.done = replay.leaves.map((t, row) => t + replay.took[row]);
    const crossings = replay.took.filter((_, row) => replay.kind[row] === DATA).sort();
    replay.crossing = crossings[crossings.length >> 1] || replay.took[0] || 1000;
    return replay;
  });
}

// The letter of a flow in the drawing and its legend.
function letterOf(flow) {
  return flow > 0 && flow <= 26 ? String.fromCharCode(96 + flow) : "";
}

// Rows that are on a cable at t, rows that wait in the queue of the port by which they will leave, by direction, and those
// that have just been dropped or lost.
function framesAt(replay, t) {
  const moving = [], waiting = new Map(), gone = [];
  for (let row = 0; row < replay.rows; row++) {
    if (replay.leaves[row] <= t) {
      if (t < replay.done[row]) moving.push(row);
      else if ((replay.fate[row] === DROPPED || replay.fate[row] === LOST) && t < replay.done[row] + replay.crossing) gone.push(row);
    } else if (replay.waited[row] && replay.leaves[row] - replay.waited[row] <= t) {
      if (!waiting.has(replay.way[row])) waiting.set(replay.way[row], []);
      waiting.get(replay.way[row]).push(row);
    }
  }
  return { moving, waiting, gone };
}

// Pauses of ports, as [start, end, port, label], of the tracks that are of this network and in its time.
function pausesOf(replay, tracks) {
  const found = [];
  for (const track of tracks) {
    if (track.panel !== "paused" || track.shape !== LANES || track.bin_ns) continue;
    for (let row = Math.max(0, after(track.t, replay.start_ns) - 1); row < track.rows && track.t[row] <= replay.end_ns; row++) {
      found.push([track.t[row], track.v[row], track.port, track.label]);
    }
  }
  return found;
}

// The times at which something happens: of all, and of PFC frames, pauses and drops alone.
function eventTimes(replay, tracks) {
  const all = new Set(), pauses = new Set();
  const add = (t, isPause) => {
    if (t < replay.start_ns || t > replay.end_ns) return;
    all.add(t);
    if (isPause) pauses.add(t);
  };
  for (let row = 0; row < replay.rows; row++) {
    const isPause = replay.kind[row] >= XOFF;
    add(replay.leaves[row], isPause);
    add(replay.done[row], isPause || replay.fate[row] === DROPPED || replay.fate[row] === LOST);
  }
  for (const [start, end] of pausesOf(replay, tracks)) {
    add(start, true);
    add(end, true);
  }
  const sorted = (times) => Float64Array.from(times).sort();
  return { all: sorted(all), pauses: sorted(pauses) };
}

function whatIs(replay, row) {
  const kind = replay.kind[row], flow = replay.flows[replay.flow[row] - 1], priority = replay.priority[row] - 1;
  if (kind >= XOFF) return `${kind >= TUNNEL_XOFF ? "in its tunnel " : ""}${replay.words[replay.word[row]]}`;
  const octets = `${number(replay.octets[row], 0)} octets`, of = priority >= 0 ? `, priority ${priority}` : "";
  if (!flow) return `a frame of control, ${octets}`;
  const letter = letterOf(replay.flow[row]);
  return `a frame${letter ? ` ${letter}` : ""} of ${flow[0]} to ${flow[1]}${kind === ANSWER ? " that acknowledges" : ""}${of}, ${octets}`;
}

// What happens at exactly t, in words.
function eventWords(replay, tracks, t) {
  const found = [];
  for (const [start, end, port, label] of pausesOf(replay, tracks)) {
    if (start === t) found.push(`${port} stops: ${label} is paused`);
    if (end === t) found.push(`${port} goes on with ${label}`);
  }
  const order = [...Array(replay.rows).keys()].filter((row) => replay.leaves[row] === t || replay.done[row] === t);
  order.sort((a, b) => (replay.kind[b] >= XOFF) - (replay.kind[a] >= XOFF));
  for (const row of order) {
    const [source, target] = replay.directions[replay.way[row]], what = whatIs(replay, row);
    if (replay.done[row] === t) {
      const end = { [DROPPED]: `, and its buffer drops it: ${replay.words[replay.word[row]]}`, [LOST]: ", and it is in no later capture" };
      found.push(`${target} has ${what}${end[replay.fate[row]] || ""}`);
    }
    if (replay.leaves[row] === t) {
      const waited = replay.waited[row] ? `, which has waited ${spanText(replay.waited[row])}` : "";
      found.push(`${source} begins to send ${what}${waited}`);
    }
  }
  return found.length > 4 ? `${found.slice(0, 4).join("; ")}; and ${found.length - 4} more` : found.join("; ");
}

// What is on cables and in queues at t, in words.
function stateWords(replay, { moving, waiting }, pauses) {
  const paused = new Set(pauses.map(([port]) => port));
  const pfc = moving.filter((row) => replay.kind[row] >= XOFF).length, rest = moving.length - pfc;
  const queues = [...waiting].sort((a, b) => b[1].length - a[1].length).map(([way, rows]) => {
    const counts = new Map();
    for (const row of rows) counts.set(letterOf(replay.flow[row]), (counts.get(letterOf(replay.flow[row])) || 0) + 1);
    const parts = [...counts].filter(([letter]) => letter).sort().map(([letter, many]) => `${many} ${letter}`);
    const port = replay.directions[way][0], about = parts.length > 1 ? parts : [];
    if (paused.has(port)) about.push("paused");
    return `${port} ${rows.length}${about.length ? ` (${about.join(", ")})` : ""}`;
  });
  const shown = queues.slice(0, 4).join(", ") + (queues.length > 4 ? ` and ${queues.length - 4} ports more` : "");
  const many = (count, one) => `${count} ${one}${count === 1 ? "" : "s"}`;
  return `On cables: ${many(rest, "frame")} and ${many(pfc, "PFC frame")}. Waiting: ${shown || "none"}.`;
}

function svgElement(parent, name, kind) {
  const made = document.createElementNS(SVG, name);
  if (kind) made.setAttribute("class", kind);
  parent.append(made);
  return made;
}

// Elements that are used again in each step; those that are left over are hidden.
class Pool {
  constructor(parent, make) {
    this.parent = parent;
    this.make = make;
    this.all = [];
    this.used = 0;
  }

  next() {
    if (this.used === this.all.length) this.all.push({ shown: {}, ...this.make(this.parent) });
    return this.all[this.used++];
  }

  begin() {
    this.before = this.used;
    this.used = 0;
  }

  end() {
    for (let place = this.used; place < this.before; place++) set(this.all[place], "root", "visibility", "hidden");
  }
}

function set(item, part, name, value) {
  const key = `${part} ${name}`;
  if (item.shown[key] === value) return;
  item.shown[key] = value;
  item[part].setAttribute(name, value);
}

function setText(item, part, text) {
  if (item.shown[part] === text) return;
  item.shown[part] = text;
  item[part].textContent = text;
}

// The frames of one network over its drawing.
class FrameLayer {
  constructor(svg, drawing) {
    this.svg = svg;
    this.drawing = drawing;
    this.ways = new Map();
    this.root = svgElement(svg, "g", "frames");
    this.root.setAttribute("aria-hidden", "true"); // the words below the drawing have the same
    const group = (make) => new Pool(svgElement(this.root, "g"), make);
    this.slices = group((parent) => ({ root: svgElement(parent, "rect", "slice") }));
    this.labels = group((parent) => ({ root: svgElement(parent, "text", "waiting") }));
    this.gates = group((parent) => ({ root: svgElement(parent, "path", "gate") }));
    this.crosses = group((parent) => ({ root: svgElement(parent, "path", "cross") }));
    this.tokens = group((parent) => {
      const root = svgElement(parent, "g"), shape = svgElement(root, "path"), inside = svgElement(root, "path", "inside");
      const letters = svgElement(root, "text");
      letters.setAttribute("text-anchor", "middle");
      return { root, shape, inside, letters };
    });
    this.followed = 0;
  }

  // The points of a direction from port to port, its length, and its angle at each point.
  way(source, target) {
    const key = `${source} ${target}`;
    if (!this.ways.has(key)) this.ways.set(key, this.points(source, target));
    return this.ways.get(key);
  }

  points(source, target) {
    const [near, far] = [source, target].map((port) => this.drawing.ports.get(port)?.querySelector("circle"));
    if (!near || !far) return null;
    const centre = (circle) => [Number(circle.getAttribute("cx")), Number(circle.getAttribute("cy"))];
    const [a, b] = [centre(near), centre(far)], halves = [source, target].map((port) => this.drawing.loads.get(port));
    let points = [a, b];
    if (halves.every((half) => half?.tagName === "path")) {
      const along = (half) => Array.from({ length: 17 }, (_, step) => half.getPointAtLength((half.getTotalLength() * step) / 16)).map(({ x, y }) => [x, y]);
      points = [...along(halves[0]), ...along(halves[1]).reverse().slice(1)];
    }
    const ends = [0];
    for (let place = 1; place < points.length; place++) ends.push(ends[place - 1] + Math.hypot(points[place][0] - points[place - 1][0], points[place][1] - points[place - 1][1]));
    const room = halves[0]?.tagName === "line" ? Math.hypot(a[0] - halves[0].getAttribute("x1"), a[1] - halves[0].getAttribute("y1")) : 0;
    return { points, ends, length: ends[ends.length - 1], room };
  }

  // What is so far from the port that sends, on the right-hand side of the cable.
  place(way, far, beside = LANE_OF_FRAMES) {
    let step = 1;
    while (step < way.ends.length - 1 && way.ends[step] < far) step++;
    const [[x1, y1], [x2, y2]] = [way.points[step - 1], way.points[step]], span = way.ends[step] - way.ends[step - 1] || 1;
    const [dx, dy] = [(x2 - x1) / span, (y2 - y1) / span], on = far - way.ends[step - 1];
    return { x: x1 + dx * on - dy * beside, y: y1 + dy * on + dx * beside, dx, dy, angle: (Math.atan2(dy, dx) * 180) / Math.PI };
  }

  show(replay, t, pauses) {
    const pools = [this.slices, this.labels, this.gates, this.crosses, this.tokens];
    for (const pool of pools) pool.begin();
    const found = replay ? framesAt(replay, t) : { moving: [], waiting: new Map(), gone: [] };
    if (replay) {
      for (const [way, rows] of found.waiting) this.showQueue(replay, way, rows);
      for (const [port, label] of pauses) this.showGate(replay, port, label);
      for (const row of found.gone) this.showCross(replay, row);
      for (const row of found.moving) this.showFrame(replay, row, t);
    }
    for (const pool of pools) pool.end();
    return found;
  }

  showFrame(replay, row, t) {
    const way = this.way(...replay.directions[replay.way[row]]);
    if (!way) return;
    const kind = replay.kind[row], part = (t - replay.leaves[row]) / replay.took[row];
    const item = this.tokens.next(), isPause = kind >= XOFF;
    // How much of the cable it covers: its own time on the line of its time on the cable.
    const wide = Math.max(3, Math.min(LONGEST_FRAME, way.length * (1 - replay.directions[replay.way[row]][2] / replay.took[row])));
    const head = Math.min(5, wide / 2), end = Math.min(way.length / 3, PORT + (kind === DATA ? wide / 2 : 10)); // outside of ports
    const at = this.place(way, end + part * (way.length - 2 * end));
    const shape = SHAPES[kind] || `M${-wide / 2},-7H${wide / 2 - head}L${wide / 2},0L${wide / 2 - head},7H${-wide / 2}Z`;
    const flow = Math.min(replay.flow[row], 7), letter = letterOf(replay.flow[row]), priority = replay.priority[row] - 1;
    const dim = this.followed && !isPause && replay.flow[row] !== this.followed ? " other" : "";
    set(item, "root", "visibility", "visible");
    set(item, "root", "class", `frame ${NAMES[kind]} f${flow}${dim}`);
    set(item, "root", "transform", `translate(${at.x.toFixed(1)} ${at.y.toFixed(1)}) rotate(${at.angle.toFixed(1)})`);
    set(item, "shape", "d", shape);
    set(item, "inside", "d", INSIDE[kind] || "");
    const digit = priority >= 0 ? String(priority) : "";
    setText(item, "letters", isPause ? digit : kind === DATA && wide >= 20 ? letter + digit : kind === DATA && wide >= 9 ? letter : "");
    set(item, "letters", "transform", `rotate(${(-at.angle).toFixed(1)}) translate(0 3.5)`);
  }

  showQueue(replay, number, rows) {
    const way = this.way(...replay.directions[number]);
    if (!way) return;
    const count = Math.min(rows.length, ABREAST * ROWS), deep = Math.ceil(count / ABREAST), isBehind = way.room > ROOM;
    for (let place = 0; place < count; place++) { // in the order in which they will leave
      const row = rows[Math.floor((place * rows.length) / count)], item = this.slices.next();
      const back = Math.floor(place / ABREAST) * ROW, side = (place % ABREAST) * ABREAST_PX;
      const at = isBehind ? this.place(way, -PORT - back, 4 + side) : this.place(way, side - 7, 19 + back);
      const dim = this.followed && replay.flow[row] !== this.followed ? " other" : "";
      set(item, "root", "visibility", "visible");
      set(item, "root", "class", `slice f${Math.min(replay.flow[row], 7)}${dim}`);
      set(item, "root", "transform", `translate(${at.x.toFixed(1)} ${at.y.toFixed(1)}) rotate(${at.angle.toFixed(1)})`);
      set(item, "root", "width", isBehind ? ROW - 0.6 : ABREAST_PX - 0.6);
      set(item, "root", "height", isBehind ? ABREAST_PX - 0.6 : ROW - 0.6);
      set(item, "root", "x", isBehind ? 0.6 - ROW : 0);
    }
    const at = isBehind ? this.place(way, -PORT - 9, 31) : this.place(way, 0, 19 + deep * ROW + 8), label = this.labels.next();
    set(label, "root", "visibility", "visible");
    set(label, "root", "x", at.x.toFixed(1));
    set(label, "root", "y", (at.y + 4).toFixed(1));
    setText(label, "root", String(rows.length));
  }

  showCross(replay, row) {
    const way = this.way(...replay.directions[replay.way[row]]);
    if (!way) return;
    const at = this.place(way, way.length - Math.min(way.length / 3, 2 * PORT)), item = this.crosses.next();
    set(item, "root", "visibility", "visible");
    set(item, "root", "transform", `translate(${at.x.toFixed(1)} ${at.y.toFixed(1)})`);
    set(item, "root", "d", "M-6,-6L6,6M-6,6L6,-6");
  }

  // Scroll a drawing that is wider than the screen to a frame: one of PFC if there is one.
  follow(replay, t) {
    const frame = this.svg.parentElement, rows = framesAt(replay, t).moving, view = this.svg.viewBox.baseVal;
    const row = rows.find((one) => replay.kind[one] >= TUNNEL_XOFF) ?? rows.find((one) => replay.kind[one] >= XOFF) ?? rows[0];
    const way = row === undefined ? null : this.way(...replay.directions[replay.way[row]]);
    if (!way || frame.scrollWidth <= frame.clientWidth) return;
    const { x } = this.place(way, (way.length * (t - replay.leaves[row])) / replay.took[row]);
    frame.scrollLeft = ((x - view.x) / view.width) * frame.scrollWidth - frame.clientWidth / 2;
  }

  // A bar across the lane of frames that a pause stops.
  showGate(replay, port, label) {
    const ends = replay.directions.find(([source]) => source === port), way = ends && this.way(...ends);
    if (!way) return;
    const at = this.place(way, Math.min(way.length / 2, 15)), item = this.gates.next();
    set(item, "root", "visibility", "visible");
    set(item, "root", "transform", `translate(${at.x.toFixed(1)} ${at.y.toFixed(1)}) rotate(${at.angle.toFixed(1)})`);
    set(item, "root", "d", "M-3,-9V9M3,-9V9");
  }
}
