// Shows a log of many lines: only the visible ones are nodes. New lines are collected and drawn a few times a second,
// and a line that stays visible keeps its node.

import { fill, h, saveFile, textOf } from "./dom.js";
import { clockTime, exactTime } from "./format.js";
import { follow } from "./live.js";
import { LogLines } from "./log_lines.js";
import { button, codeBlock, copyText, dialog, errorBox, say } from "./parts.js";
import { coloured } from "./sgr.js";
import { words } from "./words.js";

const HEIGHT = 20;
const BEYOND = 30;
const WRAPPED = 400;
const MOST_FRESH = 2000;
const BETWEEN = 60; // milliseconds between two drawings of new lines: no eye reads faster
const LEVELS = [["bad", /\b(error|fatal|critical|panic|traceback|exception)\b/i], ["warn", /\bwarn(ing)?\b/i]];
const text = words.logs;

/** Makes a view of the log at a path: { node, start }. It ends with its page. */
export function logView(path, name, place) {
  const view = new LogView(path, name, place);
  place.onStop(() => view.stop());
  return { node: view.node, start: () => view.start() };
}

class LogView {
  constructor(path, name, place) {
    Object.assign(this, { path, name, fresh: [], nodes: new Map(), look: "", drawnAt: 0, isFollowing: true, wraps: false, from: 0, log: new LogLines(path), onStop: place.onStop });
    this.chosen = place.query.get("line");
    this.moment = place.query.get("at") || place.query.get("since");
    this.canvas = h("div", { class: "log-canvas" });
    this.box = h("div", { class: "log-box", tabindex: "0", role: "log", "aria-label": words.tabs.logs, "aria-live": "off", onscroll: () => this.scrolled() }, this.canvas);
    this.count = h("span", { class: "muted", role: "status" });
    this.state = h("span", { class: "muted" });
    this.node = h("div", { class: "log" }, this.tools(), this.box);
  }

  tools() {
    this.follower = button(text.pause, () => (this.isFollowing ? this.setFollowing(false) : this.goToEnd()), { small: true });
    this.everywhere = button(text.everywhere, () => this.searchEverywhere(), { small: true });
    this.everywhere.hidden = true;
    const search = h("input", { type: "search", placeholder: text.search, "aria-label": text.search, oninput: (event) => this.setSearch(event.target.value) });
    const only = h("label", { class: "inline" }, h("input", { type: "checkbox", onchange: (event) => ((this.log.onlyMatches = event.target.checked), this.refilter()) }), text.only);
    const wrap = h("label", { class: "inline" }, h("input", { type: "checkbox", onchange: (event) => this.setWrap(event.target.checked) }), text.wrap);
    const jump = h("label", { class: "inline" }, text.jump, h("input", { type: "datetime-local", step: 1, onchange: (event) => event.target.value && this.jump(new Date(event.target.value)) }));
    return h("div", { class: "tools" }, search, only, this.everywhere, this.count, wrap, jump, this.follower,
      button(text.copy, () => this.copy(), { small: true }), button(text.download, () => this.download(), { small: true }), this.state);
  }

  async start() {
    try {
      if (this.moment) await this.jump(new Date(this.moment));
      else await this.log.readEnd();
    } catch (error) {
      return fill(this.canvas, errorBox(error, button(words.tryAgain, () => this.start())));
    }
    this.show();
    this.onStop(follow(`${this.path}/log?follow=true&tail=100`, {
      event: (line) => this.take(line),
      gone: (message) => say(message, { bad: true }),
      state: (isLive, since, why) => fill(this.state, isLive ? "" : words.lastSeen(new Date(since), why)),
      ended: (refusal) => refusal && fill(this.state, words.refused(refusal.message)),
    }));
  }

  stop() {
    clearTimeout(this.timer);
    cancelAnimationFrame(this.frame);
  }

  take(line) {
    if (!this.log.take(line)) return;
    this.fresh.push(line);
    // Nothing is drawn while the page is hidden, but lines go on coming: they are not kept without a limit.
    if (this.fresh.length >= MOST_FRESH) this.addFresh();
    this.timer ||= setTimeout(() => (this.frame = requestAnimationFrame(() => this.addFresh())), Math.max(0, this.drawnAt + BETWEEN - performance.now()));
  }

  addFresh() {
    clearTimeout(this.timer);
    cancelAnimationFrame(this.frame);
    this.timer = 0;
    this.drawnAt = performance.now();
    const dropped = this.log.add(this.fresh.splice(0));
    if (dropped && !this.isFollowing) this.scrollTo(this.box.scrollTop - dropped * HEIGHT);
    this.show();
  }

