// Draws panels. Every column of pixels shows all that happened in its time: the part that intervals cover, or the lowest
// and highest value. Nothing is left out, whatever the zoom.

const LANE = 18, AXIS = 24, TOP = 16, CHART = 180, DOT = 2.2, DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3]];
const PAPER = 700; // the width of panels on paper
let printing = false;

// Rows are lower where there are many; their names are then where there is room for one.
function laneHeight(rows) {
  return rows <= 24 ? LANE : rows <= 60 ? 11 : rows <= 200 ? 6 : 4;
}

function sizes(panel) {
  const width = printing ? PAPER : panel.box.clientWidth, left = width < 520 ? 92 : 150;
  const top = panel.cases ? TOP : panel.view === "chart" ? TOP - 4 : 0, lane = panel.lanes ? laneHeight(panel.lanes.length) : 0;
  const body = top + (panel.view === "chart" ? CHART : panel.lanes.length * lane);
  return { width, left, lane, top, plot: Math.max(10, width - left - 8), body, height: body + AXIS };
}

function prepare(panel) {
  const { size, canvas } = panel, ratio = printing ? 2 : window.devicePixelRatio || 1;
  const w = Math.round(size.width * ratio), h = Math.round(size.height * ratio);
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, size.width, size.height);
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "middle";
  return [context, size];
}

function drawAxis(context, size, view, colour) {
  const scale = size.plot / (view.end - view.start), room = size.plot < 400 ? 70 : 100;
  const axis = timeTicks(view.start, view.end, size.plot / room);
  context.textAlign = "center";
  let free = -Infinity;
  for (const { t, text } of axis.ticks) {
    const x = size.left + (t - view.start) * scale;
    context.fillStyle = colour.grid;
    context.fillRect(Math.round(x), size.top, 1, size.body - size.top);
    const half = context.measureText(text).width / 2, place = Math.min(Math.max(x, size.left + half), size.width - half);
    if (place - half < free) continue;
    free = place + half + 8;
    context.fillStyle = colour.dim;
    context.fillText(text, place, size.body + AXIS / 2);
  }
  context.fillStyle = colour.grid;
  context.fillRect(size.left, size.body, size.plot, 1);
  context.fillStyle = colour.dim;
  context.textAlign = "right";
  context.fillText(`time, ${axis.unit}`, size.left - 6, size.body + AXIS / 2);
}

// Where each network runs, with its name above, if there are several.
function drawCases(context, panel, view, colour, report) {
  const { size } = panel;
  const scale = size.plot / (view.end - view.start);
  for (const one of report.networks || []) {
    if (one.end_ns < view.start || one.start_ns > view.end) continue;
    const a = Math.max(0, (one.start_ns - view.start) * scale), b = Math.min(size.plot, (one.end_ns - view.start) * scale);
    context.fillStyle = colour.dim;
    if (panel.cases && one.start_ns >= view.start) context.fillRect(Math.round(size.left + a), 0, 1, size.body);
    if (!size.top || !one.title || b - a < 20) continue;
    context.textAlign = "left";
    context.fillText(fitted(context, one.title, b - a - 8), size.left + a + 4, 7);
  }
}

function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let cut = text.slice(0, 60);
  while (cut && context.measureText(`${cut}…`).width > width) cut = cut.slice(0, -1);
  return `${cut}…`;
}

// The part of each column of pixels that intervals cover.
function coverage(track, view, plot) {
  const covered = new Float32Array(Math.ceil(plot) + 1), scale = plot / (view.end - view.start);
  const spread = (from, to, weight) => {
    const a = Math.max(0, (from - view.start) * scale), b = Math.min(plot, (to - view.start) * scale);
    if (b < a) return;
    const first = Math.floor(a), last = Math.min(Math.floor(b), covered.length - 1);
    if (first === last) covered[first] += Math.max(b - a, 0.02) * weight;
    else {
      covered[first] += (first + 1 - a) * weight;
      for (let x = first + 1; x < last; x++) covered[x] += weight;
      covered[last] += (b - last) * weight;
    }
  };
  let row = Math.max(0, after(track.t, view.start) - 1);
  for (; row < track.rows && track.t[row] <= view.end; row++) {
    if (track.bin_ns) spread(track.t[row], track.t[row] + track.bin_ns, track.v[row] / track.bin_ns);
    else if (track.v[row] >= view.start) spread(track.t[row], track.v[row], 1);
  }
  return covered;
}

