// The text of a terminal: lines with a cursor, and the signs that move it. Colours and the rest are left out. Programs may print
// anything: a line is never longer than the terminal is wide, and no sign moves further than that.

const MOST = 5000;
const SIGN = /^\x1b(?:\[([?0-9;]*)([A-Za-z@`])|\]([^\x07\x1b]*)(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>78cDEHM])/;
const BEGUN = /^\x1b(?:\[[?0-9;]*|\][^\x07\x1b]*\x1b?|[()])?$/; // its end comes later
const LONGEST = 4096;

export class Screen {
  constructor(columns = 80) {
    this.columns = columns;
    this.lines = [""];
    this.row = 0;
    this.column = 0;
    this.rest = "";
  }

  write(text) {
    text = this.rest + text;
    this.rest = "";
    for (let index = 0; index < text.length; index++) {
      const letter = text[index];
      if (letter === "\x1b") {
        const sign = SIGN.exec(text.slice(index, index + LONGEST));
        if (!sign) {
          if (text.length - index < LONGEST && BEGUN.test(text.slice(index))) return void (this.rest = text.slice(index));
          continue;
        }
        this.obey(sign[2], (sign[1] || "").split(";").map(Number));
        index += sign[0].length - 1;
      } else if (letter === "\n") this.down();
      else if (letter === "\r") this.column = 0;
      else if (letter === "\b") this.column = Math.max(0, this.column - 1);
      else if (letter === "\t") this.put(" ".repeat(8 - (this.column % 8)));
      else if (letter >= " ") this.put(letter);
    }
  }

  put(text) {
    if (this.column + text.length > this.columns) {
      this.down();
      this.column = 0;
    }
    const line = this.lines[this.row].padEnd(this.column);
    this.lines[this.row] = line.slice(0, this.column) + text + line.slice(this.column + text.length);
    this.column += text.length;
  }

  down() {
    this.row++;
    if (this.row >= this.lines.length) this.lines.push("");
    if (this.lines.length > MOST) {
      this.lines.shift();
      this.row--;
    }
  }

  obey(sign, [count = 0]) {
    const line = this.lines[this.row];
    const steps = Math.min(count || 1, this.columns);
    if (sign === "K") this.lines[this.row] = count === 1 ? " ".repeat(this.column) + line.slice(this.column) : count === 2 ? "" : line.slice(0, this.column);
    else if (sign === "P") this.lines[this.row] = line.slice(0, this.column) + line.slice(this.column + steps);
    else if (sign === "@") this.lines[this.row] = (line.slice(0, this.column) + " ".repeat(steps) + line.slice(this.column)).slice(0, this.columns);
    else if (sign === "C") this.column = Math.min(this.columns - 1, this.column + steps);
    else if (sign === "D") this.column = Math.max(0, this.column - steps);
    else if (sign === "G") this.column = steps - 1;
    else if (sign === "A") this.row = Math.max(0, this.row - steps);
    else if (sign === "B") for (let step = 0; step < steps; step++) this.down();
    else if (sign === "J" && count >= 2) Object.assign(this, { lines: [""], row: 0, column: 0 });
    else if (sign === "J") this.lines.splice(this.row + 1);
    else if (sign === "H" && this.lines.length < 2) this.column = 0;
  }

  /** All lines, with a mark where the cursor is. */
  text() {
    const line = this.lines[this.row].padEnd(this.column);
    const present = `${line.slice(0, this.column)}\u2588${line.slice(this.column + 1)}`;
    return this.lines.map((other, row) => (row === this.row ? present : other)).join("\n");
  }
}
