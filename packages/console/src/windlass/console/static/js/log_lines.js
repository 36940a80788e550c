// The lines of a log that a page holds: a window of bounded size into a log of any length. It is at the end of the log
// and grows with it, or it is somewhere else, and further lines are read when they are asked for.

import { api } from "./api.js";
import { hasSigns, withoutSigns } from "./sgr.js";

const MOST = 100000;
const PAGE = 2000;
const CAP = 10000;
const ENOUGH = 500;

export class LogLines {
  constructor(path) {
    Object.assign(this, { path, search: "", onlyMatches: false, instances: new Map() });
    this.clear();
  }

  clear() {
    Object.assign(this, { lines: [], shown: [], known: new Set(), missed: [], hits: 0, dropped: 0, isAtEnd: true, isAtStart: true, isMatches: false });
  }

  read = async (query) => (await api.get(`${this.path}/log`, query)).results;

  /** The newest lines. */
  async readEnd() {
    const lines = await this.read({ tail: PAGE });
    this.clear();
    this.isAtStart = lines.length < PAGE;
    this.add(lines);
  }

  /** The lines around a moment. Returns the place of the first line since then. */
  async readAround(moment) {
    const [before, after] = await Promise.all([this.read({ until: moment.toISOString(), tail: PAGE }), this.readSince(moment)]);
    this.clear();
    this.isAtStart = before.length < PAGE;
    this.isAtEnd = after.isAtEnd;
    this.add([...before, ...after.lines]);
    return this.lines.findIndex((line) => line.created_at >= moment.toISOString());
  }

  /** All lines of the log that contain a text. */
  async readMatches(text) {
    const lines = await this.read({ search: text, tail: CAP });
    this.clear();
    Object.assign(this, { isAtEnd: false, isMatches: true });
    this.add(lines);
  }

  // The API answers with the last lines of a span, so that the span is made shorter until all of it fits.
  async readSince(moment) {
    let span = 60000;
    for (let isShorter = false; ; ) {
      const until = new Date(moment.getTime() + span);
      const lines = await this.read({ since: moment.toISOString(), until: until.toISOString(), tail: CAP });
      const isAtEnd = until > new Date();
      if (lines.length === CAP && span > 1) {
        span = Math.ceil(span / 8);
        isShorter = true;
      } else if (lines.length < ENOUGH && !isAtEnd && !isShorter) {
        span *= 8;
      } else {
        return { lines, isAtEnd };
      }
    }
  }

  /** Reads what was before. Returns how many shown lines came. */
  async readOlder() {
    const first = this.lines[0];
    if (!first || this.isAtStart || this.isMatches) return 0;
    const until = new Date(new Date(first.created_at).getTime() + 1);
    const found = (await this.read({ until: until.toISOString(), tail: PAGE })).filter((line) => !this.known.has(line.id));
    if (first !== this.lines[0]) return 0; // cleared meanwhile
    this.isAtStart = !found.length;
    this.register(found);
    this.lines.unshift(...found);
    const shown = found.filter((line) => this.isShown(line));
    this.shown.unshift(...shown);
    if (this.lines.length > MOST * 1.1) {
      for (const line of this.lines.splice(MOST)) this.known.delete(line.id);
      this.isAtEnd = false;
      this.filter();
    }
    return shown.length;
  }

  /** Reads what came after, if this window is not at the end. */
  async readNewer() {
    const last = this.lines.at(-1);
    if (!last || this.isAtEnd || this.isMatches) return;
    const { lines, isAtEnd } = await this.readSince(new Date(last.created_at));
    if (last !== this.lines.at(-1)) return;
    this.isAtEnd = isAtEnd;
    this.add(isAtEnd ? [...lines, ...this.missed.splice(0)] : lines);
  }

  /** A line that was written just now. Returns true if it belongs to the window. */
  take(line) {
    if (this.isAtEnd) return true;
    this.missed.push(line);
    if (this.missed.length > 2 * PAGE) this.missed.splice(0, PAGE);
    return false;
  }

  /** Adds lines at the end. Returns how many shown lines were dropped at the start. */
  add(lines) {
    const fresh = lines.filter((line) => !this.known.has(line.id));
    this.register(fresh);
    for (const line of fresh) {
      this.lines.push(line);
      if (this.isShown(line)) this.shown.push(line);
    }
    if (this.lines.length <= MOST * 1.1) return 0;
    const before = this.shown.length;
    const gone = this.lines.splice(0, this.lines.length - MOST);
    for (const line of gone) this.known.delete(line.id);
    this.dropped += gone.length;
    this.isAtStart = false;
    this.filter();
    return before - this.shown.length;
  }

  register(lines) {
    for (const line of lines) {
      this.known.add(line.id);
      if (hasSigns(line.message)) Object.assign(line, { written: line.message, message: withoutSigns(line.message) });
      if (!this.instances.has(line.pod_name)) this.instances.set(line.pod_name, this.instances.size);
      if (this.search && this.hasMatch(line)) this.hits++;
    }
  }

  hasMatch = (line) => line.message.toLowerCase().includes(this.search);

  isShown(line) {
    return !this.onlyMatches || !this.search || this.hasMatch(line);
  }

  filter() {
    const matches = this.search ? this.lines.filter(this.hasMatch) : [];
    this.hits = matches.length;
    this.shown = this.search && this.onlyMatches ? matches : [...this.lines];
  }
}