function drawIntervals(context, track, view, size, top, height) {
  const covered = coverage(track, view, size.plot);
  let x = 0;
  while (x < covered.length) {
    const level = shade(covered[x]);
    let end = x + 1;
    while (end < covered.length && shade(covered[end]) === level) end++;
    if (level) {
      context.globalAlpha = level;
      context.fillRect(size.left + x, top, Math.min(end, size.plot) - x, height);
    }
    x = end;
  }
  context.globalAlpha = 1;
}

// Eight shades; what is covered at all can be seen.
function shade(part) {
  return part <= 0 ? 0 : 0.35 + 0.65 * Math.min(8, Math.ceil(part * 8)) / 8;
}

function drawMarks(context, track, view, size, top, height, report) {
  const scale = size.plot / (view.end - view.start);
  context.textAlign = "left";
  const place = (row) => size.left + ((track.bin_ns ? track.t[row] + track.bin_ns / 2 : track.t[row]) - view.start) * scale;
  for (let row = after(track.t, view.start - 1); row < track.rows && track.t[row] <= view.end; row++) {
    const x = place(row), text = (!track.bin_ns && report.marks[track.v[row]]) || "";
    context.fillRect(x - 1, top + 1, 2, height - 2);
    if (height < 10) continue;
    // Where the next mark leaves room for its name.
    const room = (row + 1 < track.rows ? Math.min(place(row + 1), size.left + size.plot) : size.left + size.plot) - x - 8;
    if (room > 30 && context.measureText(text).width <= room) context.fillText(text, x + 5, top + height / 2);
  }
}

function drawBands(context, panel, size, colour) {
  panel.lanes.forEach((lane, number) => {
    if (number % 2 && size.lane >= 10) {
      context.fillStyle = colour.band;
      context.fillRect(0, size.top + number * size.lane, size.width, size.lane);
    }
  });
}

// The names of rows, as many as there is room for.
function drawNames(context, panel, size, colour) {
  const before = context.font;
  if (size.lane < 14) context.font = "10px system-ui, sans-serif";
  context.textAlign = "left";
  context.fillStyle = colour.text;
  let free = -Infinity;
  panel.lanes.forEach((lane, number) => {
    const middle = Math.max(size.top + (number + 0.5) * size.lane, 6);
    if (middle - 5.5 < free) return;
    free = middle + 5.5;
    context.fillText(fitted(context, lane.label, size.left - 10), 2, middle);
  });
  context.font = before;
}

function drawLanes(panel, report, view, colour) {
  const [context, size] = prepare(panel);
  drawBands(context, panel, size, colour);
  drawAxis(context, size, view, colour);
  panel.lanes.forEach((lane, number) => {
    const top = size.top + number * size.lane, gap = size.lane < 10 ? 0.5 : size.lane < 14 ? 1 : 2;
    // What a port waits for is above, and thinner below it what its far end does.
    const main = lane.tracks.length > 1 ? (size.lane - 2 * gap) * 0.62 : size.lane - 2 * gap;
    lane.tracks.forEach((at, index) => {
      const track = report.tracks[at];
      context.fillStyle = colour[track.panel] || colour.mark;
      if (track.shape === MARKS) drawMarks(context, track, view, size, top, size.lane, report);
      else {
        const rest = index ? (size.lane - 2 * gap - main) / (lane.tracks.length - 1) : main;
        drawIntervals(context, track, view, size, top + gap + (index ? main + (index - 1) * rest : 0), rest);
      }
    });
  });
  drawNames(context, panel, size, colour);
  drawCases(context, panel, view, colour, report);
}

