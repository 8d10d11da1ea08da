// The page: one window of time over all panels of all results, a cursor, and the drawing of the network at the cursor.

const reports = [], panels = [], view = { start: 0, end: 1 }, whole = { start: 0, end: 1 }, seen = new Set();
let cursor = 0, playing = 0, stepping = 0, waiting = false;
const at = (id) => document.getElementById(id);

function draw() {
  waiting = false;
  const begun = performance.now(), colour = colours();
  for (const panel of panels) if (printing || panel.box.clientWidth) panel.size = sizes(panel); // all reads before all writes, for one layout of the page
  for (const panel of panels) {
    if (!panel.size) continue; // folded
    panel.canvas.style.height = `${panel.size.height}px`; // also of those that are not drawn: the page keeps its length
    if (!printing && !seen.has(panel.box)) continue;
    drawPanel(panel, panel.report, view, colour);
    placeCursor(panel);
  }
  const step = (view.end - view.start) / 1000;
  at("window").textContent = `${timeText(view.start, step)} to ${timeText(view.end, step)}`;
  for (const name of ["min", "max", "step"]) {
    at("cursor")[name] = { min: view.start, max: view.end, step: Math.max(1, (view.end - view.start) / 2000) }[name];
  }
  at("cursor").value = cursor;
  page.drawMs = performance.now() - begun;
  page.draws++;
}

function redraw() {
  if (!waiting) {
    waiting = true;
    requestAnimationFrame(draw);
  }
}

function zoomTo(start, end) {
  const least = 100, length = Math.min(Math.max(end - start, least), whole.end - whole.start);
  view.start = Math.min(Math.max(start, whole.start), whole.end - length);
  view.end = view.start + length;
  setCursor(Math.min(Math.max(cursor, view.start), view.end));
  redraw();
}

function zoomBy(factor, around = cursor) {
  zoomTo(around - (around - view.start) * factor, around + (view.end - around) * factor);
}

function panBy(part) {
  const step = (view.end - view.start) * part;
  zoomTo(view.start + step, view.end + step);
}

function placeCursor(panel) {
  const { size } = panel, part = (cursor - view.start) / (view.end - view.start);
  panel.line.style.transform = `translateX(${size.left + part * size.plot}px)`;
  panel.line.hidden = part < 0 || part > 1;
}

function setCursor(t) {
  cursor = t;
  at("cursor").value = t;
  const text = timeText(t, (view.end - view.start) / 1000);
  at("now").textContent = text;
  at("cursor").setAttribute("aria-valuetext", text);
  at("exact").textContent = exactText(t);
  at("moment").href = `#t=${exactText(t).replaceAll(",", "").replace(" ", "")}`;
  for (const panel of panels) if (seen.has(panel.box) && panel.size) placeCursor(panel);
  reports.forEach(showState);
}

// The drawing of the network that runs at the cursor, and DCBX and SR at that time.
function showState(report) {
  const current = report.networks.findLast((one) => one.start_ns <= cursor) || report.networks[0];
  for (const one of report.networks) at(one.id).hidden = one.id !== current.id;
  const title = current && current.title ? `${current.title}, ` : "";
  const words = showNetwork(current && current.drawing, report.tracks, cursor);
  report.state.textContent = `${title}at ${timeText(cursor, (view.end - view.start) / 1000)}: ${words}`;
  showFrames(report, current);
  if (report.statesBody) {
    const rows = rowsAt(report.states, cursor, current ? current.start_ns : 0);
    showRows(report.statesBody, rows);
    report.statesBody.parentElement.hidden = !rows.length; // a head alone before the first of them
  }
}

// The frames of the network that runs at the cursor.
function showFrames(report, current) {
  if (!report.frames) return;
  const begun = performance.now();
  for (const { replay } of report.networks) if (replay) at(replay.id).hidden = replay !== current.replay;
  const { replay, layer } = current;
  if (replay) {
    const inside = cursor >= replay.start_ns && cursor <= replay.end_ns;
    const pauses = inside ? replay.pauses.filter(([start, end]) => start <= cursor && cursor < end).map((pause) => pause.slice(2)) : [];
    const found = layer.show(inside ? replay : null, cursor, pauses);
    report.frames.textContent = inside ? stateWords(replay, found, pauses) : "No frames of this time are in this report.";
    page.frameMs = performance.now() - begun;
    return;
  }
  report.frames.textContent = "No frames of this network are in this report.";
}

// The replay that has a time, or the next one.
function replayAt(t) {
  const all = reports.flatMap((report) => report.networks.map((one) => one.replay).filter(Boolean));
  all.sort((a, b) => a.start_ns - b.start_ns);
  return all.find((one) => t <= one.end_ns) || all[all.length - 1];
}