  setSearch(value) {
    this.log.search = value.toLowerCase();
    this.everywhere.hidden = !value;
    this.refilter();
    const first = this.log.onlyMatches || !value ? -1 : this.log.shown.findLastIndex(this.log.hasMatch);
    if (first >= 0) this.goTo(first);
  }

  refilter() {
    this.log.filter();
    this.show();
  }

  async searchEverywhere() {
    const value = this.node.querySelector("input[type=search]").value;
    await this.log.readMatches(value);
    this.setFollowing(false);
    this.goTo(this.log.shown.length - 1);
  }

  setWrap(wraps) {
    this.wraps = wraps;
    this.from = Infinity;
    this.box.classList.toggle("wraps", wraps);
    this.show();
  }

  setFollowing(isFollowing) {
    this.isFollowing = isFollowing;
    this.follower.textContent = isFollowing ? text.pause : text.follow;
    this.show();
  }

  async goToEnd() {
    if (!this.log.isAtEnd) await this.log.readEnd();
    this.from = Infinity;
    this.setFollowing(true);
  }

  async jump(moment) {
    const index = await this.log.readAround(moment);
    if (index < 0) say(text.nothingSince);
    const wanted = this.log.shown.findIndex((line) => line.id === this.chosen);
    this.isFollowing = false;
    this.follower.textContent = text.follow;
    this.show();
    this.goTo(wanted >= 0 ? wanted : index >= 0 ? index : this.log.shown.length - 1);
  }

  goTo(index) {
    this.setFollowing(false);
    if (this.wraps) {
      this.from = Math.max(0, index - WRAPPED / 2);
      this.show();
      return this.canvas.children[index - this.from]?.scrollIntoView({ block: "center" });
    }
    this.scrollTo(index * HEIGHT - this.box.clientHeight / 2);
    this.show();
  }

  // A movement that is not the reader's.
  scrollTo(top) {
    this.isMoving = true;
    this.box.scrollTop = Math.max(0, top);
    requestAnimationFrame(() => (this.isMoving = false));
  }

  scrolled() {
    if (this.isMoving) return;
    const { box, log } = this;
    const isAtBottom = box.scrollTop + box.clientHeight >= box.scrollHeight - HEIGHT;
    const isAll = log.isAtEnd && (!this.wraps || this.from + WRAPPED >= log.shown.length);
    if ((isAtBottom && isAll) !== this.isFollowing) this.setFollowing(isAtBottom && isAll);
    else this.show();
    if (box.scrollTop < 20 * HEIGHT) this.more(-1);
    else if (isAtBottom && !isAll) this.more(1);
  }

  // Further lines at one end: of those that are here, then of the log.
  async more(step) {
    if (this.isReading || this.isFollowing) return;
    this.isReading = true;
    try {
      if (this.wraps && this.turn(step)) return;
      if (step > 0) return void (await this.log.readNewer());
      const added = await this.log.readOlder();
      if (!this.wraps && added) this.scrollTo(this.box.scrollTop + added * HEIGHT);
      else if (added) this.from += added;
    } catch {
      // The stream says that the server is away; the reader scrolls again.
    } finally {
      this.isReading = false;
      this.show();
    }
  }

  // Moves the part of the lines that is drawn while they are wrapped; the first line that is seen stays where it is.
  turn(step) {
    const last = Math.max(0, this.log.shown.length - WRAPPED);
    const from = Math.max(0, Math.min(last, this.from + step * (WRAPPED / 2)));
    if (from === this.from) return false;
    const { top } = this.box.getBoundingClientRect();
    const seen = [...this.canvas.children].findIndex((node) => node.getBoundingClientRect().bottom > top);
    const at = this.canvas.children[seen]?.getBoundingClientRect().top;
    const moved = this.from - from;
    this.from = from;
    this.show();
    const node = this.canvas.children[seen + moved];
    if (node) this.scrollTo(this.box.scrollTop + node.getBoundingClientRect().top - at);
    return true;
  }

