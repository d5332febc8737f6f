/* Keys, off while somebody types: W A S D zoom and move the chart that was used last, F fits it, / searches, ? helps. */
(function () {
  "use strict";

  var last = null;
  /* What somebody writes into: a radio button or a box to tick is none, and keeps the focus after a click. */
  var WRITTEN = "input:not([type=radio]):not([type=checkbox]), textarea, select, [contenteditable=true], .ag-cell-editor";

  function typing(target) {
    return target && target.closest && target.closest(WRITTEN);
  }

  function chart() {
    if (last && document.contains(last)) { return last; }
    return document.querySelector(".zoomable .js-plotly-plot");
  }

  ["pointerover", "focusin"].forEach(function (name) {
    document.addEventListener(name, function (event) {
      var place = event.target.closest && event.target.closest(".zoomable");
      if (place) { last = place.querySelector(".js-plotly-plot"); }
    });
  });

  function move(scale, shift) {
    var plot = chart();
    if (!plot || !plot._fullLayout || !plot._fullLayout.xaxis) { return false; }
    var range = plot._fullLayout.xaxis.range.map(Number);
    var middle = (range[0] + range[1]) / 2 + shift * (range[1] - range[0]);
    var half = (range[1] - range[0]) / 2 * scale;
    window.Plotly.relayout(plot, { "xaxis.range[0]": middle - half, "xaxis.range[1]": middle + half });
    return true;
  }

  function fit() {
    var plot = chart();
    if (!plot) { return false; }
    // what a page has zoomed to stands in its address
    window.snapviz.go({ x0: null, x1: null, y0: null, y1: null, replace: true });
    window.Plotly.relayout(plot, { "xaxis.autorange": true });
    return true;
  }

  function search() {
    var found = document.querySelector("#page .search-input input") || document.querySelector(".picker input");
    if (!found) { return false; }
    found.focus();
    if (found.select) { found.select(); }
    return true;
  }

  function help() {
    window.dash_clientside.set_props("help", { opened: true });
    return true;
  }

  function page(number) {
    var links = document.querySelectorAll("#nav a");
    if (number > links.length) { return false; }
    links[number - 1].click();
    return true;
  }

  var keys = {
    w: function () { return move(0.5, 0); },
    s: function () { return move(2, 0); },
    a: function () { return move(1, -0.25); },
    d: function () { return move(1, 0.25); },
    f: fit,
    "/": search,
    "?": help,
    x: function () { window.snapviz.swap(); return true; }
  };

  document.addEventListener("keydown", function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || typing(event.target)) { return; }
    var key = event.key.toLowerCase();
    var done = /^[1-9]$/.test(key) ? page(Number(key)) : keys[key] && keys[key]();
    if (done) { event.preventDefault(); }
  });

  document.addEventListener("click", function (event) {
    if (event.target.closest && event.target.closest("#help-button")) { help(); }
  });
}());
