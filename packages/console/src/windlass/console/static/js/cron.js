// Timetables of five fields, as cron writes them: the next times, by the clock of their own zone.

const FIELDS = [[0, 59], [0, 23], [1, 31], [1, 12], [0, 7]];
const NAMES = { 3: "jan feb mar apr may jun jul aug sep oct nov dec".split(" "), 4: "sun mon tue wed thu fri sat".split(" ") };
const DAY = 86400000;
const MOST_DAYS = 1500; // the 29th of February comes within four years

/** The numbers of each field; null if the text is no timetable. */
export function parseCron(text) {
  const parts = text.trim().toLowerCase().split(/\s+/);
  if (parts.length !== 5) return null;
  const fields = parts.map(numbersOf);
  if (fields.some((numbers) => !numbers)) return null;
  if (fields[4].has(7)) fields[4].add(0);
  return { fields, isAnyDay: parts[2].startsWith("*"), isAnyWeekday: parts[4].startsWith("*") };
}

function numbersOf(text, index) {
  const [least, most] = FIELDS[index];
  const found = new Set();
  for (const part of text.split(",")) {
    const [, range, , step] = /^(\*|[\w]+(-[\w]+)?)(?:\/(\d+))?$/.exec(part) || [];
    if (!range || step === "0") return null;
    const [first, last] = range === "*" ? [least, most] : range.split("-").map((word) => number(word, index));
    const end = last ?? (step ? most : first);
    if (!(first >= least && end <= most && first <= end)) return null;
    for (let value = first; value <= end; value += Number(step || 1)) found.add(value);
  }
  return found;
}

function number(word, index) {
  const named = NAMES[index]?.indexOf(word) ?? -1;
  return named >= 0 ? named + (index === 3 ? 1 : 0) : /^\d+$/.test(word) ? Number(word) : NaN;
}

/** The next times of a timetable, as dates whose UTC clock is that of the zone. */
export function nextTimes(cron, zone, count, from = new Date()) {
  const { fields: [minutes, hours, days, months, weekdays], isAnyDay, isAnyWeekday } = cron;
  const now = clockIn(zone, from);
  const found = [];
  for (let day = Math.floor(now / DAY) * DAY, left = MOST_DAYS; left > 0 && found.length < count; day += DAY, left--) {
    const date = new Date(day);
    const [isDay, isWeekday] = [days.has(date.getUTCDate()), weekdays.has(date.getUTCDay())];
    // If both days are named, one of them is enough.
    if (!months.has(date.getUTCMonth() + 1) || !(isAnyDay || isAnyWeekday ? isDay && isWeekday : isDay || isWeekday)) continue;
    for (const hour of sorted(hours)) for (const minute of sorted(minutes)) {
      const at = day + (hour * 60 + minute) * 60000;
      if (at > now && found.length < count) found.push(new Date(at));
    }
  }
  return found;
}

const sorted = (numbers) => [...numbers].sort((one, other) => one - other);

// The moment that the clock of a zone shows, read as one of UTC.
function clockIn(zone, moment) {
  const parts = Object.fromEntries(new Intl.DateTimeFormat("en-GB", { timeZone: zone, year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric", hourCycle: "h23" }).formatToParts(moment).map(({ type, value }) => [type, Number(value)]));
  return Date.UTC(parts.year, parts.month - 1, parts.day, parts.hour, parts.minute, parts.second);
}