// The mean of a track's values in each column of pixels, or how much they grow in it.
function columnsOf(track, view, plot, grows) {
  const count = Math.ceil(plot), sums = new Float64Array(count), known = new Float64Array(count);
  const scale = plot / (view.end - view.start), values = track.high || track.v;
  const first = Math.max(0, after(track.t, view.start) - 1);
  if (grows) {
    for (let row = first; row < track.rows && track.t[row] <= view.end; row++) {
      const isFirst = row === 0 || networkEnd(track, track.t[row - 1]) <= track.t[row];
      const column = Math.floor((track.t[row] - view.start) * scale);
      if (column >= 0 && column < count) sums[column] += Math.max(0, values[row] - (isFirst ? 0 : values[row - 1]));
    }
    return sums.map((sum) => (sum ? sum : NaN));
  }
  const { t, v, rows, shape } = track, steps = shape === STEPS, ends = track.ends || [];
  let next = first < rows ? after(ends, t[first]) : 0; // the end of the network that a row is of
  for (let row = first; row < rows && t[row] <= view.end; row++) {
    while (next < ends.length && ends[next] <= t[row]) next++;
    let until = row + 1 < rows ? t[row + 1] : steps ? Infinity : t[row];
    if (next < ends.length && ends[next] < until) until = ends[next];
    const from = Math.max(0, (t[row] - view.start) * scale), to = Math.min(count, (until - view.start) * scale);
    const value = track.bin_ns ? (v[row] + values[row]) / 2 : v[row], column = from | 0;
    if (to <= column + 1) {
      if (column < count && to >= from) {
        sums[column] += value * (to - from + 1e-9);
        known[column] += to - from + 1e-9;
      }
      continue;
    }
    sums[column] += value * (column + 1 - from);
    known[column] += column + 1 - from;
    for (let at = column + 1; at < to; at++) {
      const part = Math.min(1, to - at);
      sums[at] += value * part;
      known[at] += part;
    }
  }
  return sums.map((sum, column) => (known[column] ? sum / known[column] : NaN));
}

const SHADES = 16;

function drawHeat(panel, report, view, colour) {
  const [context, size] = prepare(panel);
  const tracks = panel.lanes.map((lane) => report.tracks[lane.tracks[0]]);
  drawAxis(context, size, view, colour);
  const rows = tracks.map((track) => columnsOf(track, view, size.plot, panel.grows));
  let full = panel.full || 0;
  if (!full) for (const row of rows) for (const value of row) if (value > full) full = value;
  const gap = size.lane >= 6 ? 1 : 0;
  if (printing) rows.forEach((row, number) => drawHeatRow(context, row, full, size, size.top + number * size.lane, size.lane - gap, colour));
  else drawHeatPicture(context, rows, full, size, gap, colour);
  drawNames(context, panel, size, colour);
  drawCases(context, panel, view, colour, report);
  showScale(panel, full, tracks[0] ? tracks[0].unit : "", colour);
}

// On paper, as areas that stay sharp.
function drawHeatRow(context, row, full, size, top, height, colour) {
  let from = 0;
  while (from < row.length) {
    const level = heatLevel(row[from], full);
    let to = from + 1;
    while (to < row.length && heatLevel(row[to], full) === level) to++;
    if (level >= 0) {
      context.fillStyle = level ? colour.heat[level] : colour.idle;
      context.fillRect(size.left + from, top, Math.min(to, size.plot) - from, height);
    }
    from = to;
  }
}

// On the screen, as a picture with a pixel for each column of a row, which is as fast with many rows.
let heatCanvas = null;
function drawHeatPicture(context, rows, full, size, gap, colour) {
  const width = rows[0].length, picture = new ImageData(width, rows.length);
  const words = new Uint32Array(picture.data.buffer), levels = [colour.idle, ...colour.heat.slice(1)].map(pixel);
  rows.forEach((row, number) => {
    for (let column = 0; column < width; column++) {
      const level = heatLevel(row[column], full);
      if (level >= 0) words[number * width + column] = levels[level];
    }
  });
  heatCanvas = heatCanvas || document.createElement("canvas");
  heatCanvas.width = width;
  heatCanvas.height = rows.length;
  heatCanvas.getContext("2d").putImageData(picture, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(heatCanvas, size.left, size.top, width, rows.length * size.lane);
  if (gap) for (let number = 1; number <= rows.length; number++) context.clearRect(size.left, size.top + number * size.lane - gap, width, gap);
}

// A colour, #rrggbb or rgb(r, g, b), as the four octets of an opaque pixel.
function pixel(text) {
  const parts = text.startsWith("#") ? [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16)) : text.match(/\d+/g).map(Number);
  return new Uint32Array(new Uint8Array([...parts, 255]).buffer)[0];
}

function heatLevel(value, full) {
  if (Number.isNaN(value)) return -1;
  return value <= full * 1e-3 ? 0 : Math.max(1, Math.min(SHADES, Math.ceil((value / full) * SHADES - 1e-9)));
}