// To the next event of frames, or the one before; `kind` is all or pauses.
function stepTo(kind, forward) {
  stop();
  let best = null;
  for (const report of reports) {
    for (const { replay } of report.networks) {
      if (!replay) continue;
      const times = replay.times[kind], place = forward ? after(times, cursor) : after(times, cursor - 0.5) - 1;
      const t = times[place];
      if (t !== undefined && (best === null || (forward ? t < best : t > best))) best = t;
    }
  }
  if (best === null) return;
  if (best < view.start || best > view.end) showAround(best);
  setCursor(best);
  sayEvent();
}

// All panels show the window whose frames are in the report, or the whole run if the time is in none.
function showAround(t) {
  const replay = replayAt(t);
  if (replay && t >= replay.start_ns && t <= replay.end_ns) zoomTo(replay.start_ns, replay.end_ns);
  else if (t < view.start || t > view.end) zoomTo(whole.start, whole.end);
}

function sayEvent() {
  for (const report of reports) {
    if (!report.event) continue;
    const replay = report.networks.map((one) => one.replay).find((one) => one && cursor >= one.start_ns && cursor <= one.end_ns);
    const words = replay ? eventWords(replay, report.tracks, cursor) : "";
    if (replay) report.networks.find((one) => one.replay === replay).layer.follow(replay, cursor);
    report.event.textContent = words ? `${exactText(cursor)}: ${words}.` : "";
  }
}

// A link to a moment: #t=1234.5ns, in the time of this report; ns, us, ms and s are known.
function followLink() {
  if (!location.hash.startsWith("#t=")) return;
  const found = /^#t=(\d{1,16}(?:\.\d{1,9})?)(ns|us|ms|s)?$/.exec(location.hash);
  const t = found ? Math.round(Number(found[1]) * UNITS.find(([unit]) => unit === (found[2] || "ns"))[1] * timeScale) : NaN;
  const isKnown = t >= whole.start && t <= whole.end;
  at("problem").hidden = isKnown;
  if (!isKnown) {
    const why = found ? `is after the end of the run, ${exactText(whole.end)}` : "is none: write #t=1234.5ns, or us, ms or s";
    at("problem").textContent = `The time of the link, ${location.hash.slice(3, 40)}, ${why}.`;
    return;
  }
  stop();
  showAround(t);
  setCursor(t);
  sayEvent();
  reports[0]?.state.closest("section")?.scrollIntoView({ block: "nearest" });
}

function describe(panel, t, y) {
  const { report } = panel, words = [];
  const lane = panel.lanes.length ? panel.lanes[Math.floor((y - panel.size.top) / panel.size.lane)] : null;
  const tracks = (panel.view === "chart" ? panel.tracks : lane ? lane.tracks : []).map((number) => report.tracks[number]);
  for (const track of tracks) {
    const row = rowAt(track, t), name = panel.view === "heat" ? lane.label : `${track.port} ${track.label}`.trim();
    if (row < 0) continue;
    if (track.bin_ns && track.shape === LANES) {
      words.push(`${name}: ${spanText(track.v[row])} of ${spanText(track.bin_ns)}, ${track.high[row]} begin`);
    } else if (track.bin_ns) words.push(`${name}: ${valueText(track.v[row], track.unit)} to ${valueText(track.high[row], track.unit)}`);
    else if (track.shape === LANES) {
      words.push(`${name} ${STATES[track.panel] || ""}: ${spanText(track.v[row] - track.t[row])} from ${timeText(track.t[row], 1e3)}`);
    } else if (track.shape === MARKS) {
      words.push(`${track.port}: ${report.marks[track.v[row]]} at ${timeText(track.t[row], 1e3)}`);
    } else words.push(`${name}: ${valueText(track.v[row], track.unit)}, at ${timeText(track.t[row], 1e3)}`);
  }
  return words.slice(0, 6).join("; ");
}

