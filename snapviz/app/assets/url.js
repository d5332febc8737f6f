/* Controls and the page's address say the same, both ways; going elsewhere changes the address and nothing else. */
(function () {
  "use strict";

  var defaults = null;

  function known() {
    if (defaults === null) {
      var place = document.getElementById("snapviz-defaults");
      if (!place) { return {}; }
      defaults = JSON.parse(place.dataset.defaults);
    }
    return defaults;
  }

  function text(value) {
    return value === null || value === undefined || value === false ? "" : String(value);
  }

  function same(key, value) {
    return text(value) === "" || text(value) === text(known()[key]);
  }

  function query(changes) {
    var params = new URLSearchParams(window.location.search);
    Object.keys(changes).forEach(function (key) {
      if (!(key in known())) { return; }
      if (same(key, changes[key])) { params.delete(key); } else { params.set(key, text(changes[key])); }
    });
    // as Python writes it: names of phases and runs stay readable
    var found = params.toString().replace(/%2F/g, "/").replace(/%3A/g, ":");
    return found ? "?" + found : "";
  }

  function prefix() {
    var config = document.getElementById("_dash-config");
    var found = config ? JSON.parse(config.textContent).requests_pathname_prefix : "/";
    return (found || "/").replace(/\/$/, "");
  }

  function go(changes) {
    if (!changes) { return; }
    var search = query(changes);
    var path = window.location.pathname;
    if (changes.page) { path = prefix() + (changes.page === "compare" ? "/" : "/" + changes.page); }
    if (path === window.location.pathname && search === window.location.search) { return; }
    if (changes.replace) {
      // dcc.Location pushes what differs from what it was given last, which may be nothing yet: so it is given where
      // it is first, and then finds the new address as when somebody goes back
      window.dash_clientside.set_props("url", { pathname: window.location.pathname, search: window.location.search });
      window.setTimeout(function () {
        window.history.replaceState(window.history.state, "", path + search);
        window.dispatchEvent(new PopStateEvent("popstate", { state: window.history.state }));
      }, 0);
    } else {
      window.dash_clientside.set_props("url", { pathname: path, search: search });
    }
    if (changes.page) { window.scrollTo(0, 0); }
  }

  function forget(changes, keys) {
    keys.forEach(function (key) { changes[key] = null; });
  }

  function value(key) {
    var found = new URLSearchParams(window.location.search).get(key);
    return found === null ? text(known()[key]) : found;
  }

  window.snapviz = Object.assign(window.snapviz || {}, { go: go, value: value, prefix: prefix });
  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    snapviz: Object.assign({}, (window.dash_clientside || {}).snapviz, {
      controlsToUrl: function (values, ids) {
        var changes = {};
        var moved = (window.dash_clientside.callback_context.triggered || []).map(function (one) {
          return one.prop_id.replace(/\.value$/, "");
        });
        ids.forEach(function (id, at) {
          // only what somebody moved: a control that is just being drawn may be behind the address
          var told = moved.some(function (name) {
            try { return JSON.parse(name).key === id.key; } catch (error) { return false; }
          });
          if (told && text(values[at]) !== value(id.key)) { changes[id.key] = values[at]; }
        });
        if (!Object.keys(changes).length) { return window.dash_clientside.no_update; }
        if ("base" in changes || "head" in changes) {
          // places in one run mean nothing in another
          forget(changes, ["rank", "row", "bt", "ht", "x0", "x1", "y0", "y1", "name"]);
        }
        // an event of one rank is another of the next, and a moment that is chosen is none that was clicked
        if ("rank" in changes || "at" in changes) { forget(changes, ["bt", "ht"]); }
        // places of one axis mean nothing on another
        if ("axis" in changes || "align" in changes) { forget(changes, ["x0", "x1"]); }
        go(changes);
        return window.dash_clientside.no_update;
      },
      urlToControls: function (search, values, ids) {
        return ids.map(function (id, at) {
          var wanted = value(id.key);
          return text(values[at]) === wanted ? window.dash_clientside.no_update : wanted;
        });
      },
      goTo: function (changes) {
        go(changes);
        return window.dash_clientside.no_update;
      },
      again: function (done) {
        if (done) { window.dash_clientside.set_props("again", { data: done }); }
        return window.dash_clientside.no_update;
      },
      title: function (state) {
        if (state) {
          var runs = [state.base, state.head].filter(Boolean).join(" → ");
          document.title = (runs ? runs + " · " : "") + state.page + " · snapviz";
        }
        return window.dash_clientside.no_update;
      }
    })
  });

  document.addEventListener("click", function (event) {
    var link = event.target.closest && event.target.closest("a.spa");
    if (link && event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey) {
      var place = new URL(link.href);
      if (place.origin === window.location.origin) {
        event.preventDefault();
        window.dash_clientside.set_props("url", { pathname: place.pathname, search: place.search });
        if (place.pathname !== window.location.pathname) { window.scrollTo(0, 0); }
      }
    }
    if (event.target.closest && event.target.closest("#swap")) { window.snapviz.swap(); }
  });

  window.snapviz.swap = function () {
    go({
      base: value("head"), head: value("base"), bt: value("ht"), ht: value("bt"), row: null, name: null
    });
  };
}());
