// The page of a running lab: what comes over the WebSocket goes into tracks like those of a report, which the same
// functions draw. What is shown trails the lab by one message at most, and moves at the lab's own pace in between.

const at = (id) => document.getElementById(id);
const live = {
  tracks: [], marks: [], actions: [], states: [], cables: [], state: {}, panels: new Map(), newest: 0, shown: 0, speed: 1, paused: false, following: true,
  socket: null, tries: 0, ended: false, draws: 0,
};
const drawing = drawingIn(document);
let before = performance.now();

function newTrack(given) {
  const t = [...(given.t || [])], v = [...(given.v || [])];
  return { ...given, t, v, open: false, most: Math.max(0, ...v), get rows() { return this.t.length; } };
}

function addRow(track, t, v) {
  track.t.push(t);
  track.v.push(v);
  if (track.shape !== LANES && v > track.most) track.most = v;
}

// Intervals that have not ended reach to the right edge until they do.
function setOpen(open) {
  for (const track of live.tracks) {
    if (track.open) {
      track.t.pop();
      track.v.pop();
      track.open = false;
    }
  }
  return () => {
    for (const [number, start] of open) {
      const track = live.tracks[number];
      if (!track || track.open) continue;
      addRow(track, start, Infinity);
      track.open = true;
    }
  };
}

function forget() {
  const oldest = live.newest - 60e9;
  for (const track of live.tracks) {
    if (track.t.length < 200 || track.t[1] > oldest - 60e9) continue;
    const rows = Math.max(0, after(track.t, oldest) - 1);
    track.t.splice(0, rows);
    track.v.splice(0, rows);
    if (track.shape !== LANES) track.most = track.v.reduce((most, value) => Math.max(most, value), 0);
  }
}

function take(message) {
  if (message.type === "snapshot") {
    live.tracks = message.tracks.map(newTrack);
    live.marks = message.marks;
    live.states = message.states;
    live.cables = message.cables;
    live.newest = live.shown = message.t_ns;
    timeScale = message.scale;
    for (const one of at("span").options) one.textContent = spanText(Number(one.value) * 1e9);
    at("step").textContent = `Step ${spanText(1e8)}`;
    at("words").replaceChildren();
    message.words.forEach(addWords);
    at("actions").replaceChildren();
    live.actions = [];
    message.actions.forEach(addAction);
    setOpen([])();
    setOpen(message.open)();
    arrange(message.panels);
    takeState(message.state);
  } else if (message.type === "update") {
    const reopen = setOpen(message.open);
    for (const one of message.tracks || []) live.tracks.push(newTrack(one));
    for (const [number, t, v] of message.rows) addRow(live.tracks[number], t, v);
    reopen();
    if (message.marks) live.marks = message.marks;
    if (message.panels) arrange(message.panels);
    if (message.t_ns) live.newest = message.t_ns;
    if (message.states) live.states.push(...message.states);
    if (message.cables) live.cables.push(...message.cables);
    if (message.state) takeState(message.state);
    (message.words || []).forEach(addWords);
    (message.actions || []).forEach(addAction);
    forget();
  } else if (message.type === "pace") takePace(message);
  else if (message.type === "answer") answer(message.text, message.ok);
  else if (message.type === "ended") {
    live.ended = true;
    status(`the lab has ended: ${message.text}`);
  }
}

function takePace(message) {
  live.speed = message.speed;
  live.paused = message.paused;
  at("pause").textContent = live.paused ? "Go on" : "Pause";
  at("pause").setAttribute("aria-pressed", String(live.paused));
  for (const id of ["pause", "step", "speed"]) at(id).disabled = !message.has_pace;
  const known = [...at("speed").options].find((one) => Number(one.value) === live.speed);
  if (known) known.selected = true;
  else {
    const other = new Option(`${live.speed} x`, String(live.speed), true, true);
    at("speed").append(other);
  }
}

function status(text) {
  at("connection").textContent = text;
}

function answer(text, good) {
  at("answer").textContent = text;
  at("answer").className = good ? "good" : "bad";
}

function addWords([t, text, good]) {
  const item = document.createElement("li"), list = at("words");
  item.textContent = `${timeText(t, 1e6)}  ${text}`;
  if (!good) item.className = "bad";
  list.append(item);
  while (list.children.length > 100) list.firstChild.remove();
  list.scrollTop = list.scrollHeight;
}

