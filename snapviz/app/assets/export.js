/* A chart as PNG or SVG, and a page as one HTML file that asks nothing of anybody: built anew from the elements and
   attributes that are known to be harmless, with figures as drawings, tables as tables, and no script at all. */
(function () {
  "use strict";

  var MOST_ROWS = 1000;
  var TITLE_HEIGHT = 58;
  var SVG = "http://www.w3.org/2000/svg";
  var POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

  // ---------------------------------------------------------------- small things

  function runs() {
    return ["base", "head"].map(function (key) {
      var place = Array.from(document.querySelectorAll(".picker input")).find(function (input) {
        return (input.closest("[id]") || input).id.indexOf('"' + key + '"') >= 0;
      });
      return window.snapviz.value(key) && ((place && place.value) || window.snapviz.value(key));
    }).filter(Boolean);
  }

  function escaped(text) {
    return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  }

  function fileName(parts, end) {
    var plain = parts.join("-").replace(/[^A-Za-z0-9._-]+/g, "_").replace(/^[._-]+/, "").slice(0, 120);
    return (plain || "snapviz") + "." + end;
  }

  function save(blob, name) {
    var link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    document.body.appendChild(link);
    link.click();
    link.remove();
    window.setTimeout(function () { URL.revokeObjectURL(link.href); }, 60000);
  }

  function tell(text) {
    var place = document.getElementById("snapviz-said");
    if (!place) {
      place = document.createElement("div");
      place.id = "snapviz-said";
      place.className = "no-print";
      place.setAttribute("role", "alert");
      document.body.appendChild(place);
    }
    place.textContent = text;
    window.clearTimeout(place.timer);
    place.timer = window.setTimeout(function () { place.textContent = ""; }, 8000);
  }

  // ---------------------------------------------------------------- charts

  function plotOf(id) {
    var place = document.getElementById(id);
    return place && (place.classList.contains("js-plotly-plot") ? place : place.querySelector(".js-plotly-plot"));
  }

  function labelOf(plot) {
    var place = plot.closest("[aria-label]");
    return place ? place.getAttribute("aria-label") : "";
  }

  /* The figure as it stands, on white, with what it is and of which runs where `titled`. As a data URI. */
  function image(plot, format, titled) {
    var layout = Object.assign({}, plot.layout, { paper_bgcolor: "#fff", plot_bgcolor: "#fff", autosize: false });
    var height = plot.clientHeight || 320;
    if (titled) {
      var margin = Object.assign({ l: 60, r: 20, t: 20, b: 40 }, plot._fullLayout && plot._fullLayout.margin, plot.layout.margin);
      margin.t = (margin.t || 0) + TITLE_HEIGHT;
      height += TITLE_HEIGHT;
      layout.margin = margin;
      layout.title = {
        text: escaped(labelOf(plot)) + "<br><sub>" + escaped(runs().join(" → ")) + "</sub>",
        x: 0.01, xanchor: "left", y: 1, yanchor: "top", yref: "container", pad: { t: 12 }, font: { size: 15 }
      };
    }
    return window.Plotly.toImage({ data: plot.data, layout: layout, config: { staticPlot: true } }, {
      format: format, width: plot.clientWidth || 900, height: height, scale: format === "png" ? 2 : 1
    });
  }

  function svgText(uri) {
    return decodeURIComponent(uri.slice(uri.indexOf(",") + 1));
  }

  function saveChart(id, format) {
    var plot = plotOf(id);
    if (!plot || !plot.data || !plot.data.length) { tell("There is nothing drawn to save yet."); return; }
    var name = fileName(["snapviz", labelOf(plot) || id].concat(runs()), format);
    image(plot, format, true).then(function (uri) {
      if (format === "svg") { save(new Blob([svgText(uri)], { type: "image/svg+xml" }), name); return; }
      var bytes = Uint8Array.from(window.atob(uri.slice(uri.indexOf(",") + 1)), function (c) { return c.charCodeAt(0); });
      save(new Blob([bytes], { type: "image/png" }), name);
    }).catch(function () { tell("This chart could not be saved."); });
  }

  // ---------------------------------------------------------------- grids as tables

  function api(grid) {
    var place = grid.closest("[id]");
    try { return window.dash_ag_grid.getApi(place.id); } catch (error) { return null; }
  }

  function cell(grid, row, column) {
    try {
      var found = grid.getCellValue({ rowNode: row, colKey: column, useFormatter: true });
      return found === null || found === undefined ? "" : String(found);
    } catch (error) {
      return "";
    }
  }

  /* The rows of a grid that are there, in its order, and how many there are in all. */
  function gridTable(place) {
    var table = document.createElement("table");
    var grid = api(place);
    var columns = grid ? grid.getAllDisplayedColumns() : [];
    var names = columns.map(function (column) {
      return grid.getDisplayNameForColumn(column, "header") || "";
    });
    var all = grid ? grid.getDisplayedRowCount() : 0;
    var rows = [];
    for (var at = 0; at < all && rows.length < MOST_ROWS; at += 1) {
      var row = grid.getDisplayedRowAtIndex(at);
      // of a grid that asks the server as it is scrolled, what was not asked for yet is not there
      if (row && row.data) { rows.push(row); }
    }
    var caption = table.createCaption();
    caption.textContent = rows.length === all ? all + " rows" : rows.length + " of " + all + " rows, those that were loaded";
    var head = table.createTHead().insertRow();
    names.forEach(function (name) {
      var made = document.createElement("th");
      made.scope = "col";
      made.textContent = name;
      head.appendChild(made);
    });
    var body = table.createTBody();
    rows.forEach(function (each) {
      var line = body.insertRow();
      columns.forEach(function (column) { line.insertCell().textContent = cell(grid, each, column); });
    });
    return table;
  }

  // ---------------------------------------------------------------- a page, built anew

  var KNOWN = new Set(("article aside b blockquote br caption code col colgroup dd del details div dl dt em figcaption figure " +
    "h1 h2 h3 h4 h5 h6 hr i img ins kbd li main mark ol p pre s section small span strong sub summary sup table tbody td " +
    "tfoot th thead time tr u ul").split(" "));
  var DRAWN = new Set(("svg g path rect circle ellipse line polygon polyline text tspan defs clipPath linearGradient " +
    "radialGradient stop pattern marker mask image use title desc symbol textPath filter feOffset feGaussianBlur feBlend " +
    "feFlood feComposite feMerge feMergeNode").split(" "));
  var DROPPED = "script, style, link, meta, base, iframe, object, embed, template, noscript, input, textarea, select, " +
    "dialog, audio, video, .no-print, .tool, .search-input, .chart-buttons, [hidden]";
  var ATTRIBUTES = new Set(("alt class colspan dir headers height id lang open role rowspan scope start style title " +
    "width").split(" "));

  function keepAttributes(from, to, drawn) {
    Array.from(from.attributes).forEach(function (attribute) {
      var name = attribute.name.toLowerCase();
      if (name.indexOf("on") === 0) { return; }
      if (name === "href" || name === "xlink:href") {
        if (drawn && /^(#|data:image\/(png|jpeg|gif|webp);)/.test(attribute.value)) { to.setAttribute("href", attribute.value); }
        return;
      }
      if (drawn ? name.indexOf("xmlns") !== 0 : ATTRIBUTES.has(name) || name.indexOf("aria-") === 0) {
        to.setAttribute(attribute.name, attribute.value);
      }
    });
  }

  function drawing(node, target) {
    var name = node.localName === "a" ? "g" : node.localName;
    if (!DRAWN.has(name)) { return null; }
    var made = target.createElementNS(SVG, name);
    keepAttributes(node, made, true);
    children(node, made, target, {});
    return made;
  }

  function picture(source, target) {
    var made = target.createElement("img");
    made.src = source;
    return made;
  }

  function copied(node, target, figures) {
    if (node.nodeType === Node.TEXT_NODE) { return target.createTextNode(node.nodeValue); }
    if (node.nodeType !== Node.ELEMENT_NODE) { return null; }
    if (node.namespaceURI === SVG) { return drawing(node, target); }
    if (figures.has && figures.has(node)) { return figures.get(node); }
    if (node.matches(DROPPED) || window.getComputedStyle(node).display === "none") { return null; }
    if (node.matches(".ag-root-wrapper")) { return target.importNode(gridTable(node), true); }
    if (node.localName === "canvas") { return picture(node.toDataURL("image/png"), target); }
    if (node.localName === "img") {
      return /^data:image\//.test(node.getAttribute("src") || "") ? picture(node.getAttribute("src"), target) : null;
    }
    var made = target.createElement(KNOWN.has(node.localName) ? node.localName : "span");
    keepAttributes(node, made, false);
    if (node.localName === "details") { made.setAttribute("open", ""); }
    // what was as high as a grid or a plot on the screen is as high as what it holds now
    if (node.querySelector(".ag-root-wrapper, .js-plotly-plot")) { made.removeAttribute("style"); }
    children(node, made, target, figures);
    return made;
  }

  function children(from, to, target, figures) {
    from.childNodes.forEach(function (node) {
      var made = copied(node, target, figures);
      if (made) { to.appendChild(made); }
    });
  }

  /* Each plot of the page as a drawing, in place of plotly's own elements. */
  function drawings(target) {
    var plots = Array.from(document.querySelectorAll("#main .js-plotly-plot, .mantine-Drawer-body .js-plotly-plot"));
    var made = new Map();
    return plots.filter(function (plot) { return plot.data && plot.clientWidth; }).reduce(function (before, plot) {
      return before.then(function () { return image(plot, "svg", false); }).then(function (uri) {
        var found = new DOMParser().parseFromString(svgText(uri), "image/svg+xml").documentElement;
        var drawn = drawing(found, target);
        if (drawn) {
          var size = ["width", "height"].map(function (key) { return parseFloat(found.getAttribute(key)) || 0; });
          drawn.setAttribute("viewBox", "0 0 " + size.join(" "));
          drawn.setAttribute("class", "drawing");
          made.set(plot, drawn);
        }
      }).catch(function () { /* a plot that cannot be drawn still has its table */ });
    }, Promise.resolve()).then(function () { return made; });
  }

  // ---------------------------------------------------------------- its styles

  function applies(selector, target) {
    var plain = selector.replace(/::?[a-z-]+(\((?:[^()]|\([^()]*\))*\))?/gi, "");
    if (/^\s*$/.test(plain) || /:root|^\s*(html|body|\*)/.test(selector)) { return true; }
    try { return target.querySelector(plain) !== null; } catch (error) { return false; }
  }

  function rules(list, target) {
    return Array.from(list).map(function (rule) {
      if (rule.selectorText !== undefined) {
        return rule.selectorText.split(",").some(function (each) { return applies(each, target); }) ? rule.cssText : "";
      }
      if (rule.media && rule.cssRules) {
        var inner = rules(rule.cssRules, target);
        return inner && "@media " + rule.media.mediaText + " {\n" + inner + "\n}";
      }
      return "";
    }).filter(Boolean).join("\n");
  }

  function styles(target) {
    var found = Array.from(document.styleSheets).map(function (sheet) {
      try { return rules(sheet.cssRules, target); } catch (error) { return ""; }
    });
    return found.concat([
      ".drawing { max-width: 100%; height: auto; } .scroll { max-height: none; } img { max-width: 100%; }",
      "header.saved, footer.saved { position: static; border: 0; color: var(--faint); font-size: .875rem; padding: .75rem 1.25rem; }",
      "header.saved { border-bottom: 1px solid var(--line); } footer.saved { border-top: 1px solid var(--line); }"
    ]).join("\n").replace(/<\//g, "<\\/");
  }

  // ---------------------------------------------------------------- the file

  function line(target, name, text) {
    var made = target.createElement(name);
    made.className = "saved";
    made.textContent = text;
    return made;
  }

  function meta(target, name, value, content) {
    var made = target.createElement("meta");
    made.setAttribute(name, value);
    if (content) { made.setAttribute("content", content); }
    return made;
  }

  function page(figures, target) {
    var main = target.createElement("main");
    children(document.getElementById("main"), main, target, figures);
    document.querySelectorAll(".mantine-Drawer-body").forEach(function (drawer) {
      var made = target.createElement("section");
      children(drawer, made, target, figures);
      main.appendChild(made);
    });
    var version = document.getElementById("export-html").dataset.version || "";
    var place = window.location.pathname + window.location.search;
    target.documentElement.lang = "en";
    target.documentElement.setAttribute("data-mantine-color-scheme", "light");
    target.body.append(
      line(target, "header", ["snapviz " + version, runs().join(" → ")].filter(Boolean).join(" · ")),
      main,
      line(target, "footer", "Saved " + new Date().toISOString().slice(0, 19).replace("T", " ") + " UTC by snapviz " + version +
        " from " + decoded(place) + ". Nothing in this file runs, and it asks nothing of any server.")
    );
    var style = target.createElement("style");
    style.textContent = styles(target);
    target.head.prepend(
      meta(target, "charset", "utf-8"),
      meta(target, "http-equiv", "Content-Security-Policy", POLICY),
      meta(target, "name", "viewport", "width=device-width, initial-scale=1"),
      meta(target, "name", "referrer", "no-referrer")
    );
    target.head.appendChild(style);
    return "<!doctype html>\n" + target.documentElement.outerHTML + "\n";
  }

  function decoded(place) {
    try { return decodeURIComponent(place); } catch (error) { return place; }
  }

  function savePage() {
    var target = document.implementation.createHTMLDocument(document.title);
    drawings(target).then(function (figures) {
      var name = window.location.pathname.split("/").pop() || "compare";
      save(new Blob([page(figures, target)], { type: "text/html" }), fileName(["snapviz", name].concat(runs()), "html"));
    }).catch(function () { tell("This page could not be saved."); });
  }

  // ---------------------------------------------------------------- print

  var opened = [];

  function beforePrint() {
    afterPrint();
    opened = Array.from(document.querySelectorAll("#main details:not([open])"));
    opened.forEach(function (each) { each.open = true; });
    document.querySelectorAll("#main .ag-root-wrapper").forEach(function (grid) {
      var table = gridTable(grid);
      table.className = "print-only";
      var place = grid.closest("[id]");
      place.classList.add("unprinted");
      place.parentNode.insertBefore(table, place.nextSibling);
    });
    var width = document.getElementById("main").clientWidth;
    // charts keep the width they have on the screen: on paper they are made smaller as a whole
    document.documentElement.style.setProperty("--print-zoom", String(Math.min(1, 1000 / Math.max(1, width))));
  }

  function afterPrint() {
    opened.forEach(function (each) { each.open = false; });
    opened = [];
    document.querySelectorAll("table.print-only").forEach(function (table) { table.remove(); });
    document.querySelectorAll(".unprinted").forEach(function (place) { place.classList.remove("unprinted"); });
  }

  window.addEventListener("beforeprint", beforePrint);
  window.addEventListener("afterprint", afterPrint);

  document.addEventListener("click", function (event) {
    if (!event.target.closest) { return; }
    var chart = event.target.closest(".export-png, .export-svg");
    if (chart) { saveChart(chart.dataset.chart, chart.classList.contains("export-png") ? "png" : "svg"); }
    if (event.target.closest("#export-html")) { savePage(); }
    if (event.target.closest("#print-page")) { window.print(); }
  });
}());
