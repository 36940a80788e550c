// A window into many lines: only those that are seen are nodes. New lines are collected and drawn once a frame.

import { api } from "./api.js";
import { fill, h } from "./dom.js";
import { clockTime, exactTime, number } from "./format.js";
import { follow } from "./live.js";
import { button, say } from "./parts.js";
import { words } from "./words.js";

const MOST = 100000;
const HEIGHT = 20;
const BEYOND = 30;
const LEVELS = [["bad", /\b(error|fatal|critical|panic|traceback|exception)\b/i], ["warn", /\bwarn(ing)?\b/i]];
const text = words.logs;

/** Makes a view of the log at a path: { node, start, stop }. */
export function logView(path, name, place) {
  const view = new LogView(path, name, place);
  return { node: view.node, start: () => view.start(), stop: () => view.stop() };
}

class LogView {
  constructor(path, name, place) {
    Object.assign(this, { path, name, place, lines: [], shown: [], fresh: [], known: new Set(), instances: new Map(), isFollowing: true, isPaused: false, search: "", onlyMatches: false, wraps: false, dropped: 0, opened: new Set() });
    this.wanted = place.query.get("line");
    this.since = place.query.get("since") || "";
    this.canvas = h("div", { class: "log-canvas" });
    this.box = h("div", { class: "log-box", tabindex: "0", role: "log", "aria-label": words.tabs.logs, "aria-live": "off", onscroll: () => this.scrolled() }, this.canvas);
    this.count = h("span", { class: "muted", role: "status" });
    this.state = h("span", { class: "muted" });
    this.node = h("div", { class: "log" }, this.tools(), this.box);
    this.stopStream = () => {};
  }

  tools() {
    this.follower = h("button", { type: "button", class: "button small", "aria-pressed": "true", onclick: () => this.setFollowing(!this.isFollowing) }, text.follow);
    const search = h("input", { type: "search", placeholder: text.search, "aria-label": text.search, oninput: (event) => this.setSearch(event.target.value) });
    const only = h("label", { class: "inline" }, h("input", { type: "checkbox", onchange: (event) => ((this.onlyMatches = event.target.checked), this.filter()) }), text.only);
    const wrap = h("label", { class: "inline" }, h("input", { type: "checkbox", onchange: (event) => this.setWrap(event.target.checked) }), text.wrap);
    const jump = h("input", { type: "datetime-local", step: 1, "aria-label": text.jump, title: text.jump, onchange: (event) => this.jump(event.target.value) });
    return h("div", { class: "tools" }, search, only, this.count, wrap, jump, this.follower,
      button(text.copy, () => this.copy(), { small: true }), button(text.download, () => this.download(), { small: true }), this.state);
  }

  async start() {
    try {
      const before = this.since ? { since: this.since, tail: 10000 } : { tail: 2000 };
      this.add((await api.get(`${this.path}/log`, before)).results);
    } catch (error) {
      return fill(this.canvas, h("p", { class: "muted" }, error.message));
    }
    this.show();
    this.stopStream = follow(`${this.path}/log?follow=true&tail=100`, {
      event: (line) => this.take(line),
      state: (isLive, since) => fill(this.state, isLive ? "" : words.lastSeen(new Date(since))),
    });
  }

  stop() {
    this.stopStream();
    cancelAnimationFrame(this.frame);
  }