// What viewers did: in a list, whose times lead there, and on the axes of the panels.
function addAction([t, text]) {
  const item = document.createElement("li"), list = at("actions"), time = element("button", "time", timeText(t, 1e6));
  time.type = "button";
  time.setAttribute("aria-label", `Show ${timeText(t, 1e6)}`);
  time.addEventListener("click", () => {
    live.shown = Math.min(t + Number(at("span").value) * 5e8, live.newest);
    follow(false);
  });
  item.append(time, ` ${text}`);
  list.append(item);
  list.scrollTop = list.scrollHeight;
  live.actions.push({ t, text });
}

// Panels keep their place on the page while tracks are added to them.
function arrange(given) {
  const found = new Map();
  for (const one of given) {
    const panel = live.panels.get(one.title) || makePanel(one.title);
    Object.assign(panel, { lines: [], lanes: [], tracks: [], cases: true, ...one });
    panel.canvas.setAttribute("aria-label", `${one.title}. ${one.about}`);
    panel.caption.replaceChildren(
      `${one.title} `, element("span", "about", one.about), element("br"), ...one.keys.map(key), panel.scale);
    found.set(one.title, panel);
  }
  const all = [...found.values()], rest = all.filter((panel) => !panel.first);
  fill(at("panels"), all.filter((panel) => panel.first).map((panel) => panel.figure));
  fill(at("more"), rest.map((panel) => panel.figure));
  at("further").hidden = !rest.length;
  at("further-about").textContent = rest.map((panel) => panel.title).join(", ");
  live.panels = found;
}

// Figures that are there already stay as they are: the page does not jump.
function fill(place, figures) {
  figures.forEach((figure, number) => {
    if (place.children[number] !== figure) place.insertBefore(figure, place.children[number] || null);
  });
  while (place.children.length > figures.length) place.lastChild.remove();
}

function element(name, kind, text) {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  if (text) made.textContent = text;
  return made;
}

function key([kind, words]) {
  const swatch = document.createElementNS("http://www.w3.org/2000/svg", "svg"), mark = element("span", "key");
  const box = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  swatch.setAttribute("viewBox", "0 0 14 10");
  swatch.setAttribute("aria-hidden", "true");
  box.setAttribute("class", kind);
  box.setAttribute("width", "14");
  box.setAttribute("height", "10");
  swatch.append(box);
  mark.append(swatch, words);
  return mark;
}

function makePanel() {
  const figure = element("figure"), caption = element("figcaption"), box = element("div", "panel");
  const canvas = element("canvas");
  canvas.setAttribute("role", "img");
  box.append(canvas);
  figure.append(caption, box);
  const scale = element("span", "scale");
  scale.hidden = true;
  return { figure, caption, box, canvas, scale };
}

function draw(now) {
  const passed = Math.min(250, now - before);
  before = now;
  const span = Number(at("span").value) * 1e9, least = Math.max(0, live.newest - 60e9);
  if (live.following) {
    live.shown = Math.min(live.newest, live.shown + passed * 1e6 * live.speed);
    // Too far behind: a slow page, a fast lab, or the first look.
    if (live.newest - live.shown > Math.max(3e8, 3e8 * live.speed)) live.shown = live.newest;
  }
  const back = at("back");
  back.min = least;
  back.max = Math.max(live.newest, least + 1);
  if (live.following) back.value = live.shown;
  const view = { start: Math.max(0, live.shown - span), end: Math.max(live.shown, 1e6) };
  at("clock").textContent = timeText(live.shown, 1e6);
  at("state").textContent = showNetwork(drawing, live.tracks, live.shown) + showPulled(rowsAt(live.cables, live.shown, 0));
  const rows = rowsAt(live.states, live.shown, 0);
  showRows(at("states"), rows);
  at("no-states").hidden = rows.size > 0;
  drawPanels(view, now);
  live.draws++;
  requestAnimationFrame(draw);
}

// Panels that can be seen; where drawing takes long, not in every frame.
let restUntil = 0;
function drawPanels(view, now) {
  if (now < restUntil) return;
  const begun = performance.now(), colour = colours(), report = { tracks: live.tracks, marks: live.marks };
  const shown = [...live.panels.values()].filter((panel) => panel.box.clientWidth);
  const places = shown.map((panel) => panel.box.getBoundingClientRect());
  for (const panel of shown) panel.size = sizes(panel);
  shown.forEach((panel, number) => {
    panel.canvas.style.height = `${panel.size.height}px`;
    if (places[number].bottom < -200 || places[number].top > innerHeight + 200) return;
    drawPanel(panel, report, view, colour);
    drawActions(panel, view, colour);
  });
  const took = performance.now() - begun;
  restUntil = took > 12 ? now + 4 * took : 0;
}