// The colours of a heat map and the values that they have, in the caption.
function showScale(panel, full, unit, colour) {
  if (!panel.scale) return;
  const text = `${valueText(full, unit)}${panel.grows ? " in a column of pixels" : ""}`, shown = `${text} ${colour.heat.join()}`;
  if (panel.scale.dataset.shown === shown) return;
  panel.scale.dataset.shown = shown;
  const bar = document.createElement("canvas"), context = bar.getContext("2d");
  bar.width = 160;
  bar.height = 12;
  bar.setAttribute("aria-hidden", "true");
  for (let x = 0; x < 160; x++) {
    context.fillStyle = colour.heat[Math.max(1, Math.ceil((x / 160) * SHADES))];
    context.fillRect(x, 0, 1, 12);
  }
  panel.scale.replaceChildren("0 ", bar, ` ${text}`);
  panel.scale.hidden = false;
}

function drawPanel(panel, report, view, colour) {
  (panel.view === "lanes" ? drawLanes : panel.view === "heat" ? drawHeat : drawChart)(panel, report, view, colour);
}

function drawChart(panel, report, view, colour) {
  const [context, size] = prepare(panel);
  const tracks = panel.tracks.map((at) => report.tracks[at]), limits = (panel.limits || []).map((at) => report.tracks[at]);
  const tops = [...tracks, ...limits].map((track) => (isMean(track, view, size)
    ? columnsOf(track, view, size.plot / MEAN, false).reduce((most, value) => (value > most ? value : most), 0) : mostIn(track, view)));
  const most = (Math.max(0, ...tops, ...panel.lines.map((line) => line[1])) || 1) * 1.08;
  const top = size.top, y = (value) => top + (size.body - top) * (1 - value / most);
  drawAxis(context, size, view, colour);
  const axis = valueTicks(most, tracks[0].unit, 4);
  context.textAlign = "right";
  for (const { value, text } of axis.ticks) {
    context.fillStyle = colour.grid;
    context.fillRect(size.left, Math.round(y(value)), size.plot, 1);
    context.fillStyle = colour.dim;
    context.fillText(text, size.left - 6, Math.max(top + 6, y(value)));
  }
  context.textAlign = "left";
  context.fillStyle = colour.dim;
  context.fillText(axis.unit, 2, top + 6);
  context.save();
  context.beginPath();
  context.rect(size.left, 0, size.plot, size.body);
  context.clip();
  tracks.forEach((track, number) => {
    context.strokeStyle = context.fillStyle = colour.series[number % colour.series.length];
    context.setLineDash(DASHES[Math.floor(number / colour.series.length) % DASHES.length]);
    drawValues(context, track, view, size, y);
  });
  context.setLineDash([5, 4]);
  for (const track of limits) {
    context.strokeStyle = context.fillStyle = colour.threshold;
    drawValues(context, track, view, size, y);
  }
  context.textAlign = "left";
  const labels = new Map(); // the label of the line above: labels of lines that are close stand side by side
  const scale = size.plot / (view.end - view.start);
  [...panel.lines].sort((one, other) => other[1] - one[1]).forEach(([label, value, start = -Infinity, end = Infinity]) => {
    if (start >= view.end || end <= view.start) return;
    const x = size.left + Math.max(0, (start - view.start) * scale);
    context.strokeStyle = context.fillStyle = colour.threshold;
    context.beginPath();
    context.moveTo(x, y(value));
    context.lineTo(size.left + Math.min(size.plot, (end - view.start) * scale), y(value));
    context.stroke();
    const at = Math.max(top + 6, y(value) - 8), before = labels.get(start) || { at: -Infinity, end: 0 };
    const isClose = at - before.at < 13, left = isClose ? before.end + 10 : x + 4;
    labels.set(start, before);
    if (!isClose) before.at = at;
    context.fillText(label, left, before.at);
    before.end = left + context.measureText(label).width;
  });
  context.restore();
  drawCases(context, panel, view, colour, report);
}

// The highest value of a track in the window; of many rows, of the whole run.
function mostIn(track, view) {
  const first = Math.max(0, after(track.t, view.start) - 1), last = after(track.t, view.end);
  if (last - first > 20000 || last - first >= track.rows) return track.most;
  const values = track.high || track.v;
  let most = 0;
  for (let row = first; row < last; row++) {
    if (values[row] > most && (track.t[row] >= view.start || networkEnd(track, track.t[row]) > view.start)) most = values[row];
  }
  return most;
}

