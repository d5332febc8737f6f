/* What is dropped on the page, or chosen by a button, is sent as it is, with its progress, and then offered as head or
   base. A folder, and several files of one run, are sent as one tar archive, whose parts stay on the disk until sent. */
(function () {
  "use strict";

  var PART = /^(?:run\.json|rank\d+\.json(?:\.zst)?|.+\.(?:pickle|pkl|p)(?:\.(?:gz|xz|zst))?)$/;
  var SNAPSHOT = /\.(?:pickle|pkl|p)(?:\.(?:gz|xz|zst))?$/;
  var RANK = /^rank\d+\./;
  var DEEP = 4;
  var AT_ONCE = 2;
  var KEPT = 50;

  var waiting = [];
  var sending = 0;

  // ---------------------------------------------------------------- words and elements

  function element(name, className, text) {
    var made = document.createElement(name);
    if (className) { made.className = className; }
    if (text !== undefined) { made.textContent = text; }
    return made;
  }

  function button(text, action) {
    var made = element("button", "tool", text);
    made.type = "button";
    made.addEventListener("click", action);
    return made;
  }

  function size(bytes) {
    var units = ["B", "KiB", "MiB", "GiB", "TiB"];
    var at = 0;
    while (bytes >= 1024 && at < units.length - 1) { bytes /= 1024; at += 1; }
    return at ? bytes.toFixed(2) + " " + units[at] : bytes + " B";
  }

  function most() {
    var place = document.getElementById("drop-zone");
    return place ? Number(place.dataset.most) || 0 : 0;
  }

  function list() {
    var found = document.getElementById("snapviz-drops");
    if (!found) {
      found = element("section", "no-print");
      found.id = "snapviz-drops";
      found.setAttribute("aria-label", "what is being sent");
      document.body.appendChild(found);
    }
    return found;
  }

  // ---------------------------------------------------------------- what this tab has dropped

  function kept() {
    try { return JSON.parse(window.sessionStorage.getItem("uploads")) || []; } catch (error) { return []; }
  }

  function keep(uploads) {
    window.dash_clientside.set_props("uploads", { data: uploads.slice(0, KEPT) });
  }

  // ---------------------------------------------------------------- one file on its way

  function card(name) {
    var made = element("div", "drop-card");
    var head = element("div", "drop-head");
    var said = element("div", "faint");
    var bar = element("progress");
    said.setAttribute("role", "status");
    bar.max = 1;
    bar.value = 0;
    bar.setAttribute("aria-label", "sending " + name);
    head.appendChild(element("strong", "", name));
    made.append(head, bar, said);
    list().appendChild(made);
    return { place: made, head: head, bar: bar, said: said, buttons: element("div", "drop-buttons") };
  }

  function finished(shown, words, grave) {
    shown.bar.remove();
    shown.said.textContent = words;
    shown.said.className = grave ? "drop-error" : "faint";
    if (grave) { shown.said.setAttribute("role", "alert"); }
    shown.head.querySelectorAll("button").forEach(function (each) { each.remove(); });
    var close = button("×", function () { shown.place.remove(); });
    close.setAttribute("aria-label", "close");
    shown.head.appendChild(close);
  }

  function arrived(shown, told) {
    var ranks = told.snapshots === 1 ? "1 snapshot" : told.snapshots + " snapshots";
    finished(shown, ranks + ", " + size(told.size_bytes) + ". Only this tab knows its address.");
    keep([{ id: told.id, name: told.name }].concat(kept()));
    ["head", "base"].forEach(function (side) {
      shown.buttons.appendChild(button("Use as " + side, function () { use(side, told.id); shown.place.remove(); }));
    });
    shown.buttons.appendChild(button("Remove", function () { remove(told.id); shown.place.remove(); }));
    shown.place.appendChild(shown.buttons);
    shown.buttons.firstChild.focus({ preventScroll: true });
  }

  function use(side, id) {
    var changes = { rank: null, row: null, bt: null, ht: null, x0: null, x1: null, y0: null, y1: null, name: null };
    changes[side] = id;
    window.snapviz.go(changes);
  }

  function remove(id) {
    var asked = new XMLHttpRequest();
    asked.open("DELETE", window.snapviz.prefix() + "/upload?id=" + encodeURIComponent(id));
    asked.addEventListener("loadend", function () {
      keep(kept().filter(function (each) { return each.id !== id; }));
      var changes = {};
      ["base", "head"].forEach(function (side) { if (window.snapviz.value(side) === id) { changes[side] = null; } });
      window.snapviz.go(changes);
    });
    asked.send();
  }

  function words(asked) {
    try { return JSON.parse(asked.responseText).error; } catch (error) { /* not ours */ }
    if (asked.status === 413) { return "it is larger than may be sent to this server."; }
    if (asked.status) { return asked.responseText.slice(0, 300) || "the server refused it (" + asked.status + ")."; }
    return "it could not be sent: the server cannot be reached, or has ended it.";
  }

  function send(job) {
    var shown = job.shown;
    var asked = new XMLHttpRequest();
    var begun = Date.now();
    var cancel = button("Cancel", function () { asked.abort(); });
    cancel.setAttribute("aria-label", "cancel sending " + job.name);
    shown.head.appendChild(cancel);
    asked.open("POST", window.snapviz.prefix() + "/upload?name=" + encodeURIComponent(job.name));
    asked.setRequestHeader("Content-Type", "application/octet-stream");
    asked.upload.addEventListener("progress", function (event) {
      if (!event.lengthComputable) { return; }
      var rate = event.loaded / Math.max(1, Date.now() - begun) * 1000;
      shown.bar.value = event.loaded / event.total;
      shown.said.textContent = size(event.loaded) + " of " + size(event.total) + ", " + size(rate) + "/s";
    });
    asked.upload.addEventListener("load", function () {
      shown.bar.removeAttribute("value");
      shown.said.textContent = "looking at it";
    });
    asked.addEventListener("load", function () {
      if (asked.status === 201) { arrived(shown, JSON.parse(asked.responseText)); } else { finished(shown, words(asked), true); }
    });
    asked.addEventListener("error", function () { finished(shown, words(asked), true); });
    asked.addEventListener("abort", function () { shown.place.remove(); });
    asked.addEventListener("loadend", function () { sending -= 1; next(); });
    asked.send(job.body);
  }

  function next() {
    while (sending < AT_ONCE && waiting.length) {
      sending += 1;
      send(waiting.shift());
    }
  }

  function take(name, body) {
    var shown = card(name);
    if (most() && body.size > most()) {
      finished(shown, "it is " + size(body.size) + ", and this server takes " + size(most()) +
        " at most. Compress it with zstd, or put it into the directory that is served.", true);
      return;
    }
    shown.said.textContent = "waiting";
    waiting.push({ name: name, body: body, shown: shown });
    next();
  }

  // ---------------------------------------------------------------- several files as one archive

  function header(name, bytes) {
    var block = new Uint8Array(512);
    function put(text, at) { block.set(new TextEncoder().encode(text), at); }
    function octal(number, digits) { return number.toString(8).padStart(digits, "0"); }
    put(name, 0);
    put("0000600", 100);
    put("0000000", 108);
    put("0000000", 116);
    // 8 GiB and more in base 256, as GNU tar has it
    if (bytes < 8589934592) { put(octal(bytes, 11), 124); } else {
      block[124] = 128;
      for (var at = 135, left = bytes; at > 124 && left > 0; at -= 1) { block[at] = left % 256; left = Math.floor(left / 256); }
    }
    put(octal(0, 11), 136);
    put("        ", 148);
    put("0", 156);
    put("ustar\u000000", 257);
    var sum = block.reduce(function (total, byte) { return total + byte; }, 0);
    put(octal(sum, 6) + "\0 ", 148);
    return block;
  }

  function archive(files) {
    var parts = [];
    files.forEach(function (file) {
      parts.push(header(file.name, file.size), file, new Uint8Array((512 - file.size % 512) % 512));
    });
    parts.push(new Uint8Array(1024));
    return new Blob(parts);
  }

  function short(file) {
    return new TextEncoder().encode(file.name).length <= 100;
  }

  /* Files that lie in one folder: one run where they are parts of one. */
  function together(folder, files) {
    var parts = files.filter(function (file) { return PART.test(file.name) && short(file); });
    if (!parts.some(function (file) { return SNAPSHOT.test(file.name); })) { return false; }
    if (parts.length === 1) { take(parts[0].name, parts[0]); } else { take(folder + ".tar", archive(parts)); }
    return true;
  }

  function loose(files) {
    var run = files.length > 1 && files.every(function (file) { return file.name === "run.json" || RANK.test(file.name); });
    if (run && together("run", files)) { return; }
    files.forEach(function (file) { take(file.name, file); });
  }

  function folders(files) {
    var found = {};
    files.forEach(function (each) { (found[each.folder] = found[each.folder] || []).push(each.file); });
    var any = Object.keys(found).sort().map(function (folder) {
      return together(folder.split("/").pop() || "run", found[folder]);
    }).some(Boolean);
    if (!any) { finished(card("this folder"), "there is no snapshot in it (rank00000.pickle and so on).", true); }
  }

  // ---------------------------------------------------------------- from the drop to files

  function inside(entry, folder, deep, found) {
    return new Promise(function (done) {
      if (entry.isFile) {
        entry.file(function (file) { found.push({ folder: folder, file: file }); done(); }, done);
        return;
      }
      if (deep === 0) { done(); return; }
      var reader = entry.createReader();
      var path = folder ? folder + "/" + entry.name : entry.name;
      (function more() {
        reader.readEntries(function (entries) {
          if (!entries.length) { done(); return; }
          Promise.all(entries.map(function (each) { return inside(each, path, deep - 1, found); })).then(more);
        }, done);
      }());
    });
  }

  function dropped(transfer) {
    var entries = Array.from(transfer.items || []).map(function (item) {
      return item.webkitGetAsEntry && item.webkitGetAsEntry();
    });
    var files = Array.from(transfer.files || []);
    var within = entries.filter(function (entry) { return entry && entry.isDirectory; });
    loose(files.filter(function (file, at) { return !(entries[at] && entries[at].isDirectory); }));
    within.forEach(function (entry) {
      var found = [];
      inside(entry, "", DEEP, found).then(function () { folders(found); });
    });
  }

  function chosen(input) {
    var files = Array.from(input.files);
    if (!input.webkitdirectory) { loose(files); return; }
    folders(files.map(function (file) {
      return { folder: file.webkitRelativePath.split("/").slice(0, -1).join("/"), file: file };
    }));
  }

  function choose(directory) {
    var input = document.createElement("input");
    input.type = "file";
    input.multiple = true;
    input.webkitdirectory = directory;
    input.addEventListener("change", function () { chosen(input); });
    input.click();
  }

  // ---------------------------------------------------------------- the page

  var over = 0;

  function veil(on) {
    var place = document.getElementById("snapviz-veil");
    if (!place && on) {
      place = element("div", "", "Drop a snapshot, a run's folder or an archive of a run");
      place.id = "snapviz-veil";
      document.body.appendChild(place);
    }
    if (place) { place.hidden = !on; }
  }

  function carriesFiles(event) {
    return event.dataTransfer && Array.from(event.dataTransfer.types).indexOf("Files") >= 0;
  }

  document.addEventListener("dragenter", function (event) {
    if (carriesFiles(event)) { event.preventDefault(); over += 1; veil(true); }
  });
  document.addEventListener("dragover", function (event) {
    if (carriesFiles(event)) { event.preventDefault(); event.dataTransfer.dropEffect = "copy"; }
  });
  document.addEventListener("dragleave", function (event) {
    if (carriesFiles(event)) { over = Math.max(0, over - 1); if (!over) { veil(false); } }
  });
  document.addEventListener("drop", function (event) {
    if (!carriesFiles(event)) { return; }
    event.preventDefault();
    over = 0;
    veil(false);
    dropped(event.dataTransfer);
  });
  document.addEventListener("click", function (event) {
    if (!event.target.closest) { return; }
    if (event.target.closest("#choose-files")) { choose(false); }
    if (event.target.closest("#choose-folder")) { choose(true); }
    var forgotten = event.target.closest(".forget");
    if (forgotten) { remove(forgotten.dataset.upload); }
  });
  window.addEventListener("beforeunload", function (event) {
    if (sending) { event.preventDefault(); }
  });
}());