// A line for each action, and its words where the next one leaves room.
function drawActions(panel, view, colour) {
  const { size } = panel, context = panel.canvas.getContext("2d"), scale = size.plot / (view.end - view.start);
  const inside = live.actions.filter((one) => one.t >= view.start && one.t <= view.end);
  inside.forEach((one, number) => {
    const x = size.left + (one.t - view.start) * scale, next = inside[number + 1];
    const room = (next ? size.left + (next.t - view.start) * scale : size.left + size.plot) - x - 6;
    context.fillStyle = colour.action;
    context.fillRect(Math.round(x) - 1, 0, 2, size.body);
    context.textAlign = "left";
    if (room > 24) context.fillText(fitted(context, one.text, room), x + 4, 7);
  });
}

// Cables that are pulled, by their ends; the words about them.
function showPulled(pulled) {
  for (const [port, half] of drawing.loads) half.parentNode.classList.toggle("pulled", pulled.has(port));
  return pulled.size ? `; without a cable: ${[...pulled.keys()].sort().slice(0, 8).join(", ")}` : "";
}

// Controls

function send(command) {
  if (live.socket && live.socket.readyState === WebSocket.OPEN) {
    answer(live.paused && !["pause", "pace", "step"].includes(command.do) ? "takes effect when the lab's time goes on" : "", true);
    live.socket.send(JSON.stringify(command));
  } else answer("there is no connection to the lab", false);
}

function takeState(state) {
  live.state = state;
  showFlows(state.flows || []);
  showPort();
  showNode();
  showSwitch();
  at("undo").disabled = !state.undo;
  at("undo-what").textContent = state.undo ? `takes back: ${state.undo}` : "";
}

function showFlows(flows) {
  const shown = JSON.stringify(flows);
  if (at("flows").dataset.shown === shown) return;
  at("flows").dataset.shown = shown;
  const groups = new Map();
  for (const flow of flows) groups.set(flow.group, [...(groups.get(flow.group) || []), flow]);
  at("flows").replaceChildren(...[...groups].map(([group, [flow, ...others]]) => {
    const row = element("li"), stop = element("button", "", "Stop");
    const sources = [flow, ...others].map((one) => one.source).join(", ");
    stop.type = "button";
    stop.setAttribute("aria-label", `Stop ${sources} to ${flow.target}`);
    stop.addEventListener("click", () => send({ do: "stop", flow: group }));
    row.append(`${sources} to ${flow.target}, priority ${flow.priority}, ${flow.transport}, ${flow.rate}`, stop);
    return row;
  }));
}

function toggle(name, priority, on, possible, act) {
  const button = element("button", "", String(priority));
  button.type = "button";
  button.setAttribute("aria-pressed", String(on));
  button.setAttribute("aria-label", `${name} of priority ${priority}`);
  button.disabled = !possible;
  button.addEventListener("click", () => act(priority, !on));
  return button;
}

function showPort() {
  const name = at("port").value, port = (live.state.ports || {})[name];
  for (const mark of document.querySelectorAll(".chosen")) mark.classList.remove("chosen");
  if (!port) return;
  const shown = JSON.stringify([name, port]);
  if (at("pfc").dataset.shown !== shown) {
    at("pfc").dataset.shown = shown;
    const focused = document.activeElement && document.activeElement.getAttribute("aria-label");
    const all = [0, 1, 2, 3, 4, 5, 6, 7];
    at("pfc").replaceChildren(...all.map((priority) => toggle("PFC", priority, port.pfc.includes(priority), true,
      (number, on) => send({ do: "pfc", port: name, priority: number, on }))));
    at("ecn").replaceChildren(...all.filter((priority) => port.can_ecn.includes(priority)).map((priority) => toggle("ECN", priority,
      String(priority) in port.ecn, true, (number, on) => send({
        do: "ecn", port: name, priority: number, on, kmin: at("kmin").value, kmax: at("kmax").value, pmax: at("pmax").value,
      }))));
    if (!port.can_ecn.length) at("ecn").textContent = "none: frames do not wait here, or no priority is lossless";
    if (focused) for (const one of document.querySelectorAll("#pfc button, #ecn button, #storm button")) {
      if (one.getAttribute("aria-label") === focused) one.focus();
    }
    at("storm").replaceChildren(...all.map((priority) => toggle("Storm", priority, port.storms.includes(priority), true,
      (number, on) => send({ do: "storm", port: name, priority: number, on }))));
    at("cable").textContent = port.cable ? "Pull" : "Plug in";
    at("delay").value = spanText(port.delay_lab_ns).replace(" ", "");
    at("delay").disabled = at("set-delay").disabled = !port.can_delay;
  }
}

