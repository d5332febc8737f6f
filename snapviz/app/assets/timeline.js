/* The timeline: its window goes into the address, a click becomes a place, the wheel zooms. */
(function () {
  "use strict";

  var ID = "timeline-chart";
  /* What of the state the picture, the cursors and the choices hang on. */
  var PARTS = [
    ["base", "head", "rank", "axis", "align", "view", "x0", "x1", "y0", "y1", "q"],
    ["base", "head", "rank", "axis", "align", "view", "bt", "ht", "name", "at", "measure", "show"],
    ["base", "head", "rank"]
  ];
  var waiting = null;

  function plot() {
    var place = document.getElementById(ID);
    var found = place && place.querySelector(".js-plotly-plot");
    return found && found._fullLayout && found._fullLayout.xaxis ? found : null;
  }

  function meta(graph) {
    return (graph.layout && graph.layout.meta) || null;
  }

  function range(axis) {
    return axis.range.map(Number);
  }

  /* What the axes show, as the address has it; null where the whole is shown. */
  function shown(graph) {
    var told = meta(graph);
    var x = range(graph._fullLayout.xaxis), y = range(graph._fullLayout.yaxis);
    var changes = { replace: true };
    if (x[0] !== told.x[0] || x[1] !== told.x[1]) {
      var low = Math.floor(x[0]), high = Math.max(Math.ceil(x[1]), low + 1);
      var whole = low <= told.whole[0] && high >= told.whole[1];
      changes.x0 = whole ? null : Math.max(low, told.whole[0]);
      changes.x1 = whole ? null : Math.min(high, told.whole[1]);
      if (!whole && changes.x0 >= changes.x1) { changes.x0 = changes.x1 = null; }
    }
    if (y[0] !== told.y[0] || y[1] !== told.y[1]) {
      changes.y0 = Math.max(0, Math.floor(y[0]));
      changes.y1 = Math.max(Math.ceil(y[1]), changes.y0 + 1);
    }
    return changes;
  }

  function moved() {
    window.clearTimeout(waiting);
    waiting = window.setTimeout(function () {
      var graph = plot();
      if (graph && meta(graph)) { window.snapviz.go(shown(graph)); }
    }, 140);
  }

  function zoom(graph, scale, shift, at) {
    var x = range(graph._fullLayout.xaxis);
    var width = x[1] - x[0], next = Math.max(width * scale, 1);
    var share = at === undefined ? 0.5 : (at - x[0]) / width;
    var low = x[0] + share * (width - next) + shift * width;
    window.Plotly.relayout(graph, { "xaxis.range[0]": low, "xaxis.range[1]": low + next });
  }

  function fit() {
    window.snapviz.go({ x0: null, x1: null, y0: null, y1: null, replace: true });
  }

  var tools = {
    "in": function (graph) { zoom(graph, 0.5, 0); },
    out: function (graph) { zoom(graph, 2, 0); },
    left: function (graph) { zoom(graph, 1, -0.25); },
    right: function (graph) { zoom(graph, 1, 0.25); },
    fit: fit,
    height: function () { window.snapviz.go({ y0: null, y1: null, replace: true }); }
  };

  document.addEventListener("click", function (event) {
    var button = event.target.closest && event.target.closest("[data-timeline]");
    var graph = button && plot();
    if (graph) { tools[button.dataset.timeline](graph); }
  });

  /* Which panel a point of the screen is in, and where there. */
  function place(graph, event) {
    var box = graph.getBoundingClientRect(), layout = graph._fullLayout;
    var left = event.clientX - box.left, top = event.clientY - box.top;
    var found = null;
    [["xaxis", "yaxis"], ["xaxis2", "yaxis2"]].forEach(function (names, panel) {
      var x = layout[names[0]], y = layout[names[1]];
      if (!x || !y || y._offset === undefined) { return; }
      if (left < x._offset || left > x._offset + x._length) { return; }
      if (top < y._offset || top > y._offset + y._length) { return; }
      found = { panel: panel, x: x.p2d(left - x._offset), y: y.p2d(top - y._offset) };
    });
    return found;
  }

  var pressed = null;

  document.addEventListener("pointerdown", function (event) {
    var inside = event.target.closest && event.target.closest("#" + ID);
    pressed = inside && event.button === 0 ? { x: event.clientX, y: event.clientY } : null;
  }, true);

  document.addEventListener("pointerup", function (event) {
    var graph = pressed && plot();
    var still = pressed && Math.abs(event.clientX - pressed.x) + Math.abs(event.clientY - pressed.y) < 4;
    pressed = null;
    var at = graph && still ? place(graph, event) : null;
    if (at) {
      at.n = Date.now();
      window.dash_clientside.set_props("timeline-click", { data: at });
    }
  }, true);

  /* What lies under the pointer once it rests. */
  var resting = null;

  document.addEventListener("pointermove", function (event) {
    window.clearTimeout(resting);
    var inside = event.target.closest && event.target.closest("#" + ID);
    if (!inside || event.buttons) { return; }
    resting = window.setTimeout(function () {
      var graph = plot(), at = graph && place(graph, event);
      if (at) { window.dash_clientside.set_props("timeline-hover", { data: at }); }
    }, 90);
  });

  document.addEventListener("wheel", function (event) {
    var inside = event.target.closest && event.target.closest("#" + ID);
    var graph = inside && plot();
    var at = graph && !event.ctrlKey && !event.metaKey ? place(graph, event) : null;
    if (!at) { return; }
    event.preventDefault();
    var steps = event.deltaMode === 1 ? 30 : 1;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      zoom(graph, 1, (event.deltaX || event.deltaY) * steps / 1500);
    } else {
      zoom(graph, Math.pow(1.0018, event.deltaY * steps), 0, at.x);
    }
  }, { passive: false, capture: true });

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    snapviz: Object.assign({}, (window.dash_clientside || {}).snapviz, {
      /* What of the state is whose: only what changed goes on to the server. */
      timelineParts: function (state, atWindow, atCursor, ofRuns) {
        var none = window.dash_clientside.no_update, known = [atWindow, atCursor, ofRuns];
        if (!state || state.page !== "timeline") { return [none, none, none]; }
        return PARTS.map(function (keys, at) {
          var told = JSON.stringify(keys.map(function (key) { return state[key]; }));
          return known[at] === told ? none : told;
        });
      },
      timelineMoved: function (changed) {
        var keys = Object.keys(changed || {});
        if (keys.some(function (key) { return /autorange$/.test(key); })) {
          fit();
        } else if (keys.some(function (key) { return /^[xy]axis2?\.range/.test(key); })) {
          moved();
        }
        return window.dash_clientside.no_update;
      },
      /* A phase above a panel zooms to itself. */
      timelineTo: function (clicked) {
        var point = clicked && clicked.points && clicked.points[0];
        var ends = point && point.customdata;
        if (Array.isArray(ends) && ends.length === 2) {
          window.snapviz.go({ x0: Math.floor(ends[0]), x1: Math.ceil(ends[1]), y0: null, y1: null });
        }
        return window.dash_clientside.no_update;
      }
    })
  });
}());
