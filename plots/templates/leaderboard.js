// SPDX-License-Identifier: Apache-2.0
// Chooses from what plots/leaderboard.py embedded, and hands it to DataTables and Vega.
const data = JSON.parse(document.getElementById("board-data").textContent);
const form = document.getElementById("pick");
const near = document.getElementById("near");
const { n: nBox, d: dBox, k: kBox, t: tBox } = form.elements;
const KINDS = ["exact", "certified", "approximate"];
const NONE = "\u2014";
const NEAREST = 12;

const escaped = (text) => jQuery("<i>").text(text).html();
const count = (value) => Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, "\u00a0");
const many = (steps) => `${count(steps)} iteration${steps === 1 ? "" : "s"}`;
const three = (value) => (value >= 999.5 ? count(value) : value.toPrecision(3));
const percent = (share) => `${three(100 * share)}\u00a0%`;
function seconds(value) {
  const [size, unit] = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]]
    .find(([least]) => value >= 0.9995 * least) ?? [1e-9, "ns"];
  return `${three(value / size)}\u00a0${unit}`;
}
// "2e6", "2M", "500k", "2 000 000"; NaN for what is not a whole number from 1.
function size(text) {
  const [, digits, unit] = /^([\d.]+(?:e\d+)?)([kmg]?)$/i.exec(text.replace(/[\s_,']/g, "")) ?? [];
  const value = Math.round(+digits * ({ k: 1e3, m: 1e6, g: 1e9 }[unit?.toLowerCase()] ?? 1));
  return value >= 1 ? value : NaN;
}

// The model of `kmeans-bench advise`, fitted by the program: docs/advice.md explains it.
const M = data.model;
// Of a sum of factor · n^a · d^b · k^c (plots/work.py).
const valueOf = (work, [n, d, k]) => work.reduce((sum, [factor, a, b, c]) => sum + factor * n ** a * d ** b * k ** c, 0);
function logSum(factors, bytes, shape) {
  const sum = M.terms[bytes].reduce((all, term, i) => all + valueOf(term, shape) * factors[i], 0);
  return Math.log(Math.max(sum, 1e-12));
}
// How alike deviations are at two problems: [shape, kind of data (0 is any), was the run long].
function alike([one, kind, long], [other, otherKind, otherLong]) {
  const distance = Math.sqrt(3) * Math.hypot(...M.reach.map((reach, i) => Math.log(one[i] / other[i]) / reach));
  const same = long === otherLong && (!kind || !otherKind || kind === otherKind);
  return M.deviation ** 2 * (1 + distance) * Math.exp(-distance) * (same ? 1 : M.otherKind);
}
function prepare(model) {
  model.problems = [];
  for (let i = 0; i < model.on.length; i += 3) {
    const [shape, tag] = model.on.slice(i, i + 2);
    model.problems.push([data.shapes[shape], tag >> 1, tag & 1]);
  }
  return model;
}
// The lower factor of the observations' covariances, made when it is first asked for.
function choleskyOf(model) {
  const rows = model.problems.map((one, i) => model.problems.slice(0, i + 1).map((other) => alike(one, other)));
  rows.forEach((row, i) => {
    row[i] += M.repeat ** 2;
    for (let j = 0; j <= i; j++) {
      for (let t = 0; t < j; t++) row[j] -= row[t] * rows[j][t];
      row[j] = i === j ? Math.sqrt(row[j]) : row[j] / rows[j][j];
    }
  });
  return rows;
}
function predictOne(model, bytes, problem) {
  if (!model.problems) prepare(model);
  const covariances = model.problems.map((one) => alike(problem, one));
  const deviation = covariances.reduce((sum, value, i) => sum + value * model.on[3 * i + 2], model.shift);
  const value = Math.exp(logSum(model.factors, bytes, problem[0]) + deviation);
  return [value, covariances];
}
function factorOf(model, covariances) {
  model.cholesky ??= choleskyOf(model);
  const known = [];
  model.cholesky.forEach((row, i) => {
    known.push((covariances[i] - known.reduce((sum, one, t) => sum + row[t] * one, 0)) / row[i]);
  });
  return within(known.reduce((left, one) => left - one * one, M.deviation ** 2));
}
// Nine of ten times lie within this factor, where so much variance is left open.
const within = (variance) => Math.exp(M.nineOfTen * Math.sqrt(Math.max(variance, 0) + M.repeat ** 2));
const isLong = (calls) => (calls > M.longRun ? 1 : 0);
// A kind that no model knows is like none.
const placeOf = (kind) => data.kinds.indexOf(kind);
// The factor of a time that is taken from a run of another length, or on other data, at the shape.
function factorOfOne(shape, problem, calls, kind) {
  const shared = alike([shape, placeOf(problem.kind), isLong(problem.t)], [shape, placeOf(kind), isLong(calls)]);
  return within(M.deviation ** 2 - shared ** 2 / (M.deviation ** 2 + M.repeat ** 2));
}
function limit(model, shape) {
  const [rate, memory, cache, cacheBytes, barrier] = model.limits;
  const read = cache && cacheBytes && valueOf(M.points[model.bytes], shape) <= cacheBytes ? cache : memory;
  const [operations, bytes] = M.terms[model.bytes];
  return [[valueOf(operations, shape) / (rate * 1e9), "arithmetic"],
    [valueOf(bytes, shape) / (read * 1e9), "bandwidth"], [barrier, "a grid barrier"]]
    .filter(([value]) => value > 0 && value < Infinity).sort((a, b) => b[0] - a[0])[0];
}
// Does a file show that the variant does not take the shape?
function refuses({ d: [below, from], dk, chip }, shape) {
  const [, d, k] = shape;
  return d <= below || (from > 0 && d >= from) || dk.some(([least, few]) => d >= least && k >= few)
    || (chip !== null && valueOf(chip.needs, shape) > chip.bytes);
}
// What `advise` would say.
function predicted(model, shape, calls, kind) {
  if (!model || refuses(model.refused, shape)) return null;
  const problem = [shape, placeOf(kind), isLong(calls)];
  const [sum, covariances] = predictOne(model.iteration, model.bytes, problem);
  const factor = factorOf(model.iteration, covariances);
  const setup = model.setup && predictOne(model.setup, model.bytes, problem)[0];
  const least = limit(model, shape);
  const value = least && !model.beats ? Math.max(sum, least[0]) : sum;
  return { value, factor, setup, limit: least };
}

const far = (problem, shape) => Math.hypot(...["n", "d", "k"].map((axis, i) =>
  Math.log(problem[axis] / shape[i]) / M.reach[i]));
const times = (own, yours) => (own > yours ? `${three(own / yours)} times larger` : `${three(yours / own)} times smaller`);
const distance = (problem, shape) => ["n", "d", "k"].map((axis, i) =>
  (problem[axis] === shape[i] ? null : `${axis} ${times(problem[axis], shape[i])}`)).filter(Boolean).join(", ");
const titled = (problem) => `${count(problem.n)} × ${count(problem.d)}, k = ${count(problem.k)}`;

const isKind = (problem, kind) => !kind || !problem.kind || problem.kind === kind;
// How near a run's length is: 2 as many iterations, 1 as long a run.
const lengthOf = (problem, calls) => (problem.t === calls ? 2 : isLong(problem.t) === isLong(calls) ? 1 : 0);
// Problems of a machine, the nearest first; those with an exact answer among at least three come
// before the others, which would say little.
function nearest(machine, kind, shape, calls) {
  const all = data.problems.filter((p) => p.m === machine && (isKind(p, kind) || far(p, shape) === 0));
  const telling = all.filter((p) => p.rows.length > 2 && p.rows.some((row) => row[2] === 0));
  return (telling.length ? telling : all)
    .sort((a, b) => far(a, shape) - far(b, shape) || isKind(b, kind) - isKind(a, kind) || lengthOf(b, calls) - lengthOf(a, calls) || b.rows.length - a.rows.length);
}

// A line of a ranking from a measured row, a model, or both.
function line(machine, problem, row, model, shape, calls, asked) {
  const [name, needs, source] = data.names[row[0]];
  const guess = predicted(model, shape, calls, asked);
  const own = distance(problem, shape) === "";
  const [, precision, kind, on, median = null, interval = NONE, setup, wrong = NONE, wrongShare] = row;
  const alone = !row[13];  // others need no ranks for it
  const measured = own && median !== null;
  const scaled = measured && (problem.t !== calls || !isKind(problem, asked));
  const factor = scaled ? factorOfOne(shape, problem, calls, asked) : measured ? 1 : guess?.factor;
  const best = measured ? median : guess?.value ?? null;
  const first = measured ? setup : guess?.setup;
  const whole = best === null || first == null ? null : first + calls * best;
  const [share, binds] = measured ? [row[9], row[10]] : guess?.limit ? [guess.limit[0] / guess.value, guess.limit[1]] : [null, ""];
  const tag = row[11] ? ` <span class="tag${row[11] === "unsteady" ? " warning" : ""}">${row[11]}</span>` : "";
  const cell = (display, order) => ({ display, order: order ?? Infinity });
  const slowest = row[11] === "unsteady" ? ", the slowest process" : "";
  const basis = !measured ? "predicted" : scaled ? `scaled from ${many(problem.t)}${problem.kind && ` on ${escaped(problem.kind)}`}` : "measured";
  const note = `${basis}${measured ? slowest : ""}${factor > 1 ? `, within ×${factor.toFixed(2)}${factor > M.far ? ": far from what is on file" : ""}` : ""}`;
  const several = /^\d+ GPUs$/.test(on) ? `, ${on}` : "";
  return {
    kind, on, machine, name, alone, best, factor, basis: `${basis}${measured ? slowest : ""}`, median, share, binds, whole, label: `${name} ${precision}${several}`,
    variant: cell(`<b>${escaped(name).replaceAll("_", "_<wbr>")}</b> ${escaped(precision)}${several}${tag}`, `${name} ${precision}${several}`),
    where: cell(escaped(data.machines[machine].id), machine),
    yours: cell(best === null ? NONE : `${seconds(best)} <small>${note}</small>`, best),
    median_: cell(median === null ? NONE : seconds(median), median),
    interval: cell(interval, median),
    whole_: cell(whole === null ? NONE : seconds(whole), whole),
    wrong: cell(kind === 0 ? "none" : wrong, kind === 0 ? 0 : wrongShare),
    share_: cell(share ? `${percent(share)} <small>${binds}</small>` : NONE, share ? -share : null),
    needs: cell(`${escaped(needs)}${on.includes("GPU") ? "" : ` <small>${escaped(on)}</small>`}`, needs),
    links: cell((source ? `<a href="${source}">code</a> ` : "") + `<a href="${problem.file}">JSON</a>`, name),
  };
}
function linesOf(machine, problem, shape, calls, kind) {
  const there = new Set(problem.rows.map((row) => row[12]));
  const guessed = data.models.filter((model, i) => model.m === machine && !there.has(i))
    .filter((model) => predicted(model, shape, calls, kind)).map((model) => line(machine, problem, model.row, model, shape, calls, kind));
  return problem.rows.map((row) => line(machine, problem, row, data.models[row[12]], shape, calls, kind)).concat(guessed);
}

const column = (title, key, className = "") => ({ title, data: key, className, type: typeof key === "string" && /variant|needs|links/.test(key) ? "string" : "num",
  render: { _: "display", sort: "order", type: "order", filter: "display" } });
const boards = KINDS.map((kind) => new jQuery.fn.dataTable(`#board-${kind}`, {
  columns: [column("variant", "variant"), column("machine", "where"), column("a fit at yours", "whole_", "n"),
    column("an iteration at yours", "yours", "n"), column("of the limit", "share_", "n"), column("measured at the shape above", "median_", "n"),
    column("interval", "interval", "n"), column("labels wrong", "wrong", "n"), column("needs", "needs", "wrap"), column("", "links")],
  drawCallback() {
    const { recordsTotal, pages } = this.api().page.info();
    this.api().table().container().classList.toggle("short", recordsTotal <= 8 && pages < 2);
  },
  data: [], order: [[2, "asc"], [3, "asc"]], pageLength: 8, lengthChange: false, autoWidth: false,
  layout: { topStart: null, topEnd: "search", bottomStart: "info", bottomEnd: "paging" },
  language: { search: "filter", info: "_START_ to _END_ of _TOTAL_", infoEmpty: "", emptyTable: "nothing on file", infoFiltered: "(of _MAX_)", zeroRecords: "nothing matches" },
}));

// What `kmeans-bench fit` runs without --variant: the quicker of them.
const OF_FITS = ["openmp_best", "cuda_best"];
const iterations = () => size(tBox.value) || M.iterations;
// By the whole fit, as `advise` and `best`; those that have none come last, by their iterations.
const quicker = (a, b) => (a.whole === b.whole ? 0 : (a.whole ?? Infinity) - (b.whole ?? Infinity)) || a.best - b.best;
function said(lines, shape, shown) {
  const parts = shown.map(([machine, problem]) => {
    const all = lines.filter((l) => l.machine === machine && l.kind === 0 && l.alone && l.best !== null).sort(quicker);
    const [exact] = all;
    const at = `<b>${titled({ n: shape[0], d: shape[1], k: shape[2] })}</b> on ${escaped(data.machines[machine].name)}`;
    const beside = distance(problem, shape);
    const other = `${titled(problem)} (${escaped(problem.experiment)}, ${escaped(problem.kind)})`;
    const note = beside ? `Nothing was measured at exactly this shape. Nearest shown: ${other}: ${beside}.` : `Measured at exactly this shape (${escaped(problem.experiment)}, ${escaped(problem.kind)}, ${many(problem.t)}).`;
    if (!exact) return `<p>${at}: no exact variant is measured here or predicted. ${note}</p>`;
    const low = exact.factor === 1 ? "" : ` (nine of ten times within ${seconds(exact.best / exact.factor)} to ${seconds(exact.best * exact.factor)}${exact.factor > M.far ? ": far from what is on file, so measure with <code>kmeans-bench best</code>" : ""})`;
    // What leaves work out may take less than the limit, which is that of all distances.
    const least = exact.share > 1 ? `${three(exact.share)} times as fast as the limit of brute force` : `${percent(exact.share)} of the limit`;
    const share = exact.share ? `, ${least} (${exact.binds} binds)` : "";
    const whole = exact.whole === null ? "" : `a fit of ${many(iterations())} takes <b>${seconds(exact.whole)}</b> after its seeding, `;
    const ours = all.find((l) => OF_FITS.includes(l.name) && l.whole !== null);
    const runs = !ours || ours === exact || exact.whole === null ? "" : ` Without <code>--variant</code>, <code>kmeans-bench fit</code> runs ${escaped(ours.label)}${ours.median === null ? ", which is not measured at this shape" : `: ${three(ours.whole / exact.whole)} times as long, ${ours.basis}`}.`;
    return `<p>${at}: <b class="winner">${escaped(exact.label)}</b> is the quickest exact one: ${whole}<b>${seconds(exact.best)}</b> an iteration, ${exact.basis}${low}${share}.${runs} <span class="facts">${note}</span></p>`;
  });
  document.getElementById("said").innerHTML = parts.join("");
}

// Parts of the page that are about another machine than the chosen one; where none is left, the page says whose there are.
function hideOthers() {
  const machine = form.elements.m.value;
  const parts = [...document.querySelectorAll("[data-machine]")];
  parts.forEach((part) => { part.hidden = machine !== "" && part.dataset.machine !== machine; });
  document.getElementById("no-map")?.toggleAttribute("hidden", !parts.every((part) => part.hidden));
}

let chosen = "";
function show(keep = true) {
  const shape = [nBox, dBox, kBox].map((box) => size(box.value));
  const calls = iterations();
  [nBox, dBox, kBox].forEach((box, i) => box.toggleAttribute("aria-invalid", Number.isNaN(shape[i])));
  const refused = shape.some(Number.isNaN) || shape[2] > shape[0];
  document.getElementById("answer").classList.toggle("refused", refused);
  if (refused) {
    document.getElementById("said").textContent = "n, d and k are whole numbers from 1, k at most n: 2000000, 2e6, 2M.";
    return;
  }
  const [machine, kind, on] = ["m", "kind", "on"].map((name) => form.elements[name].value);
  const machines = data.machines.map((_, i) => i).filter((i) => machine === "" || data.machines[i].id === machine);
  const found = machines.map((i) => [i, nearest(i, kind, shape, calls)]).filter(([, list]) => list.length);
  const shown = found.map(([i, list]) => [i, (machines.length === 1 && list.find((p) => p.id === chosen)) || list[0]]);
  near.replaceChildren(...found.slice(0, found.length === 1 ? 1 : 0).flatMap(([, list]) => list.slice(0, NEAREST)
    .concat(list.slice(NEAREST).filter((p) => p.id === chosen)).map((p) =>
      new Option(`${titled(p)}: ${distance(p, shape) || "exactly yours"} (${p.experiment}, ${p.kind}, ${p.rows.length} measured)`, p.id))));
  if (shown.length === 1) near.value = shown[0][1].id;
  near.closest("p").hidden = shown.length !== 1;
  const lines = shown.flatMap(([i, problem]) => linesOf(i, problem, shape, calls, kind))
    .filter((l) => !on || l.on.includes("GPU") === (on === "gpu"));
  const own = shown.every(([, problem]) => distance(problem, shape) === "");
  boards.forEach((board, kindPlace) => {
    const rows = lines.filter((l) => l.kind === kindPlace);
    board.column(1).visible(shown.length > 1, false);
    board.column(5).visible(!own, false);
    board.clear().rows.add(rows).order([[2, "asc"], [3, "asc"], [5, "asc"]]).draw();
    document.getElementById(`ranking-${KINDS[kindPlace]}`).hidden = rows.length === 0;
  });
  said(lines, shape, shown);
  hideOthers();
  const marked = shown.map(([, problem]) => data.problems.indexOf(problem));
  globalThis.board = { points: data.points, machine: machines.length === 1 ? machines[0] : -1, marked };
  dispatchEvent(new Event("board"));
  if (!keep) return;
  const kept = new URLSearchParams(new FormData(form));
  if (shown.length === 1 && chosen === shown[0][1].id) kept.set("s", chosen);
  history.replaceState(null, "", `#${kept}`);
}
function restore() {
  const kept = new URLSearchParams(location.hash.slice(1));
  if (!kept.has("n")) return false;
  for (const name of ["m", "n", "d", "k", "t", "kind", "on"]) if (kept.has(name)) form.elements[name].value = kept.get(name);
  chosen = kept.get("s") ?? "";
  return true;
}

form.elements.m.append(...(data.machines.length > 1 ? [new Option("all machines", "")] : []), ...data.machines.map((m) => new Option(`${m.name} (${m.id})`, m.id)));
form.elements.kind.append(...[...new Set(data.problems.map((p) => p.kind).filter(Boolean))].sort().map((kind) => new Option(kind, kind)));
const exactOnes = (p) => new Set(p.rows.filter((row) => row[2] === 0 && row[4] !== null).map((row) => row[0])).size;
// A new page opens on the machine last measured here, else where the most is known: the machine with the most times
// of exact answers; and at its problem with the most kinds of answers, then of variants.
const kindsOf = (p) => new Set(p.rows.map((row) => row[2])).size;
const exactTimes = data.machines.map(() => 0);
data.problems.forEach((p) => { exactTimes[p.m] += exactOnes(p); });
if (data.start !== null) exactTimes[data.start] = Infinity;
const start = [...data.problems].sort((a, b) => exactTimes[b.m] - exactTimes[a.m]
  || kindsOf(b) - kindsOf(a) || b.rows.length - a.rows.length || b.n * b.d * b.k - a.n * a.d * a.k)[0];
if (start) {
  form.elements.m.value = data.machines[start.m].id;
  [nBox.value, dBox.value, kBox.value, tBox.value] = [start.n, start.d, start.k, M.iterations];
  show(restore());
  // With the models that it took: a machine, and how many problems each is made of.
  performance.mark("answered", { detail: data.models.filter((one) => one.iteration.cholesky).map((one) => [one.m, one.iteration.problems.length]) });
}
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("input", () => { chosen = ""; show(); });
near.addEventListener("input", () => { chosen = near.value; show(); });
addEventListener("DOMContentLoaded", hideOthers);
addEventListener("hashchange", () => { if (restore()) show(); });