function showSwitch() {
  const threshold = (live.state.thresholds || {})[at("switch").value];
  if (threshold === undefined || at("switch").dataset.shown === at("switch").value + threshold) return;
  if (document.activeElement === at("xoff")) return; // what is being typed there stays
  at("switch").dataset.shown = at("switch").value + threshold;
  at("xoff").value = threshold;
}

// What can be done at a cable, a port or a node that was clicked, beside it. All of it is in the controls too.
const here = { from: null, before: null };

function leaveHere() {
  if (at("here").hidden) return;
  at("here").hidden = true;
  if (here.before) here.before.focus();
}

function offer(event, what, choices) {
  const frame = at("here").parentNode.getBoundingClientRect(), box = at("here");
  if (box.hidden) here.before = document.activeElement;
  at("here-what").textContent = what;
  at("here-do").replaceChildren(...[...choices, ["Close", () => {}]].map(([words, act]) => {
    const button = element("button", "", words);
    button.type = "button";
    button.addEventListener("click", () => { leaveHere(); act(); });
    return button;
  }));
  box.hidden = false;
  const left = Math.min(event.clientX - frame.left + 12, frame.width - box.offsetWidth - 4);
  box.style.left = `${Math.max(0, left)}px`;
  box.style.top = `${Math.max(0, event.clientY - frame.top + 12)}px`;
  box.querySelector("button").focus({ preventScroll: true });
}

function cableChoices(name) {
  const port = (live.state.ports || {})[name];
  if (!port) return [];
  return [[port.cable ? "Pull the cable" : "Plug the cable in", () => send({ do: "cable", port: name, on: !port.cable })]];
}

function portChoices(name) {
  const port = (live.state.ports || {})[name], priority = Number(at("traffic").elements.priority.value);
  if (!port) return [];
  const storms = port.storms.includes(priority), on = port.pfc.includes(priority);
  return [
    ...cableChoices(name),
    [storms ? `End the storm on priority ${priority}` : `Storm: pause priority ${priority} of the peer for good`,
      () => send({ do: "storm", port: name, priority, on: !storms })],
    [`PFC of priority ${priority} ${on ? "off" : "on"}`, () => send({ do: "pfc", port: name, priority, on: !on })],
  ];
}

function nodeChoices(mark) {
  const name = mark.dataset.node, target = at("traffic").elements.target;
  const isHost = [...target.options].some((one) => one.value === name), threshold = (live.state.thresholds || {})[name];
  const choices = [];
  if (isHost) choices.push(["Send from here: then click the receiver", () => sendsFrom(mark)]);
  if (threshold !== undefined) {
    for (const one of ["25%", "50%", "100%"].filter((part) => part !== threshold)) {
      choices.push([`XOFF above ${one} of the free cells`, () => send({ do: "xoff", node: name, xoff: one })]);
    }
  }
  const agent = (live.state.agents || {})[name];
  if (agent && agent.agent) choices.push(["Kill its agent", () => send({ do: "kill", node: name, speaker: false })]);
  return choices;
}

function sendsFrom(mark) {
  for (const one of document.querySelectorAll(".sends")) one.classList.remove("sends");
  here.from = mark && mark.dataset.node;
  if (mark) {
    mark.classList.add("sends");
    answer(`${here.from} sends: click the receiver`, true);
  }
}

function startFlow(source, target) {
  const fields = new FormData(at("traffic"));
  send({
    do: "traffic", source, target, priority: Number(fields.get("priority")), rate: fields.get("rate"),
    transport: fields.get("transport"), ecn: fields.get("ecn") !== null,
  });
}

