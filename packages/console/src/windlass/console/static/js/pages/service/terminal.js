// A terminal in an instance of the service. What is typed goes to its shell; what it prints is shown as text, with the
// few signs of terminals that shells use in lines.

import { protocols } from "../../api.js";
import { fill, h, own, seen } from "../../dom.js";
import { button } from "../../parts.js";
import { Screen } from "../../terminal_screen.js";
import { words } from "../../words.js";

const text = words.terminal;

export const load = async (state, place) => ({ terminal: new Terminal(state, place) });
export const render = ({ content }) => own(content.terminal.node);
export const watch = ({ content }, place) => place.onStop(() => content.terminal.close());

class Terminal {
  constructor({ path, status }) {
    this.path = path;
    this.screen = new Screen();
    this.about = h("p", { class: "muted", role: "status" }, status.running_instances ? text.about : text.notRunning);
    this.output = h("pre", { class: "terminal", tabindex: "0", role: "log", "aria-label": text.output, onkeydown: (event) => this.key(event), onpaste: (event) => this.paste(event) });
    this.starter = button(text.start, () => this.open(), { main: true, disabled: !status.running_instances, needs: ["POST", `${path}/restart-service`] }); // A shell needs the same right.
    this.node = h("div", { class: "terminal-page" }, h("div", { class: "tools" }, this.about, this.starter), this.output);
  }

  open() {
    this.close();
    const columns = Math.min(1000, Math.max(40, Math.floor(this.output.clientWidth / 8.2)));
    this.screen = new Screen(columns);
    const query = new URLSearchParams([["command", "/bin/sh"], ["tty", "true"], ["columns", String(columns)], ["rows", "30"]]);
    const url = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${this.path}/exec?${query}`;
    const socket = new WebSocket(url, protocols());
    socket.binaryType = "arraybuffer";
    const decoder = new TextDecoder();
    socket.onopen = () => (fill(this.about, text.connected), this.output.focus());
    socket.onmessage = ({ data }) => {
      if (typeof data === "string") return fill(this.about, text.ended(JSON.parse(data).exit_code));
      this.screen.write(decoder.decode(data, { stream: true }));
      this.draw();
    };
    socket.onclose = ({ reason, code }) => {
      if (code !== 1000 || !/ended/.test(this.about.textContent)) fill(this.about, reason || text.closed);
      this.socket = null;
    };
    this.socket = socket;
  }

  draw() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.output.textContent = seen(this.screen.text());
      this.output.scrollTop = this.output.scrollHeight;
    });
  }

  send(value) {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(new TextEncoder().encode(value));
  }

  key(event) {
    const special = { Enter: "\r", Backspace: "\x7f", Tab: "\t", Escape: "\x1b", ArrowUp: "\x1b[A", ArrowDown: "\x1b[B", ArrowRight: "\x1b[C", ArrowLeft: "\x1b[D", Home: "\x1b[H", End: "\x1b[F", Delete: "\x1b[3~" };
    if (!this.socket || event.metaKey || (event.shiftKey && event.key === "Tab")) return; // Shift-Tab leaves the terminal
    if (event.ctrlKey && /^[a-z]$/i.test(event.key)) {
      if (event.key.toLowerCase() === "c" && String(getSelection())) return;
      if (event.key.toLowerCase() === "v") return;
      this.send(String.fromCharCode(event.key.toLowerCase().charCodeAt(0) - 96));
    } else if (special[event.key]) this.send(special[event.key]);
    else if (event.key.length === 1) this.send(event.key);
    else return;
    event.preventDefault();
  }

  paste(event) {
    this.send(event.clipboardData.getData("text").replace(/\r?\n/g, "\r"));
    event.preventDefault();
  }

  close() {
    this.socket?.close();
    this.socket = null;
  }
}