function listen(panel) {
  const time = (event) => {
    const { size } = panel, x = event.clientX - panel.canvas.getBoundingClientRect().left - size.left;
    return view.start + (Math.min(Math.max(x, 0), size.plot) / size.plot) * (view.end - view.start);
  };
  let from = null;
  panel.canvas.addEventListener("pointerdown", (event) => {
    from = { x: event.clientX, t: time(event) };
    panel.canvas.setPointerCapture(event.pointerId);
  });
  panel.canvas.addEventListener("pointermove", (event) => {
    const top = panel.canvas.getBoundingClientRect().top, t = time(event);
    panel.readout.textContent = describe(panel, t, event.clientY - top);
    if (from && Math.abs(event.clientX - from.x) > 4) {
      const { size } = panel, x = (value) => size.left + ((value - view.start) / (view.end - view.start)) * size.plot;
      panel.choice.hidden = false;
      panel.choice.style.left = `${x(Math.min(from.t, t))}px`;
      panel.choice.style.width = `${Math.abs(x(t) - x(from.t))}px`;
    }
  });
  panel.canvas.addEventListener("pointerup", (event) => {
    panel.choice.hidden = true;
    if (from && Math.abs(event.clientX - from.x) > 4) zoomTo(Math.min(from.t, time(event)), Math.max(from.t, time(event)));
    else if (from) setCursor(time(event));
    from = null;
  });
  panel.canvas.addEventListener("pointercancel", () => { from = null; panel.choice.hidden = true; });
  panel.canvas.addEventListener("pointerleave", () => { panel.readout.textContent = ""; });
  panel.canvas.addEventListener("dblclick", () => zoomTo(whole.start, whole.end));
  panel.canvas.addEventListener("wheel", (event) => {
    if (event.ctrlKey || event.metaKey) zoomBy(event.deltaY > 0 ? 1.25 : 0.8, time(event));
    else if (event.shiftKey) panBy((event.deltaY || event.deltaX) > 0 ? 0.1 : -0.1);
    else return;
    event.preventDefault();
  }, { passive: false });
}

// Ten seconds for the window, the chosen part of real time, or a frame's way over a cable in the time that an eye follows.
const CROSSING_MS = 900, STEP_MS = 900;
function play(now) {
  if (!playing) return;
  const slow = slowness(), pace = Number(at("pace").value), passed = Math.min(100, now - playing);
  const end = slow ? Math.min(slow.replay.end_ns, view.end) : view.end;
  const t = cursor + (slow ? passed * slow.pace : pace ? passed * 1e6 * pace : ((view.end - view.start) * passed) / 10000);
  playing = now;
  if (t >= end) stop();
  setCursor(Math.min(t, end));
  if (playing) requestAnimationFrame(play);
}

// The replay that plays in slow motion and its nanoseconds in a millisecond, or null.
function slowness() {
  const asked = at("pace").value, replay = asked.startsWith("slow") ? replayAt(cursor) : null;
  return replay ? { replay, pace: (replay.crossing / CROSSING_MS) * Number(asked.slice(4)) } : null;
}

function stop() {
  playing = 0;
  clearInterval(stepping);
  at("play").textContent = "Play";
}

function toggle() {
  if (playing) return stop();
  const slow = slowness();
  if (slow) {
    const { start_ns: start, end_ns: end } = slow.replay;
    if (cursor < start || cursor >= end) setCursor(start);
    if (cursor < view.start || cursor >= view.end) showAround(cursor);
  } else if (cursor >= view.end) setCursor(view.start);
  const isStill = slow && matchMedia("(prefers-reduced-motion: reduce)").matches;
  playing = performance.now();
  at("play").textContent = "Stop";
  if (isStill) stepping = setInterval(stepOn, STEP_MS);
  else requestAnimationFrame(play);
}

// For those who asked for no motion: from event to event.
function stepOn() {
  const before = cursor, ticking = stepping, since = playing;
  stepping = 0;
  stepTo("all", true);
  if (cursor === before) return clearInterval(ticking);
  [stepping, playing] = [ticking, since];
  at("play").textContent = "Stop";
}

function controls() {
  const actions = {
    play: toggle, in: () => zoomBy(0.5), out: () => zoomBy(2), left: () => panBy(-0.5), right: () => panBy(0.5),
    all: () => zoomTo(whole.start, whole.end),
  };
  for (const [id, action] of Object.entries(actions)) at(id).addEventListener("click", action);
  at("cursor").addEventListener("input", () => { stop(); setCursor(Number(at("cursor").value)); });
  for (const button of document.querySelectorAll("button[data-start]")) {
    button.addEventListener("click", () => zoomTo(Number(button.dataset.start), Number(button.dataset.end)));
  }
  for (const button of document.querySelectorAll("button[data-step]")) {
    const [kind, way] = button.dataset.step.split(" ");
    button.addEventListener("click", () => stepTo(kind, way === "next"));
  }
  at("controls").hidden = false;
  window.addEventListener("hashchange", followLink);
}

// Over a drawing with frames the arrows go from event to event, with Shift from pause to pause, and Space plays.
function frameKeys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target !== event.currentTarget) return;
  const kind = event.shiftKey ? "pauses" : "all";
  if (event.key === "ArrowRight") stepTo(kind, true);
  else if (event.key === "ArrowLeft") stepTo(kind, false);
  else if (event.key === " ") toggle();
  else return;
  event.preventDefault();
}