  /** Draws the lines that are seen. Wrapped lines have unequal heights, so that a part of all is drawn. */
  show() {
    const { shown } = this.log;
    const [first, last] = this.wraps ? this.wrappedPart(shown.length) : this.seenPart(shown.length);
    if (!this.wraps) this.canvas.style.setProperty("height", `${shown.length * HEIGHT}px`);
    else this.canvas.style.removeProperty("height");
    if (shown.length) this.place(shown.slice(first, last), first);
    else fill(this.canvas, h("p", { class: "muted pad" }, this.log.search ? text.noMatch : text.empty));
    fill(this.count, this.log.search ? text.matches(this.log.hits) : text.lines(this.log.lines.length, !this.log.isAtStart));
    if (this.isFollowing) this.scrollTo(this.box.scrollHeight);
  }

  wrappedPart(total) {
    const last = Math.max(0, total - WRAPPED);
    this.from = this.isFollowing ? last : Math.min(this.from, last);
    return [this.from, this.from + WRAPPED];
  }

  seenPart(total) {
    const height = this.box.clientHeight || 600;
    const top = this.isFollowing ? Math.max(0, total * HEIGHT - height) : this.box.scrollTop;
    return [Math.max(0, Math.floor(top / HEIGHT) - BEYOND), Math.min(total, Math.ceil((top + height) / HEIGHT) + BEYOND)];
  }

  // Puts the lines that are seen on the canvas: those that were there before keep their nodes.
  place(lines, first) {
    const look = JSON.stringify([this.log.search, this.chosen, this.wraps]);
    const known = look === this.look ? this.nodes : new Map();
    this.look = look;
    this.nodes = new Map(lines.map((line) => [line.id, known.get(line.id) || this.line(line)]));
    const nodes = [...this.nodes.values()];
    const staying = new Set(nodes);
    for (const node of [...this.canvas.childNodes]) if (!staying.has(node)) node.remove();
    let next = this.canvas.firstChild;
    nodes.forEach((node, index) => {
      const top = this.wraps ? "" : `${(first + index) * HEIGHT}px`;
      if (node.style.top !== top) node.style.top = top;
      if (node === next) next = next.nextSibling;
      else this.canvas.insertBefore(node, next);
    });
  }

  line(line) {
    const data = line.message.startsWith("{") ? asJson(line.message) : null;
    const letter = this.log.instances.get(line.pod_name);
    return h("div", { class: `log-line ${levelOf(line, data)} ${line.id === this.chosen ? "chosen" : ""}` },
      h("button", { type: "button", class: "time", title: `${exactTime(line.created_at)} · ${text.linkTo}`, onclick: () => this.link(line) }, clockTime(line.created_at)),
      h("span", { class: `instance i${letter % 6}`, title: line.pod_name, "aria-label": line.pod_name }, String.fromCharCode(65 + (letter % 26))),
      h("span", { class: "text" }, this.content(line, data)));
  }

  content(line, data) {
    const opener = data && [h("button", { type: "button", class: "fold", "aria-label": text.open, onclick: () => openLine(line, data) }, "{…}"), " "];
    if (this.log.search) return [opener, highlighted(line.message, this.log.search)];
    const head = data && [data.level, data.message ?? data.msg ?? data.event].filter((part) => part !== undefined).map(textOf).join(" ");
    return [opener, head || coloured(line.written || line.message)];
  }

  async link(line) {
    const url = new URL(location.href);
    url.search = new URLSearchParams({ at: line.created_at, line: line.id });
    history.replaceState({}, "", url);
    this.chosen = line.id;
    this.setFollowing(false);
    await copyText(url.href);
    say(text.linkCopied);
  }

  asText() {
    return this.log.shown.map((line) => `${line.created_at} ${line.pod_name} ${line.message}`).join("\n");
  }

  async copy() {
    await copyText(this.asText());
    say(text.copied(this.log.shown.length));
  }

  download() {
    saveFile(new Blob([this.asText(), "\n"], { type: "text/plain" }), `${this.name}.log`);
  }
}

function openLine(line, data) {
  return dialog(exactTime(line.created_at), (finish) => [codeBlock(JSON.stringify(data, null, 2)), h("div", { class: "dialog-actions" }, button(words.close, () => finish()))], { wide: true });
}

// A line of JSON says its level; of others it is guessed.
function levelOf({ message }, data) {
  const level = data && (data.level ?? data.severity);
  return LEVELS.find(([, pattern]) => pattern.test(typeof level === "string" ? level : message))?.[0] || "";
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
  const lowered = message.toLowerCase();
  let from = 0;
  for (let at = lowered.indexOf(search); at >= 0 && parts.length < 100; at = lowered.indexOf(search, from)) {
    parts.push(message.slice(from, at), h("mark", {}, message.slice(at, at + search.length)));
    from = at + search.length;
  }
  return [...parts, message.slice(from)];
}