  take(line) {
    this.fresh.push(line);
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.add(this.fresh.splice(0));
      this.show();
    });
  }

  add(lines) {
    for (const line of lines) {
      if (this.known.has(line.id)) continue;
      this.known.add(line.id);
      if (!this.instances.has(line.pod_name)) this.instances.set(line.pod_name, this.instances.size);
      this.lines.push(line);
      if (this.matches(line)) this.shown.push(line);
    }
    if (this.lines.length > MOST * 1.1) {
      this.dropped += this.lines.length - MOST;
      for (const line of this.lines.splice(0, this.lines.length - MOST)) this.known.delete(line.id);
      this.filter();
    }
  }

  matches(line) {
    return !this.onlyMatches || !this.search || line.message.toLowerCase().includes(this.search);
  }

  filter() {
    this.shown = this.lines.filter((line) => this.matches(line));
    this.show();
  }

  setSearch(value) {
    this.search = value.toLowerCase();
    this.filter();
    const first = this.onlyMatches || !this.search ? -1 : this.shown.findLastIndex((line) => line.message.toLowerCase().includes(this.search));
    if (first >= 0) this.goTo(first);
  }

  setWrap(wraps) {
    this.wraps = wraps;
    this.box.classList.toggle("wraps", wraps);
    this.show();
  }

  setFollowing(isFollowing) {
    this.isFollowing = isFollowing;
    this.follower.setAttribute("aria-pressed", String(isFollowing));
    this.show();
  }

  scrolled() {
    if (this.isMoving) return;
    const atEnd = this.box.scrollTop + this.box.clientHeight >= this.box.scrollHeight - HEIGHT;
    if (atEnd !== this.isFollowing) this.setFollowing(atEnd);
    else this.show();
  }

  goTo(index) {
    this.setFollowing(false);
    this.box.scrollTop = Math.max(0, index * HEIGHT - this.box.clientHeight / 2);
    this.show();
  }

  async jump(value) {
    if (!value) return;
    const moment = new Date(value).toISOString();
    this.lines.length = this.shown.length = 0;
    this.known.clear();
    this.add((await api.get(`${this.path}/log`, { since: moment, tail: 10000 })).results);
    if (!this.lines.length) say(text.nothingSince);
    this.goTo(0);
  }

  /** Draws the lines that are seen. A wrapped log has lines of unequal height, and so shows fewer. */
  show() {
    const { shown, box } = this;
    const total = shown.length;
    const most = this.wraps ? Math.min(total, 500) : total;
    const offset = total - most;
    if (this.wanted && total) {
      const index = shown.findIndex((line) => line.id === this.wanted);
      this.chosen = this.wanted;
      this.wanted = null;
      if (index >= 0) return this.goTo(index);
    }
    const top = this.isFollowing ? Math.max(0, most * HEIGHT - box.clientHeight) : box.scrollTop;
    const first = this.wraps ? 0 : Math.max(0, Math.floor(top / HEIGHT) - BEYOND);
    const last = this.wraps ? most : Math.min(most, Math.ceil((top + (box.clientHeight || 600)) / HEIGHT) + BEYOND);
    const inside = shown.slice(offset + first, offset + last).map((line, index) => this.line(line, first + index));
    if (!this.wraps) this.canvas.style.setProperty("height", `${most * HEIGHT}px`);
    else this.canvas.style.removeProperty("height");
    fill(this.canvas, total ? inside : h("p", { class: "muted pad" }, this.search ? words.nothingFound : text.empty));
    fill(this.count, this.search ? text.matches(shown.reduce((sum, line) => sum + line.message.toLowerCase().includes(this.search), 0)) : text.lines(number(this.lines.length), this.dropped));
    if (this.isFollowing) {
      this.isMoving = true;
      box.scrollTop = box.scrollHeight;
      requestAnimationFrame(() => (this.isMoving = false));
    }
  }

  line(line, index) {
    const level = LEVELS.find(([, pattern]) => pattern.test(line.message))?.[0] || "";
    const letter = this.instances.get(line.pod_name);
    const node = h("div", { class: `log-line ${level} ${line.id === this.chosen ? "chosen" : ""}` },
      h("button", { type: "button", class: "time", title: `${exactTime(line.created_at)} · ${text.linkTo}`, onclick: () => this.link(line) }, clockTime(line.created_at)),
      h("span", { class: `instance i${letter % 6}`, title: line.pod_name, "aria-label": line.pod_name }, String.fromCharCode(65 + (letter % 26))),
      h("span", { class: "text" }, this.content(line)));
    if (!this.wraps) node.style.setProperty("top", `${index * HEIGHT}px`);
    return node;
  }

  content(line) {
    if (this.search) return highlighted(line.message, this.search);
    const data = line.message.startsWith("{") ? asJson(line.message) : null;
    if (!data) return line.message;
    const head = [data.level, data.message ?? data.msg ?? data.event].filter((part) => part !== undefined).join(" ");
    return [h("button", { type: "button", class: "fold", "aria-label": text.open, onclick: () => this.openLine(line, data) }, "{…}"), " ", head || line.message];
  }

  openLine(line, data) {
    import("./parts.js").then(({ dialog, codeBlock }) => dialog(exactTime(line.created_at), (finish) => [codeBlock(JSON.stringify(data, null, 2)), h("div", { class: "dialog-actions" }, button(words.close, () => finish()))], { wide: true }));
  }

  async link(line) {
    const url = new URL(location.href);
    url.search = new URLSearchParams({ since: new Date(new Date(line.created_at) - 60000).toISOString(), line: line.id });
    history.replaceState({}, "", url);
    this.chosen = line.id;
    this.setFollowing(false);
    await navigator.clipboard.writeText(url.href).then(() => say(text.linkCopied), () => {});
  }

  asText() {
    return this.shown.map((line) => `${line.created_at} ${line.pod_name} ${line.message}`).join("\n");
  }

  async copy() {
    await navigator.clipboard.writeText(this.asText());
    say(text.copied(number(this.shown.length)));
  }

  download() {
    const url = URL.createObjectURL(new Blob([this.asText(), "\n"], { type: "text/plain" }));
    const anchor = h("a", { href: url, download: `${this.name}.log` });
    anchor.click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  }
}

function asJson(message) {
  try {
    return JSON.parse(message);
  } catch {
    return null;
  }
}

function highlighted(message, search) {
  const parts = [];
  const low = message.toLowerCase();
  let from = 0;
  for (let at = low.indexOf(search); at >= 0 && parts.length < 100; at = low.indexOf(search, from)) {
    parts.push(message.slice(from, at), h("mark", {}, message.slice(at, at + search.length)));
    from = at + search.length;
  }
  return [...parts, message.slice(from)];
}
