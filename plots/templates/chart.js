// SPDX-License-Identifier: Apache-2.0
// Draws the chart of plots/leaderboard.py with Vega, without code that a page's policy refuses, and
// marks what leaderboard.js has chosen.
const spec = JSON.parse(document.getElementById("chart-spec").textContent);
spec.data.values = board.points;
const quiet = { actions: false, defaultStyle: false, tooltip: { disableDefaultStyle: true } };
vegaEmbed("#chart", spec, { ast: true, renderer: "svg", ...quiet }).then(({ view }) => {
  const mark = () => view.signal("machine", board.machine).signal("shown", board.marked).runAsync();
  addEventListener("board", mark);
  return mark();
}).then(() => document.getElementById("chart").setAttribute("data-drawn", ""));
