/* How a run looks in a picker, and what is searched: its name, branch, commit, date, world size and device. */
(function () {
  "use strict";

  var functions = window.dashMantineFunctions = window.dashMantineFunctions || {};

  functions.snapvizRun = function (given) {
    return React.createElement("div", { className: "run-option" }, [
      React.createElement("div", { key: "id" }, given.option.label),
      React.createElement("div", { key: "about", className: "faint" }, given.option.about)
    ]);
  };

  functions.snapvizRuns = function (given) {
    // what is chosen already stands in the field: it is no search yet
    if (given.options.some(function (option) { return option.label === given.search; })) {
      return given.options.slice(0, given.limit);
    }
    var words = given.search.toLowerCase().split(/\s+/).filter(Boolean);
    return given.options.filter(function (option) {
      var told = (option.label + " " + option.about).toLowerCase();
      return words.every(function (word) { return told.indexOf(word) >= 0; });
    }).slice(0, given.limit);
  };

  document.addEventListener("focusin", function (event) {
    var input = event.target.closest && event.target.closest(".picker input");
    if (input) { window.setTimeout(function () { input.select(); }, 0); }
  });
}());