function showNode() {
  const agent = (live.state.agents || {})[at("node").value];
  if (!agent) return;
  at("kill").disabled = !agent.agent;
  at("kill-speaker").disabled = !agent.speaker;
  at("pids").textContent = `agent: process ${agent.agent || "none"}${agent.speaker ? `, speaker: process ${agent.speaker}` : ""}`;
}

function choose(id, value) {
  if (![...at(id).options].some((one) => one.value === value)) return;
  at(id).value = value;
  at(id).dispatchEvent(new Event("change"));
}

function listen() {
  at("traffic").addEventListener("submit", (event) => {
    event.preventDefault();
    const fields = new FormData(event.target);
    startFlow(fields.getAll("source").join(","), fields.get("target"));
  });
  at("switch").addEventListener("change", showSwitch);
  at("set-xoff").addEventListener("click", () => send({ do: "xoff", node: at("switch").value, xoff: at("xoff").value.trim() }));
  at("undo").addEventListener("click", () => send({ do: "undo" }));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") leaveHere();
    const typed = event.target.closest("input, select, textarea");
    if (event.key === "z" && (event.ctrlKey || event.metaKey) && !typed && !at("undo").disabled) {
      event.preventDefault();
      send({ do: "undo" });
    }
  });
  at("stop").addEventListener("click", () => send({ do: "stop" }));
  at("port").addEventListener("change", showPort);
  at("node").addEventListener("change", showNode);
  at("cable").addEventListener("click", () => {
    const port = (live.state.ports || {})[at("port").value];
    if (port) send({ do: "cable", port: at("port").value, on: !port.cable });
  });
  at("set-delay").addEventListener("click", () => send({ do: "delay", port: at("port").value, delay: at("delay").value }));
  at("kill").addEventListener("click", () => send({ do: "kill", node: at("node").value, speaker: false }));
  at("kill-speaker").addEventListener("click", () => send({ do: "kill", node: at("node").value, speaker: true }));
  at("pause").addEventListener("click", () => send({ do: "pause", on: !live.paused }));
  at("step").addEventListener("click", () => send({ do: "step" }));
  at("speed").addEventListener("change", () => send({ do: "pace", speed: Number(at("speed").value) }));
  at("back").addEventListener("input", () => {
    live.shown = Number(at("back").value);
    follow(live.newest - live.shown < 2e6);
  });
  at("follow").addEventListener("click", () => follow(true));
  if (at("sets")) at("sets").addEventListener("change", () => {
    const chosen = new Set(at("sets").value.split(" "));
    for (const one of at("traffic").elements.source.options) one.selected = chosen.has(one.value);
    at("sets").value = "";
  });
  for (const [name, mark] of drawing.ports) mark.addEventListener("click", (event) => {
    choose("port", name);
    offer(event, name, portChoices(name));
  });
  for (const [name, half] of drawing.loads) half.parentNode.addEventListener("click", (event) => {
    if (event.target.closest(".port")) return;
    choose("port", name);
    offer(event, half.parentNode.querySelector("title").textContent, cableChoices(name));
  });
  for (const mark of document.querySelectorAll(".node[data-node]")) {
    mark.addEventListener("click", (event) => {
      const name = mark.dataset.node;
      choose("node", name);
      choose("switch", name);
      if (here.from && here.from !== name && [...at("traffic").elements.target.options].some((one) => one.value === name)) {
        startFlow(here.from, name);
        sendsFrom(null);
      } else offer(event, name, nodeChoices(mark));
    });
  }
}

function follow(on) {
  live.following = on;
  at("follow").setAttribute("aria-pressed", String(on));
  if (on) live.shown = live.newest;
}

function connect() {
  const socket = new WebSocket(`ws://${location.host}/socket`);
  live.socket = socket;
  socket.addEventListener("open", () => { live.tries = 0; status("connected"); });
  socket.addEventListener("message", (event) => {
    try {
      take(JSON.parse(event.data));
    } catch (error) {
      at("problem").textContent = `What the lab sent cannot be shown: ${error.message}`;
      at("problem").hidden = false;
    }
  });
  socket.addEventListener("close", () => {
    if (live.ended) return;
    live.tries++;
    status(live.tries > 5 ? "no connection; is xoff serve still running?" : "connecting again");
    setTimeout(connect, Math.min(5000, 200 * 2 ** live.tries));
  });
}

listen();
zoomable(at("drawing"));
connect();
requestAnimationFrame(draw);
window.xoffLive = live;
