/* Compare: which of its parts hang on what of the state, so that opening a drawer draws nothing else again. */
(function () {
  "use strict";

  function without(state, keys) {
    var found = Object.assign({}, state);
    keys.forEach(function (key) { delete found[key]; });
    return found;
  }

  function changed(next, before) {
    return JSON.stringify(next) === JSON.stringify(before) ? window.dash_clientside.no_update : next;
  }

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    snapviz: Object.assign({}, (window.dash_clientside || {}).snapviz, {
      compareParts: function (state, where, what, row) {
        if (!state || state.page !== "compare") {
          var none = window.dash_clientside.no_update;
          return [none, none, none];
        }
        return [
          changed(without(state, ["row", "q", "name"]), where),
          changed(without(state, ["row"]), what),
          changed(state, row)
        ];
      }
    })
  });

  // a row of the table opens by Enter as it does by a click
  document.addEventListener("keydown", function (event) {
    if (event.key !== "Enter" || !event.target.closest) { return; }
    var cell = event.target.closest(".compare-rows .ag-cell");
    if (cell) { cell.click(); }
  });
}());