async function loadFrames(report, content) {
  report.frames = at(`${content.state}-frames`);
  report.event = at(`${content.state}-event`);
  const replays = decodeFrames(content.frames.networks, await inflate(content.frames.columns)), layers = new Map();
  report.networks.forEach((one) => {
    const box = at(one.id), svg = box.querySelector("svg"), replay = replays.find(({ network }) => network === one.number);
    if (!svg || !replay) return;
    if (!layers.has(one.id)) {
      layers.set(one.id, new FrameLayer(svg, one.drawing));
      box.querySelector(".map").addEventListener("keydown", frameKeys);
    }
    one.layer = layers.get(one.id);
    one.replay = replay;
    replay.pauses = pausesOf(replay, report.tracks);
    replay.times = eventTimes(replay, report.tracks);
    for (const button of at(replay.id).querySelectorAll("button[data-flow]")) {
      button.addEventListener("click", () => followFlow(one.layer, Number(button.dataset.flow), report));
    }
  });
}

// The frames of one flow stand out, and the others fade; a second click shows all again.
function followFlow(layer, flow, report) {
  layer.followed = layer.followed === flow ? 0 : flow;
  for (const { replay } of report.networks) {
    if (!replay) continue;
    for (const button of at(replay.id).querySelectorAll("button[data-flow]")) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.flow) === layer.followed));
    }
  }
  setCursor(cursor);
}

function follow() {
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) (entry.isIntersecting ? seen.add(entry.target) : seen.delete(entry.target));
    redraw();
  }, { rootMargin: "200px" });
  for (const panel of panels) observer.observe(panel.box);
  new ResizeObserver(redraw).observe(document.body);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  for (const fold of document.querySelectorAll("details")) fold.addEventListener("toggle", redraw);
  const print = matchMedia("print");
  print.addEventListener("change", () => paper(print.matches));
  window.addEventListener("beforeprint", () => paper(true));
  window.addEventListener("afterprint", () => paper(false));
  paper(print.matches);
}

// On paper everything is open and drawn, at the width of paper and in its colours.
const opened = [];
function paper(on) {
  if (on === printing) return;
  printing = on;
  document.documentElement.classList.toggle("paper", on); // colours are read before the medium has changed
  if (on) {
    for (const fold of document.querySelectorAll("details:not([open])")) {
      fold.open = true;
      opened.push(fold);
    }
    draw();
  } else {
    for (const fold of opened.splice(0)) fold.open = false;
    redraw();
  }
}

async function load(element) {
  const content = JSON.parse(element.textContent);
  const report = { ...content, tracks: decodeTracks(content.tracks, await inflate(content.columns), content.networks.map((one) => one.end_ns)) };
  report.state = at(content.state);
  report.statesBody = at(`${content.state}-rows`);
  const drawings = new Map();
  for (const one of report.networks) {
    if (!drawings.has(one.id)) {
      drawings.set(one.id, drawingIn(at(one.id)));
      zoomable(at(one.id));
    }
    one.drawing = drawings.get(one.id);
  }
  if (content.frames) await loadFrames(report, content);
  for (const given of content.panels) {
    const box = at(given.id), panel = { lines: [], lanes: [], cases: report.networks.length > 1, ...given, report, box };
    panel.canvas = box.querySelector("canvas");
    [panel.line, panel.choice] = box.querySelectorAll(".line, .choice");
    panel.readout = box.parentElement.querySelector(".readout");
    panel.scale = box.parentElement.querySelector(".scale");
    listen(panel);
    panels.push(panel);
  }
  return report;
}

async function begin() {
  reports.push(...await Promise.all([...document.querySelectorAll("script.data")].map(load)));
  timeScale = reports[0]?.scale || 1;
  whole.end = Math.max(1, ...reports.map((report) => report.end_ns));
  controls();
  follow();
  zoomTo(Math.min(...reports.map((report) => report.start)), Math.max(...reports.map((report) => report.stop)));
  setCursor(Math.min(Math.max(reports[0]?.cursor ?? view.start, view.start), view.end));
  sayEvent();
  followLink();
  draw();
  if (document.body.classList.contains("alone") && !matchMedia("(prefers-reduced-motion: reduce)").matches) toggle();
}

const page = {
  drawMs: 0, frameMs: 0, draws: 0, reports, panels, view, zoomTo, setCursor, stepTo, framesAt, draw, timeTicks, valueTicks, rowAt,
  get cursor() { return cursor; },
};
page.loaded = begin();
page.loaded.catch((error) => {
  at("problem").textContent = `The pictures of this report cannot be drawn: ${error.message}. The tables are complete.`;
  at("problem").hidden = false;
});
window.xoffReport = page;
