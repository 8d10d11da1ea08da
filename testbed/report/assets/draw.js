// Draws panels. Every column of pixels shows all that happened in its time: the part that intervals cover, or the lowest
// and highest value. Nothing is left out, whatever the zoom.

const LANE = 18, AXIS = 22, CHART = 150, DOT = 2.2, DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3]];

function sizes(panel) {
  const width = panel.box.clientWidth, left = width < 520 ? 92 : 150;
  const body = panel.view === "lanes" ? panel.lanes.length * LANE : CHART;
  return { width, left, plot: Math.max(10, width - left - 8), body, height: body + AXIS };
}

function prepare(panel) {
  const { size, canvas } = panel, ratio = window.devicePixelRatio || 1;
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

// Steps of 1, 2 or 5 times a power of ten, about `count` of them.
function ticks(low, high, count) {
  const rough = (high - low) / Math.max(1, count), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough) || rough, found = [];
  for (let t = Math.ceil(low / step) * step; t <= high; t += step) found.push(t);
  return [found, step];
}

function drawAxis(context, size, view, colour) {
  const scale = size.plot / (view.end - view.start);
  const [found, step] = ticks(view.start, view.end, size.plot / 110);
  context.textAlign = "center";
  for (const t of found) {
    const x = size.left + (t - view.start) * scale;
    context.fillStyle = colour.grid;
    context.fillRect(Math.round(x), 0, 1, size.body);
    const text = timeText(t, step), half = context.measureText(text).width / 2;
    context.fillStyle = colour.dim;
    context.fillText(text, Math.min(Math.max(x, size.left + half), size.width - half), size.body + AXIS / 2);
  }
  context.fillStyle = colour.grid;
  context.fillRect(size.left, size.body, size.plot, 1);
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

function drawMarks(context, track, view, size, top, report) {
  const scale = size.plot / (view.end - view.start);
  const place = (row) => size.left + ((track.bin_ns ? track.t[row] + track.bin_ns / 2 : track.t[row]) - view.start) * scale;
  for (let row = after(track.t, view.start - 1); row < track.rows && track.t[row] <= view.end; row++) {
    const x = place(row), text = (!track.bin_ns && report.marks[track.v[row]]) || "";
    context.fillRect(x - 1, top + 2, 2, LANE - 4);
    // Where the next mark leaves room for its name.
    const room = (row + 1 < track.rows ? Math.min(place(row + 1), size.left + size.plot) : size.left + size.plot) - x - 8;
    if (room > 30 && context.measureText(text).width <= room) context.fillText(text, x + 5, top + LANE / 2);
  }
}

function drawLanes(panel, report, view, colour) {
  const [context, size] = prepare(panel);
  panel.lanes.forEach((lane, number) => {
    if (number % 2) {
      context.fillStyle = colour.band;
      context.fillRect(0, number * LANE, size.width, LANE);
    }
  });
  drawAxis(context, size, view, colour);
  panel.lanes.forEach((lane, number) => {
    const top = number * LANE;
    context.textAlign = "left";
    context.fillStyle = colour.text;
    context.fillText(fitted(context, lane.label, size.left - 10), 2, top + LANE / 2);
    lane.tracks.forEach((at, index) => {
      const track = report.tracks[at];
      context.fillStyle = colour[track.panel] || colour.mark;
      if (track.shape === MARKS) drawMarks(context, track, view, size, top, report);
      else {
        const height = (LANE - 4) / lane.tracks.length;
        drawIntervals(context, track, view, size, top + 2 + index * height, height);
      }
    });
  });
}

function drawChart(panel, report, view, colour) {
  const [context, size] = prepare(panel);
  const tracks = panel.tracks.map((at) => report.tracks[at]);
  const most = (Math.max(0, ...tracks.map((track) => track.most), ...panel.lines.map((line) => line[1])) || 1) * 1.08;
  const unit = tracks[0].unit === "b/s" || tracks[0].unit === "B" ? tracks[0].unit : "";
  const top = 6, y = (value) => top + (size.body - top) * (1 - value / most);
  drawAxis(context, size, view, colour);
  const [values] = ticks(0, most, 4);
  context.textAlign = "right";
  for (const value of values) {
    context.fillStyle = colour.grid;
    context.fillRect(size.left, Math.round(y(value)), size.plot, 1);
    context.fillStyle = colour.dim;
    context.fillText(valueText(value, unit), size.left - 6, Math.max(7, y(value)));
  }
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
  context.textAlign = "left";
  const before = { at: -Infinity, end: 0 };  // the label of the line above: labels of lines that are close stand side by side
  [...panel.lines].sort((one, other) => other[1] - one[1]).forEach(([label, value]) => {
    context.strokeStyle = context.fillStyle = colour.threshold;
    context.beginPath();
    context.moveTo(size.left, y(value));
    context.lineTo(size.left + size.plot, y(value));
    context.stroke();
    const at = Math.max(7, y(value) - 8), isClose = at - before.at < 13;
    const left = isClose ? before.end + 10 : size.left + 4;
    if (!isClose) before.at = at;
    context.fillText(label, left, before.at);
    before.end = left + context.measureText(label).width;
  });
  context.restore();
}

function drawValues(context, track, view, size, y) {
  const scale = size.plot / (view.end - view.start), steps = track.shape === STEPS;
  const first = Math.max(0, after(track.t, view.start) - 1), last = after(track.t, view.end);
  const x = (t) => size.left + (t - view.start) * scale;
  if (!track.bin_ns && last - first < size.plot) {
    context.lineWidth = 1.5;
    context.beginPath();
    for (let row = first; row < last; row++) {
      if (steps) {
        if (row === first) context.moveTo(x(track.t[row]), y(track.v[row]));
        else context.lineTo(x(track.t[row]), y(track.v[row - 1]));
        context.lineTo(x(track.t[row]), y(track.v[row]));
      } else {
        context.moveTo(x(track.t[row]) + DOT, y(track.v[row]));
        context.arc(x(track.t[row]), y(track.v[row]), DOT, 0, 7);
      }
    }
    if (steps && last > first) context.lineTo(size.left + size.plot, y(track.v[last - 1]));
    if (steps) context.stroke();
    else context.fill();
    context.lineWidth = 1;
    return;
  }
  const low = new Float64Array(Math.ceil(size.plot) + 1).fill(Infinity), high = new Float64Array(low.length).fill(-Infinity);
  const tops = track.high || track.v;
  for (let row = first; row < last; row++) {
    let column = Math.max(0, Math.floor((track.t[row] - view.start) * scale));
    const end = track.bin_ns ? Math.floor((track.t[row] + track.bin_ns - view.start) * scale) : column;
    for (; column <= end && column < low.length; column++) {
      if (track.v[row] < low[column]) low[column] = track.v[row];
      if (tops[row] > high[column]) high[column] = tops[row];
    }
  }
  let held = NaN;
  context.globalAlpha = 0.75; // what is behind stays visible
  for (let column = 0; column < low.length; column++) {
    if (high[column] < low[column]) {
      if (steps && !Number.isNaN(held)) context.fillRect(size.left + column, y(held) - 0.75, 1, 1.5);
      continue;
    }
    const above = y(high[column]);
    context.fillRect(size.left + column, above - 0.75, 1, Math.max(1.5, y(low[column]) - above + 1.5));
    held = high[column];
  }
  context.globalAlpha = 1;
}
