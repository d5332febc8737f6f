/* Tables that are asked for when somebody opens what they are in, or prints or saves the page. */
(function () {
  "use strict";

  var WAITED = 5000;
  var asked = [];

  function missing() {
    return Array.from(document.querySelectorAll("#main .later:empty")).filter(function (each) {
      return each.closest("[hidden]") === null;
    });
  }

  function ask(places) {
    if (!places.length) { return; }
    // a page that was left and comes again has asked for nothing yet
    asked = asked.filter(function (id) {
      var place = document.getElementById(id);
      return place && place.hasChildNodes();
    }).concat(places.map(function (each) { return each.id; }));
    window.dash_clientside.set_props("seg-opened", { data: asked.slice() });
  }

  document.addEventListener("toggle", function (event) {
    if (!event.target.open || !event.target.querySelectorAll) { return; }
    ask(Array.from(event.target.querySelectorAll(":scope > .later:empty")));
  }, true);

  function whole(button, since) {
    if (missing().length && Date.now() - since < WAITED) {
      window.setTimeout(function () { whole(button, since); }, 100);
      return;
    }
    button.dataset.whole = "yes";
    button.click();
  }

  // what is kept or printed has its tables
  window.addEventListener("click", function (event) {
    var button = event.target.closest && event.target.closest("#print-page, #export-html");
    if (!button) { return; }
    if (button.dataset.whole || !missing().length) { delete button.dataset.whole; return; }
    event.stopImmediatePropagation();
    event.preventDefault();
    ask(missing());
    whole(button, Date.now());
  }, true);
}());
