// Reads the columns of a report and answers what held at a time. `testbed/report/columns.py` writes them.

const LANES = "intervals", STEPS = "steps", SAMPLES = "samples", MARKS = "marks";

async function inflate(base64) {
  const text = atob(base64), octets = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) octets[i] = text.charCodeAt(i);
  const stream = new Blob([octets]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// One number: seven bits an octet, low ones first, zigzag. Sums stay exact up to 2^53.
function column(octets, at, rows, differences) {
  const values = new Float64Array(rows);
  let before = 0;
  for (let row = 0; row < rows; row++) {
    let number = 0, factor = 1, octet;
    do {
      octet = octets[at++];
      number += (octet & 127) * factor;
      factor *= 128;
    } while (octet > 127);
    const value = number % 2 ? -(number + 1) / 2 : number / 2;
    before = differences ? before + value : value;
    values[row] = before;
  }
  return [values, at];
}

function decodeTracks(descriptions, octets, ends) {
  let at = 0;
  return descriptions.map((one) => {
    const columns = [], exactIntervals = one.shape === LANES && !one.bin_ns;
    for (let number = 0; number < one.columns; number++) {
      let values;
      [values, at] = column(octets, at, one.rows, !(exactIntervals && number === 1));
      columns.push(values);
    }
    const track = { ...one, t: columns[0], v: columns[1], ends };
    if (one.bin_ns) {
      for (let row = 0; row < one.rows; row++) track.t[row] *= one.bin_ns;
      track.high = columns[2];
    } else if (exactIntervals) {
      for (let row = 0; row < one.rows; row++) track.v[row] += track.t[row];
    }
    if (one.parts > 1) {
      for (const values of [track.v, ...(track.high ? [track.high] : [])]) {
        for (let row = 0; row < one.rows; row++) values[row] /= one.parts;
      }
    }
    track.most = 0;
    if (one.shape !== LANES && one.shape !== MARKS) {
      const tops = track.high || track.v;
      for (let row = 0; row < one.rows; row++) if (tops[row] > track.most) track.most = tops[row];
    }
    return track;
  });
}

// The first row whose time is later than t.
function after(times, t) {
  let low = 0, high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] > t) high = middle;
    else low = middle + 1;
  }
  return low;
}

// The row that holds at t, or -1: of intervals the one that t is in, of others the last one before.
function rowAt(track, t) {
  const row = after(track.t, t) - 1;
  if (row < 0) return -1;
  if (track.bin_ns) return t < track.t[row] + track.bin_ns ? row : -1;
  if (track.shape === LANES) return t < track.v[row] ? row : -1;
  if (track.shape === STEPS && t >= heldUntil(track, row)) return -1;
  return row;
}

// A value holds until the next row, or until its network ends.
function networkEnd(track, t) {
  if (!track.ends) return Infinity;
  const place = after(track.ends, t);
  return place < track.ends.length ? track.ends[place] : Infinity;
}

function heldUntil(track, row) {
  const end = networkEnd(track, track.t[row]);
  return row + 1 < track.rows ? Math.min(track.t[row + 1], end) : end;
}

const UNITS = [["s", 1e9], ["ms", 1e6], ["us", 1e3], ["ns", 1]];

// Times are the lab's in ns; texts have those of the hardware for which the lab stands at this scale.
let timeScale = 1;

// The largest unit in which a time of the lab is one or more.
function unitOf(t) {
  return UNITS.find(([, factor]) => Math.abs(t) / timeScale >= factor) || UNITS[3];
}

// Round values from low to high with steps of 1, 2 or 5 times a power of ten, about `count` of them, and their digits
// after the point.
function ticks(low, high, count) {
  const rough = Math.max(high - low, 1e-12) / Math.max(1, count), power = Math.floor(Math.log10(rough));
  const found = [];
  let step = 10 ** (power + 1), digits = Math.max(0, -power - 1);
  for (const n of [1, 2, 5]) {
    if (n * 10 ** power >= rough * 0.999) {
      step = n * 10 ** power;
      digits = Math.max(0, -power);
      break;
    }
  }
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n++) found.push(n ? n * step : 0);
  return { values: found, step, digits };
}

// The ticks of the axis of time between two times of the lab: where they are, their texts, and the unit of all of them.
function timeTicks(start, end, count) {
  const [unit, factor] = unitOf(end), scale = factor * timeScale;
  const { values, digits } = ticks(start / scale, end / scale, count);
  return { unit, ticks: values.map((value) => ({ t: value * scale, text: number(value, digits) })) };
}

// The ticks of values from 0 to `most`: values, texts, and the unit of all of them.
function valueTicks(most, unit, count) {
  const [prefix, factor] = prefixOf(most, unit);
  const { values, digits } = ticks(0, most / factor, count);
  return { unit: prefix, ticks: values.map((value) => ({ value: value * factor, text: number(value, digits) })) };
}

function number(value, digits) {
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

// The unit that values up to `most` have on an axis, and how many of the given unit it has.
function prefixOf(most, unit) {
  if (unit === "ns") return UNITS.find(([, factor]) => most >= factor) || UNITS[3];
  if (unit !== "b/s" && unit !== "B") return [unit, 1];
  const [prefix, factor] = [["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3]].find(([, one]) => most >= one) || ["", 1];
  return [prefix + unit, factor];
}

// A time with as many digits as tell apart what is `step` ns away.
function timeText(t, step) {
  const [unit, factor] = unitOf(Math.max(Math.abs(t), step));
  const digits = Math.max(0, Math.min(9, Math.ceil(Math.log10((factor * timeScale) / Math.max(step, 1e-3)) - 1e-9)));
  return `${(t / timeScale / factor).toFixed(digits)} ${unit}`;
}

// A time to the nanosecond of the lab.
function exactText(t) {
  const digits = Math.max(0, Math.ceil(Math.log10(timeScale) - 1e-9));
  return `${number(t / timeScale, digits)} ns`;
}

// Like timeText without digits that say nothing.
function spanText(t) {
  const [unit, factor] = unitOf(t);
  return `${Number((t / timeScale / factor).toPrecision(4))} ${unit}`;
}

// A value with its unit; rates and sizes in powers of 1000.
function valueText(value, unit) {
  const [prefix, factor] = prefixOf(Math.abs(value), unit);
  return `${Number((value / factor).toPrecision(4)).toLocaleString("en", { maximumFractionDigits: 6 })} ${prefix}`.trim();
}