function drawValues(context, track, view, size, y) {
  const scale = size.plot / (view.end - view.start), steps = track.shape === STEPS;
  const first = Math.max(0, after(track.t, view.start) - 1), last = after(track.t, view.end);
  const x = (t) => size.left + (t - view.start) * scale;
  if (isMean(track, view, size)) return drawMeans(context, track, view, size, y);
  if (!track.bin_ns && last - first < size.plot) {
    context.lineWidth = 1.5;
    if (!steps) joinSamples(context, track, first, last, x, y);
    context.beginPath();
    let until = -Infinity; // where the value before ends: at the next row, or with its network
    for (let row = first; row < last; row++) {
      if (steps) {
        if (until < track.t[row] || row === first) context.moveTo(x(track.t[row]), y(track.v[row]));
        else context.lineTo(x(track.t[row]), y(track.v[row]));
        until = heldUntil(track, row);
        context.lineTo(Math.min(x(until), size.left + size.plot + 2), y(track.v[row]));
      } else {
        context.moveTo(x(track.t[row]) + DOT, y(track.v[row]));
        context.arc(x(track.t[row]), y(track.v[row]), DOT, 0, 7);
      }
    }
    if (steps) context.stroke();
    else context.fill();
    context.lineWidth = 1;
    return;
  }
  const low = new Float64Array(Math.ceil(size.plot) + 1).fill(Infinity), high = new Float64Array(low.length).fill(-Infinity);
  const ends = new Float64Array(low.length); // the value that holds when a column of pixels ends
  const tops = track.high || track.v;
  for (let row = first; row < last; row++) {
    let column = Math.max(0, Math.floor((track.t[row] - view.start) * scale));
    const end = track.bin_ns ? Math.floor((track.t[row] + track.bin_ns - view.start) * scale) : column;
    for (; column <= end && column < low.length; column++) {
      if (track.v[row] < low[column]) low[column] = track.v[row];
      if (tops[row] > high[column]) high[column] = tops[row];
      ends[column] = tops[row];
    }
  }
  let held = NaN, heldTo = Infinity;
  context.globalAlpha = 0.75; // what is behind stays visible
  for (let column = 0; column < low.length; column++) {
    if (high[column] < low[column]) {
      if (steps && !Number.isNaN(held) && column <= heldTo) context.fillRect(size.left + column, y(held) - 0.75, 1, 1.5);
      continue;
    }
    const joins = steps && column <= heldTo; // from what held before, which is in this column too
    const above = y(joins && held > high[column] ? held : high[column]), below = y(joins && held < low[column] ? held : low[column]);
    context.fillRect(size.left + column, above - 0.75, 1, Math.max(1.5, below - above + 1.5));
    held = ends[column];
    heldTo = (networkEnd(track, view.start + column / scale) - view.start) * scale;
  }
  context.globalAlpha = 1;
}

// Rates that change faster than an eye follows: their means over a few pixels.
const MEAN = 6;
function isMean(track, view, size) {
  const rows = after(track.t, view.end) - Math.max(0, after(track.t, view.start) - 1);
  return track.shape === STEPS && track.unit === "b/s" && rows > size.plot / MEAN;
}

function drawMeans(context, track, view, size, y) {
  const means = columnsOf(track, view, size.plot / MEAN, false);
  context.lineWidth = 1.5;
  context.beginPath();
  let isOpen = false;
  means.forEach((value, column) => {
    const x = size.left + (column + 0.5) * MEAN;
    if (Number.isNaN(value)) isOpen = false;
    else if (isOpen) context.lineTo(x, y(value));
    else context.moveTo(x, y(value));
    isOpen = !Number.isNaN(value);
  });
  context.stroke();
  context.lineWidth = 1;
}

// A thin line between samples that are known: a guide for the eye, not what happened between them.
function joinSamples(context, track, first, last, x, y) {
  context.save();
  context.globalAlpha = 0.45;
  context.lineWidth = 1;
  context.beginPath();
  for (let row = first; row < last; row++) {
    const isNew = row === first || networkEnd(track, track.t[row - 1]) <= track.t[row];
    if (isNew) context.moveTo(x(track.t[row]), y(track.v[row]));
    else context.lineTo(x(track.t[row]), y(track.v[row]));
  }
  context.stroke();
  context.restore();
}
