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

function decodeTracks(descriptions, octets) {
  let at = 0;
  return descriptions.map((one) => {
    const columns = [], exactIntervals = one.shape === LANES && !one.bin_ns;
    for (let number = 0; number < one.columns; number++) {
      let values;
      [values, at] = column(octets, at, one.rows, !(exactIntervals && number === 1));
      columns.push(values);
    }
    const track = { ...one, t: columns[0], v: columns[1] };
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
  return row;
}

const UNITS = [["s", 1e9], ["ms", 1e6], ["us", 1e3], ["ns", 1]];

// Times are the lab's in ns; texts have those of the hardware for which the lab stands at this scale.
let timeScale = 1;

// A time with as many digits as tell apart what is `step` ns away.
function timeText(t, step) {
  t /= timeScale, step /= timeScale;
  const size = Math.max(Math.abs(t), step);
  const [unit, factor] = UNITS.find(([, factor]) => size >= factor) || UNITS[3];
  const digits = Math.max(0, Math.min(9, Math.ceil(Math.log10(factor / Math.max(step, 1e-3)))));
  return `${(t / factor).toFixed(digits)} ${unit}`;
}

// Like timeText without digits that say nothing.
function spanText(t) {
  t /= timeScale;
  const [unit, factor] = UNITS.find(([, factor]) => t >= factor) || UNITS[3];
  return `${Number((t / factor).toPrecision(6))} ${unit}`;
}

// A value with its unit; rates and sizes in powers of 1000.
function valueText(value, unit) {
  const steps = unit === "b/s" || unit === "B" ? [["G", 1e9], ["M", 1e6], ["k", 1e3]] : [];
  const [prefix, factor] = steps.find(([, one]) => Math.abs(value) >= one) || ["", 1];
  const number = Number((value / factor).toPrecision(7)).toLocaleString("en", { maximumFractionDigits: 6 });
  return `${number} ${prefix}${unit}`.trim();
}
